/**
 * The cost of rules for 1,000 pods for packets: TCP connects to the last of the pods, and forwarded
 * throughput to it.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { requirePrograms } from '../programs.ts';
import { median, type PartOptions, type Report, type ReportRow } from '../report.ts';
import { type Backend, backendPrograms, backends, openDataplane } from './backends.ts';
import { iperfPort, Path, port } from './path.ts';
import { Scene } from './scene.ts';

const PODS = 1000;
const POLICIES = 500;
const CONNECTS = 2000;
const SECONDS = 2;
const others = backends.filter((backend) => backend !== 'nftables');

/** Connections are tracked, and packets pass no rule. */
const idle = 'no policy' as const;
/** This many times the pods and policies: the time of a connect should not change. */
const TIMES = 10;
const large = `nftables, ${TIMES} x as many pods` as const;
type Configuration = Backend | typeof idle | typeof large;

export async function packets(options: PartOptions): Promise<Report> {
  requirePrograms({ gcc: 'gcc', iperf3: 'iperf3', ...backendPrograms });
  // The client is a pod, too.
  const [pods, policies] = [
    Math.max(20, Math.ceil(PODS / options.shrink)),
    Math.max(10, Math.ceil(POLICIES / options.shrink)),
  ];
  const [scene, largeScene] = [new Scene(pods, policies), new Scene(TIMES * pods, TIMES * policies)];
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  try {
    const connect = join(directory, 'connect');
    execFileSync('gcc', ['-O2', '-Wall', '-o', connect, join(import.meta.dirname, 'connect.c')]);
    const found = new Map<string, { connectUs: number[]; gbits: number[] }>();
    // Rounds go through all of them, each on a path of its own: ratios are of one round.
    for (let round = 0; round < Math.min(options.rounds, 5); round++) {
      for (const configuration of [undefined, idle, 'nftables', large, ...others] as const) {
        options.signal.throwIfAborted();
        const label = configuration ?? 'no rules';
        options.progress(`packets: ${label}, round ${round + 1}`);
        const of = configuration === large ? largeScene : scene;
        const { connectUs, gbits } = await measure(of, configuration, connect, options);
        const all = found.get(label) ?? { connectUs: [], gbits: [] };
        all.connectUs.push(connectUs);
        all.gbits.push(gbits);
        found.set(label, all);
      }
    }
    return report(found);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function measure(
  scene: Scene,
  configuration: Configuration | undefined,
  connect: string,
  options: PartOptions,
): Promise<{ readonly connectUs: number; readonly gbits: number }> {
  const { address, peer } = scene.lastPod;
  using path = new Path(address, peer);
  await path.serve();
  await path.serveIperf();
  using _ = configuration && (await programmed(path, configuration, scene, options.signal));
  const count = Math.max(20, Math.ceil(CONNECTS / options.shrink));
  const times = (await path.run(connect, [address, String(port), String(count)]))
    .trim()
    .split('\n')
    .map(Number);
  const seconds = options.shrink > 1 ? 1 : SECONDS;
  const iperf = await path.run('iperf3', [
    '-c',
    address,
    '-p',
    String(iperfPort),
    '-t',
    String(seconds),
    '-J',
  ]);
  const { end } = JSON.parse(iperf) as {
    readonly end: { readonly sum_received: { readonly bits_per_second: number } };
  };
  return { connectUs: median(times) / 1000, gbits: end.sum_received.bits_per_second / 1e9 };
}

async function programmed(
  path: Path,
  configuration: Configuration,
  scene: Scene,
  signal: AbortSignal,
): Promise<Disposable> {
  const backend = configuration === idle || configuration === large ? 'nftables' : configuration;
  const dataplane = path.node.run(() => openDataplane(backend));
  if (configuration === idle) await dataplane.idle(signal);
  else await dataplane.sync(scene.engine.rules, signal);
  return dataplane;
}

function report(
  found: ReadonlyMap<string, { readonly connectUs: number[]; readonly gbits: number[] }>,
): Report {
  const none = found.get('no rules');
  if (none === undefined) throw new Error('no rounds');
  const ratios = (values: readonly number[], of: readonly number[]): number =>
    median(values.map((value, at) => value / (of[at] as number)));
  const rows = [...found].map(([label, { connectUs, gbits }]): ReportRow => {
    const [connectRatio, throughputRatio] = [ratios(connectUs, none.connectUs), ratios(gbits, none.gbits)];
    return {
      label,
      cells: {
        'connect p50 us': median(connectUs).toFixed(0),
        'x no rules': connectRatio.toFixed(2),
        'Gbit/s': median(gbits).toFixed(1),
        'of no rules': throughputRatio.toFixed(2),
      },
      values: { connectUs: median(connectUs), connectRatio, gbits: median(gbits), throughputRatio },
    };
  });
  const nftables = rows.find(({ label }) => label === 'nftables')?.values;
  const [connect, throughput] = [Number(nftables?.['connectRatio']), Number(nftables?.['throughputRatio'])];
  const growth = ratios(found.get(large)?.connectUs ?? [], found.get('nftables')?.connectUs ?? []);
  return {
    title: 'Packets to the last of 1,000 pods',
    columns: ['connect p50 us', 'x no rules', 'Gbit/s', 'of no rules'],
    rows,
    verdicts: [
      {
        target: 'nftables: TCP connect p50 at most 1.2 x no rules',
        measured: connect.toFixed(2),
        met: connect <= 1.2,
      },
      {
        target: `nftables: TCP connect p50 with ${TIMES} x as many pods and policies at most 1.05 x`,
        measured: growth.toFixed(2),
        met: growth <= 1.05,
      },
      {
        target: 'nftables: throughput at least 0.97 of no rules',
        measured: throughput.toFixed(2),
        met: throughput >= 0.97,
      },
    ],
    notes: [
      'From a namespace through the node to another one; the client is a peer that the policies allow. iperf3, one stream.',
      'With iptables a packet goes through the rules of all pods before it comes to its own.',
    ],
  };
}
