/**
 * The cost of logging allowed connections, for them and for this process: TCP connects to the last of 1,000
 * pods.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { FlowLog, type FlowLogOptions } from '../../guards/network-policy/node/flows/flow-log.ts';
import { NodeCounts } from '../../guards/network-policy/node/metrics.ts';
import { requirePrograms } from '../programs.ts';
import { median, type PartOptions, type Report, type ReportRow } from '../report.ts';
import { openDataplane } from './backends.ts';
import { Path, port } from './path.ts';
import { Scene } from './scene.ts';

const PODS = 1000;
const POLICIES = 500;
const CONNECTS = 10_000;

const off = 'no flow log';
/** Connections a second, by what is shown; undefined: off. */
const limits = [
  [off, undefined],
  ['10 a second', 10],
  ['1,000 a second', 1000],
] as const;

interface Measured {
  readonly connectUs: number;
  /** CPU time of this process for each connection. */
  readonly cpuUs: number;
  readonly counts: NodeCounts;
}

export async function flowLog(options: PartOptions): Promise<Report> {
  requirePrograms({ gcc: 'gcc' });
  const shrunk = (count: number, min: number): number => Math.max(min, Math.ceil(count / options.shrink));
  const scene = new Scene(shrunk(PODS, 20), shrunk(POLICIES, 10));
  const connects = shrunk(CONNECTS, 20);
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  try {
    const connect = join(directory, 'connect');
    execFileSync('gcc', ['-O2', '-Wall', '-o', connect, join(import.meta.dirname, 'connect.c')]);
    const found = new Map<string, Measured[]>(limits.map(([label]) => [label, []]));
    for (let round = 0; round < options.rounds; round++) {
      for (const [label, limit] of limits) {
        options.signal.throwIfAborted();
        options.progress(`flow-log: ${label}, round ${round + 1}`);
        found.get(label)?.push(await measure(scene, limit, connect, connects, options.signal));
      }
    }
    return report(found, connects);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function measure(
  scene: Scene,
  limit: number | undefined,
  connect: string,
  connects: number,
  signal: AbortSignal,
): Promise<Measured> {
  const { address, peer } = scene.lastPod;
  using path = new Path(address, peer);
  await path.serve();
  using dataplane = path.node.run(() => openDataplane('nftables'));
  await dataplane.sync(scene.engine.rules, signal);
  const counts = new NodeCounts();
  using log =
    limit === undefined
      ? undefined
      : new FlowLog({
          ...{ engine: scene.engine, objects: objectsOf(scene), counts, perSecond: limit },
          context: { nodeName: 'node', logger: console as never, sink: () => undefined },
          inNetwork: (work) => path.node.run(work),
        });
  log?.open();
  if (log?.problem !== undefined) throw new Error(log.problem);
  const cpu = process.cpuUsage();
  const timesNs = (await path.run(connect, [address, String(port), String(connects)]))
    .trim()
    .split('\n')
    .map(Number);
  const reported = (): number => counts.flowsLogged + counts.flowsNotLogged + counts.flowsLost;
  const expected = limit === undefined ? 0 : connects;
  while (reported() < expected) {
    signal.throwIfAborted();
    await delay(1);
  }
  const { user, system } = process.cpuUsage(cpu);
  return {
    connectUs: median(timesNs) / 1000,
    cpuUs: (user + system) / connects,
    counts,
  };
}

function objectsOf({ pods, policies }: Scene): FlowLogOptions['objects'] {
  const byKey = <T extends { readonly metadata: object }>(all: readonly T[]): Map<string, T> =>
    new Map(
      all.map((one) => {
        const { namespace, name } = one.metadata as { readonly namespace: string; readonly name: string };
        return [`${namespace}/${name}`, one];
      }),
    );
  return { pods: byKey(pods), policies: byKey(policies), namespaces: new Map() } as never;
}

function report(found: ReadonlyMap<string, readonly Measured[]>, connects: number): Report {
  const without = found.get(off) ?? [];
  const rows = [...found].map(([label, all]): ReportRow => {
    const inRound = (of: (one: Measured, other: Measured) => number): number =>
      median(all.map((one, at) => of(one, without[at] as Measured)));
    const connectUs = median(all.map((one) => one.connectUs));
    const connectRatio = inRound((one, other) => one.connectUs / other.connectUs);
    // The server of the connections is in this process, too.
    const cpuUs = inRound((one, other) => one.cpuUs - other.cpuUs);
    const {
      flowsLogged: logged,
      flowsNotLogged: notLogged,
      flowsLost: lost,
    } = (all.at(-1) as Measured).counts;
    return {
      label,
      cells: {
        'connect p50 us': connectUs.toFixed(0),
        'x no log': connectRatio.toFixed(2),
        ...(label !== off && {
          'CPU us for each': cpuUs.toFixed(1),
          'logged, not, lost': `${logged}, ${notLogged}, ${lost}`,
        }),
      },
      values: { connectUs, connectRatio, cpuUs, connects, logged, notLogged, lost },
    };
  });
  const worst = Math.max(...rows.map(({ values }) => Number(values['connectRatio'])));
  return {
    title: 'Connections to the last of 1,000 pods, and a log of them',
    columns: ['connect p50 us', 'x no log', 'CPU us for each', 'logged, not, lost'],
    rows,
    verdicts: [
      { target: 'TCP connect p50 at most 1.2 x no log', measured: worst.toFixed(2), met: worst <= 1.2 },
    ],
    notes: [
      'nftables. From a namespace through the node to another one, one connect after the other; ratios are computed within a round.',
      'The log shares its process with the server of the connections: CPU time is what comes on top. Counts are of the last round.',
    ],
  };
}
