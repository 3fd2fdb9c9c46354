/**
 * Growth: the CPU time of one compared file against that of a whole scan, and memory against the number of
 * entries.
 */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';

import { median, type PartOptions, type Report } from '../report.ts';
import { runNative } from './processes.ts';
import { Tree } from './trees.ts';

const FILES = 100_000;
const LINKS = 1_000_000;
const MAX_ROUNDS = 3;
const LOOK_TARGET = 0.01;
const BYTES_TARGET = 200;
const rules = '/ ftype+p+u+g+n+sha256';

/** One changed file among 100,000. */
export async function oneFile({ shrink, rounds, signal, progress }: PartOptions): Promise<Report> {
  const files = Math.max(200, Math.round(FILES / shrink));
  progress(`one-file: making ${files} files`);
  using tree = Tree.ofFiles(files);
  await runNative(tree, 'init', rules, signal);
  const scans: number[] = [];
  const looks: number[] = [];
  for (let round = 0; round < Math.min(rounds, MAX_ROUNDS); round++) {
    progress(`one-file: round ${round + 1}`);
    appendFileSync(join(tree.root, tree.oneFile), 'x');
    scans.push((await runNative(tree, 'check', rules, signal)).scanCpuMs);
    const { lookCpuMs, entries } = await runNative(tree, tree.oneFile, rules, signal);
    if (entries === 0) throw new Error(`${tree.oneFile} was not seen`);
    looks.push(lookCpuMs);
  }
  const [scanMs, lookMs] = [median(scans), median(looks)];
  const share = lookMs / scanMs;
  return {
    title: `One file of ${files.toLocaleString('en')} is looked at again`,
    columns: ['CPU ms', 'x scan'],
    rows: [
      {
        label: 'a check of all',
        cells: { 'CPU ms': scanMs.toFixed(0), 'x scan': '1' },
        values: { cpuMs: scanMs },
      },
      {
        label: 'a look at one',
        cells: { 'CPU ms': lookMs.toFixed(3), 'x scan': share.toPrecision(2) },
        values: { cpuMs: lookMs, share },
      },
    ],
    verdicts: [
      {
        target: `at most ${LOOK_TARGET * 100} % of a scan's CPU`,
        measured: `${(share * 100).toPrecision(2)} %`,
        met: share <= LOOK_TARGET,
      },
    ],
    notes: ['CPU of all threads, without starting Node.js; the look is the mean of 200 in a warm process.'],
  };
}

/** A tenth of a million entries, and a million. */
export async function memory({ shrink, signal, progress }: PartOptions): Promise<Report> {
  const counts = [LINKS / 10, LINKS].map((count) => Math.max(1000, Math.round(count / shrink)));
  const rows: Report['rows'][number][] = [];
  const sizes: Record<'init' | 'check', number[]> = { init: [], check: [] };
  for (const count of counts) {
    progress(`memory: making ${count} names`);
    using tree = Tree.ofLinks(count);
    for (const what of ['init', 'check'] as const) {
      progress(`memory: ${what} of ${count}`);
      const { rssMiB, wallMs, entries } = await runNative(tree, what, rules, signal);
      sizes[what].push(rssMiB);
      rows.push({
        label: `${what}, ${entries.toLocaleString('en')} entries`,
        cells: { 'RSS MiB': rssMiB.toFixed(1), 'wall ms': wallMs.toFixed(0) },
        values: { rssMiB, wallMs, entries },
      });
    }
  }
  const more = (counts[1] ?? 0) - (counts[0] ?? 0);
  return {
    title: 'Memory and the number of entries',
    columns: ['RSS MiB', 'wall ms'],
    rows,
    verdicts: (['init', 'check'] as const).map((what) => {
      const bytes = (((sizes[what][1] ?? 0) - (sizes[what][0] ?? 0)) * 1024 * 1024) / more;
      return {
        target: `${what}: at most ${BYTES_TARGET} bytes an entry more`,
        measured: `${bytes.toFixed(0)} bytes`,
        met: bytes <= BYTES_TARGET,
      };
    }),
    notes: [
      'The largest RSS of the whole process, all threads. The files are names of few inodes, of 100 bytes each.',
    ],
  };
}
