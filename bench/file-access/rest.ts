/**
 * The cost of an idle `rampart agent` with 1,000 traps on 1,000 files of 200 containers: memory, CPU time,
 * wake-ups. From the sources and built as for images; beside it Node.js with a module that does nothing.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import type { PartOptions, Report, ReportRow } from '../report.ts';
import { AgentProcess, isBuilt } from './agent-process.ts';
import { Scene } from './scene.ts';
import { type Usage, usageOf } from './usage.ts';

const PODS = 50;
const CONTAINERS_PER_POD = 4;
const TRAPS = 1000;
const TRAPS_PER_POLICY = 100;
/** The agent gives memory back in the first pause of 5 s. */
const SETTLE_MS = 15_000;
const REST_MS = 30_000;
const RSS_TARGET_MIB = 96;
/** Housekeeping, the lease and the watches of the API wake it up some times a second. */
const CPU_TARGET = 0.005;

/** @throws where containers or the sensor cannot be run. */
export async function rest(options: PartOptions): Promise<Report> {
  const { signal, progress } = options;
  const pods = Math.max(1, Math.round(PODS / options.shrink));
  const count = pods * CONTAINERS_PER_POD;
  const traps = Math.max(count, Math.round(TRAPS / options.shrink));
  progress(`rest: starting ${count} containers`);
  await using scene = await Scene.start({ pods, containersPerPod: CONTAINERS_PER_POD, signal });
  for (const { pid } of scene.containers) mkdirSync(`/proc/${pid}/root/srv`, { recursive: true });
  const wanted = Array.from({ length: traps }, (_, number) => {
    const container = scene.containers[number % count];
    const path = `/srv/trap-${number}`;
    writeFileSync(`/proc/${container?.pid}/root${path}`, 'x');
    return { path, matchAny: [{ pod: container?.pod ?? '', containerName: `^${container?.name}$` }] };
  });
  for (let from = 0; from < traps; from += TRAPS_PER_POLICY) {
    await scene.createPolicy(`policy-${from}`, wanted.slice(from, from + TRAPS_PER_POLICY));
  }
  const restMs = REST_MS / options.shrink;
  const node = await nodeAlone();
  const rows: ReportRow[] = [
    {
      label: 'Node.js, a module that does nothing',
      cells: { ...memoryCells(node), 'RSS x Node.js': '1.00' },
      values: { ...node },
    },
  ];
  const verdicts: Report['verdicts'][number][] = [];
  for (const built of isBuilt ? [true, false] : [false]) {
    const what = built ? 'built (dist/)' : 'from the sources';
    // CPU time is that of what images run; the other is for its memory.
    const forMs = built === isBuilt ? restMs : 0;
    progress(`rest: ${what}: ${(SETTLE_MS + forMs) / 1000} seconds of nothing`);
    // The first start writes the KiveData, and from the sources it fills the compile cache: nodes rest after later ones too.
    await usageAtRest(scene, { ...options, built, traps, settleMs: 0, restMs: 0 });
    const { early, late } = await usageAtRest(scene, {
      ...options,
      built,
      traps,
      settleMs: SETTLE_MS,
      restMs: forMs,
    });
    const rssMiB = Math.max(early.rssMiB, late.rssMiB);
    verdicts.push({
      target: `${what}: RSS at most ${RSS_TARGET_MIB} MiB`,
      measured: `${rssMiB.toFixed(1)} MiB`,
      met: rssMiB <= RSS_TARGET_MIB,
    });
    const row = {
      label: `agent, ${what}`,
      cells: { ...memoryCells(late), 'RSS x Node.js': (rssMiB / node.rssMiB).toFixed(2) },
      values: { ...late, worstRssMiB: rssMiB, ratioToNode: rssMiB / node.rssMiB },
    };
    if (forMs === 0) {
      rows.push(row);
      continue;
    }
    const cpuShare = (late.cpuMs - early.cpuMs) / forMs;
    const waitsPerSecond = (late.waits - early.waits) / (forMs / 1000);
    rows.push({
      ...row,
      cells: {
        ...row.cells,
        [`CPU in ${restMs / 1000} s`]: `${late.cpuMs - early.cpuMs} ms`,
        'wake-ups': `${waitsPerSecond.toFixed(1)}/s`,
      },
      values: { ...row.values, cpuShare, waitsPerSecond },
    });
    verdicts.push({
      target: `${what}: no CPU at rest (at most ${CPU_TARGET * 100} % of one)`,
      measured: `${(100 * cpuShare).toFixed(2)} %`,
      met: cpuShare <= CPU_TARGET,
    });
  }
  return {
    title: `\`rampart agent\` at rest: ${traps} traps in ${Math.ceil(traps / TRAPS_PER_POLICY)} policies, ${traps} files in ${count} containers`,
    columns: [
      'RSS',
      'anonymous',
      'files',
      'shared',
      'RSS x Node.js',
      `CPU in ${restMs / 1000} s`,
      'wake-ups',
    ],
    rows,
    verdicts,
    notes: [
      'With --metrics, as in deploy/. Files: Node.js itself (shared with other processes that run it), libraries. Shared: the ring of 8 MiB.',
      ...(isBuilt ? [] : ['dist/ is not there: `npm run build` first measures what images run.']),
    ],
  };
}

interface AtRest extends PartOptions {
  readonly built: boolean;
  readonly traps: number;
  readonly settleMs: number;
  readonly restMs: number;
}

async function usageAtRest(
  scene: Scene,
  { built, mode, traps, settleMs, restMs, signal }: AtRest,
): Promise<{ readonly early: Usage; readonly late: Usage }> {
  await using agent = new AgentProcess(scene, { mode, built });
  agent.stdout.resume();
  await agent.until('agent_ready', 1, signal);
  await agent.until('file_access_watched', traps, signal);
  await agent.until('file_access_kivedata', traps, signal);
  await sleep(settleMs, undefined, { signal });
  const early = usageOf(agent.pid);
  await sleep(restMs, undefined, { signal });
  return { early, late: usageOf(agent.pid) };
}

async function nodeAlone(): Promise<Usage> {
  const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000); console.log(1)'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(child.stdout, 'data');
    return usageOf(child.pid ?? 0);
  } finally {
    child.kill();
  }
}

function memoryCells({ rssMiB, anonymousMiB, filesMiB, sharedMiB }: Usage): Record<string, string> {
  const mib = (value: number): string => `${value.toFixed(1)} MiB`;
  return { RSS: mib(rssMiB), anonymous: mib(anonymousMiB), files: mib(filesMiB), shared: mib(sharedMiB) };
}
