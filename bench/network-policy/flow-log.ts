/** What logging allowed connections costs them, and this process: TCP connects to the last of 1,000 pods. */
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
import { Path } from './packets.ts';
import { Scene } from './scene.ts';

const PODS = 1000;
const POLICIES = 500;
const CONNECTS = 10_000;
const port = 8080;

/** Connections a second, by what is shown; undefined: off. */
const limits = [
  ['no flow log', undefined],
  ['10 a second', 10],
  ['1,000 a second', 1000],
] as const;

interface Measured {
  readonly perSecond: number;
  readonly connectUs: number;
  /** CPU time of this process for each connection. */
  readonly cpuUs: number;
  readonly counts: NodeCounts;
}

export async function flowLog(options: PartOptions): Promise<Report> {
  requirePrograms({ gcc: 'gcc', iperf3: 'iperf3', nft: 'nftables' });
  const shrunk = (count: number, least: number): number => Math.max(least, Math.ceil(count / options.shrink));
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
  const told = (): number => counts.flowsLogged + counts.flowsNotLogged + counts.flowsLost;
  const expected = limit === undefined ? 0 : connects;
  while (told() < expected) {
    signal.throwIfAborted();
    await delay(1);
  }
  const { user, system } = process.cpuUsage(cpu);
  const totalNs = timesNs.reduce((sum, time) => sum + time, 0);
  return {
    perSecond: (connects / totalNs) * 1e9,
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
  const without = found.get('no flow log') ?? [];
  const ratio = (all: readonly Measured[], of: (one: Measured) => number): number =>
    median(all.map((one, at) => of(one) / of(without[at] as Measured)));
  const rows = [...found].map(([label, all]): ReportRow => {
    const rateRatio = ratio(all, ({ perSecond }) => perSecond);
    const connectRatio = ratio(all, ({ connectUs }) => connectUs);
    // The server of the connections is in this process, too.
    const cpuUs = median(all.map((one, at) => one.cpuUs - (without[at] as Measured).cpuUs));
    const {
      flowsLogged: logged,
      flowsNotLogged: notLogged,
      flowsLost: lost,
    } = (all.at(-1) as Measured).counts;
    const perSecond = median(all.map((one) => one.perSecond));
    return {
      label,
      cells: {
        'connects/s': perSecond.toFixed(0),
        'of no log': rateRatio.toFixed(2),
        'connect p50, x no log': connectRatio.toFixed(2),
        'CPU us for each': label === 'no flow log' ? '' : cpuUs.toFixed(1),
        'logged, not, lost': label === 'no flow log' ? '' : `${logged}, ${notLogged}, ${lost}`,
      },
      values: { perSecond, rateRatio, connectRatio, cpuUs, connects, logged, notLogged, lost },
    };
  });
  const worst = Math.min(...rows.map(({ values }) => Number(values['rateRatio'])));
  return {
    title: 'Connections to the last of 1,000 pods, and a log of them',
    columns: ['connects/s', 'of no log', 'connect p50, x no log', 'CPU us for each', 'logged, not, lost'],
    rows,
    verdicts: [
      {
        target: 'connects a second at least 0.9 of those without the log',
        measured: worst.toFixed(2),
        met: worst >= 0.9,
      },
    ],
    notes: [
      'nftables. From a namespace through the node to another one; ratios are computed within a round. Connects a second: one after the other.',
      'The log shares its process with the server of the connections: CPU time is what comes on top. Counts are of the last round.',
    ],
  };
}
