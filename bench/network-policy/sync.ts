/**
 * A full sync of a node with 1,000 pods and 500 policies, next to what the programs of nftables and iptables take for the
 * same rules.
 */
import { KeptNamespace } from '../../guards/network-policy/dataplane/namespace.ts';
import { requirePrograms } from '../programs.ts';
import { median, type PartOptions, type Report, type ReportRow, type Verdict } from '../report.ts';
import { type Backend, backendPrograms, backends, dump, loadMs, openDataplane } from './backends.ts';
import { Scene } from './scene.ts';

const PODS = 1000;
const POLICIES = 500;
const maxRatio: Readonly<Record<Backend, number>> = {
  nftables: 1.3,
  'iptables-nft': 1.5,
  'iptables-legacy': 1.5,
};
const maxCompileMs = 250;

export async function sync(options: PartOptions): Promise<Report> {
  requirePrograms({ nft: 'nftables', ...backendPrograms });
  const size = [Math.ceil(PODS / options.shrink), Math.ceil(POLICIES / options.shrink)] as const;
  const scenes = Array.from({ length: Math.min(options.rounds, 5) }, () => new Scene(...size));
  const compileMs = median(scenes.map((each) => each.compileMs));
  const [scene] = scenes;
  if (scene === undefined) throw new Error('no rounds');
  const rows: ReportRow[] = [];
  const verdicts: Verdict[] = [
    {
      target: `compile at most ${maxCompileMs} ms`,
      measured: `${compileMs.toFixed(0)} ms`,
      met: compileMs <= maxCompileMs,
    },
  ];
  for (const backend of backends) {
    const times = {
      first: [] as number[],
      programs: [] as number[],
      ratio: [] as number[],
      again: [] as number[],
    };
    for (let round = 0; round < scenes.length; round++) {
      options.signal.throwIfAborted();
      options.progress(`sync: ${backend}, round ${round + 1}`);
      using namespace = KeptNamespace.create();
      using dataplane = namespace.run(() => openDataplane(backend));
      const first = await timed(() => dataplane.sync(scene.engine.rules, options.signal));
      const programs = loadMs(dump(backend, namespace));
      times.first.push(first);
      times.programs.push(programs);
      times.ratio.push(first / programs);
      times.again.push(await timed(() => dataplane.sync(scene.engine.rules, options.signal)));
    }
    const ratio = median(times.ratio);
    rows.push({
      label: backend,
      cells: {
        'sync ms': median(times.first).toFixed(0),
        'programs ms': median(times.programs).toFixed(0),
        'x programs': ratio.toFixed(2),
        'nothing to do ms': median(times.again).toFixed(0),
      },
      values: {
        syncMs: median(times.first),
        programsMs: median(times.programs),
        ratio,
        againMs: median(times.again),
      },
    });
    verdicts.push({
      target: `${backend}: at most ${maxRatio[backend]} x the programs`,
      measured: ratio.toFixed(2),
      met: ratio <= maxRatio[backend],
    });
  }
  return {
    title: `A full sync, from nothing: ${size[0]} pods of the node, ${size[1]} policies`,
    columns: ['sync ms', 'programs ms', 'x programs', 'nothing to do ms'],
    rows,
    verdicts,
    notes: [
      'programs: nft -f; ipset restore, then iptables-restore and ip6tables-restore, of what the sync has made.',
      'A sync reads first what is there, then compares. Ratios are of one round each; the median is told.',
    ],
  };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const beganMs = performance.now();
  await work();
  return performance.now() - beganMs;
}
