/** This guard's share of an idle agent: resident memory with it and without it. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { guards } from '../../apps/guards.ts';
import { installResources } from '../../apps/resources.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Lab, ownNetwork } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { ServerProcess } from '../apiserver/server-process.ts';
import { endProcess } from '../end-process.ts';
import { usageOf } from '../file-access/usage.ts';
import { median, type PartOptions, type Report, type ReportRow } from '../report.ts';

const command = join(import.meta.dirname, '../../bin/rampart');
/** It has a part on nodes, but uses neither containers nor kernel programs while it has no objects. */
const OTHER = 'file-integrity';
const TIMES = 5;
/** The agent gives memory back in the first pause of 5 s. */
const SETTLE_MS = 15_000;
const MAX_ADDED_MIB = 8;
const END_WAIT_MS = 10_000;

/** @throws {Error} without root. */
export async function rest({ shrink, signal, progress }: PartOptions): Promise<Report> {
  ownNetwork();
  await using stack = new AsyncDisposableStack();
  const server = stack.use(new ServerProcess());
  await server.start(signal);
  const client = stack.use(new KubeClient(findClusterAccess({ path: server.kubeconfig }), { burst: 1000 }));
  await installResources(client, guards, signal);
  const found = { without: [] as number[], with: [] as number[] };
  const times = Math.max(1, Math.round(TIMES / shrink));
  // From the sources the first start fills the compile cache.
  for (let time = -1; time < times; time++) {
    for (const which of ['without', 'with'] as const) {
      progress(`rest: ${which} this guard, ${time < 0 ? 'not counted' : `${time + 1} of ${times}`}`);
      const names = which === 'with' ? `${OTHER},bpf-programs` : OTHER;
      const rssMiB = await atRest(server.kubeconfig, names, time < 0 ? 0 : SETTLE_MS / shrink, signal);
      if (time >= 0) found[which].push(rssMiB);
    }
  }
  const [without, withIt] = [median(found.without), median(found.with)];
  const row = (label: string, rssMiB: number): ReportRow => ({
    label,
    cells: { RSS: `${rssMiB.toFixed(1)} MiB` },
    values: { rssMiB },
  });
  return {
    title: '`rampart agent` at rest, with no eBPF programs asked for',
    columns: ['RSS'],
    rows: [row(`with ${OTHER} alone`, without), row('and with bpf-programs', withIt)],
    verdicts: [
      {
        target: `at most ${MAX_ADDED_MIB} MiB over the agent without this guard`,
        measured: `${(withIt - without).toFixed(1)} MiB`,
        met: withIt - without <= MAX_ADDED_MIB,
      },
    ],
    notes: [
      `From the sources; the median of ${times}, in turn, ${SETTLE_MS / shrink / 1000} s after the start.`,
    ],
  };
}

async function atRest(
  kubeconfig: string,
  names: string,
  settleMs: number,
  signal: AbortSignal,
): Promise<number> {
  await using lab = new Lab();
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  const child = spawn(
    command,
    [
      ...[
        'agent',
        '--guards',
        names,
        '--node-name',
        'bench',
        '--kubeconfig',
        kubeconfig,
        '--metrics',
        '127.0.0.1:0',
      ],
      ...['--cri-socket', join(directory, 'none.sock'), '--alerts-socket', join(directory, 'alerts.sock')],
      ...[
        '--integrity-directory',
        join(directory, 'integrity'),
        '--bpffs',
        lab.bpffs,
        '--bpf-state',
        lab.state,
      ],
    ],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, HOME: directory } },
  );
  try {
    let said = '';
    let url: string | undefined;
    for await (const line of createInterface({ input: child.stderr })) {
      said += `${line}\n`;
      url = /metrics on ([^\s"]+)/.exec(line)?.[1];
      if (url !== undefined) break;
    }
    if (url === undefined) throw new Error(`the agent ended: ${said}`);
    child.stderr.resume();
    await until('the agent has listed what it needs', async () => (await fetch(new URL('/readyz', url))).ok);
    await sleep(settleMs, undefined, { signal });
    return usageOf(child.pid ?? 0).rssMiB;
  } finally {
    await endProcess(child, END_WAIT_MS);
    rmSync(directory, { recursive: true, force: true });
  }
}
