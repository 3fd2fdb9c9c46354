/** Init and check beside Debian's AIDE with two workers: of the same tree, with the same rules, in turns. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { median, type PartOptions, type Report, type ReportRow, type Verdict } from '../report.ts';
import { runAide, runCommand, runNative, type Took, type What } from './processes.ts';
import { Tree } from './trees.ts';

const FILES = 100_000;
const FLAT_FILES = 40_000;
const RSS_TARGET_MIB = 200;
const MAX_ROUNDS = 3;
/** AIDE takes 40 s for its check of one large directory on a quiet machine, and minutes on a busy one. */
const MAX_AIDE_MS = 120_000;

const quick = '/ ftype+p+u+g+n+sha256';
const all = '/ ftype+p+u+g+n+sha512+acl+xattrs';

interface Contest {
  readonly label: string;
  readonly rules: string;
  /** How many times as fast ours has to be. */
  readonly targets: Readonly<Partial<Record<What, number>>>;
}

/** Trees of 100,000 files and 1 GB. */
export async function tree(options: PartOptions): Promise<Report> {
  const files = Math.max(200, Math.round(FILES / options.shrink));
  options.progress(`tree: making ${files} files`);
  using made = Tree.ofFiles(files);
  return await contest(
    made,
    options,
    `${files.toLocaleString('en')} files, ${Math.round((files * 10.45) / 1000)} MB`,
    [
      { label: 'sha256', rules: quick, targets: { init: 3, check: 6 } },
      { label: 'sha512+acl+xattrs', rules: all, targets: { check: 5 } },
    ],
  );
}

/** 40,000 files in one directory. */
export async function flat(options: PartOptions): Promise<Report> {
  const files = Math.max(200, Math.round(FLAT_FILES / options.shrink));
  options.progress(`flat: making ${files} files`);
  using made = Tree.flat(files);
  const once = { ...options, rounds: 1 };
  return await contest(made, once, `${files.toLocaleString('en')} empty files in one directory`, [
    { label: 'sha256', rules: quick, targets: { check: 20 } },
  ]);
}

async function contest(
  made: Tree,
  { rounds, signal, progress }: PartOptions,
  title: string,
  contests: readonly Contest[],
): Promise<Report> {
  const rows: ReportRow[] = [];
  const verdicts: Verdict[] = [];
  let worstMiB = 0;
  // The first start fills the cache of compiled code.
  await runNative(made, 'init', quick, signal);
  for (const { label, rules, targets } of contests) {
    const took = { init: [] as Pair[], check: [] as Pair[] };
    for (let round = 0; round < Math.min(rounds, MAX_ROUNDS); round++) {
      progress(`${label}: round ${round + 1}`);
      took.init.push(
        await inTurns(round, {
          aide: () => runAide(made, 'init', rules, signal),
          ours: () => runNative(made, 'init', rules, signal),
          command: () => runCommand(made, 'init', rules, signal),
        }),
      );
      // A check that finds nothing would prove nothing.
      const added = join(made.root, `added-${label}-${round}`);
      writeFileSync(added, 'x');
      const pair = await inTurns(round, {
        aide: () => runAide(made, 'check', rules, signal, MAX_AIDE_MS),
        ours: () => runNative(made, 'check', rules, signal),
        command: () => runCommand(made, 'check', rules, signal),
      });
      took.check.push(pair);
      // The directory has no attribute that a new file changes.
      for (const [who, { isCut, differences }] of Object.entries(pair)) {
        if (!isCut && differences !== 1)
          throw new Error(`${who} found ${differences} differences; there is 1`);
      }
      appendFileSync(added, 'y');
    }
    for (const what of ['init', 'check'] as const) {
      const pairs = took[what];
      rows.push(
        rowOf(
          `AIDE, ${label}, ${what}`,
          pairs.map(({ aide }) => aide),
        ),
      );
      const ratio = median(pairs.map(({ aide, ours }) => aide.wallMs / ours.wallMs));
      const cpuRatio = median(pairs.map(({ aide, ours }) => aide.cpuMs / ours.cpuMs));
      const ours = rowOf(
        `ours, ${label}, ${what}`,
        pairs.map((pair) => pair.ours),
      );
      worstMiB = Math.max(worstMiB, ...pairs.map((pair) => pair.ours.rssMiB));
      rows.push({
        ...ours,
        cells: { ...ours.cells, 'x AIDE': ratio.toFixed(1), 'x CPU': cpuRatio.toFixed(1) },
        values: { ...ours.values, ratio, cpuRatio },
      });
      const command = rowOf(
        `rampart integrity check, ${label}, ${what}`,
        pairs.map((pair) => pair.command),
      );
      const whole = median(pairs.map(({ aide, command: { wallMs } }) => aide.wallMs / wallMs));
      rows.push({
        ...command,
        cells: { ...command.cells, 'x AIDE': whole.toFixed(1) },
        values: { ...command.values, ratio: whole },
      });
      const target = targets[what];
      if (target === undefined) continue;
      const isCut = pairs.some(({ aide }) => aide.isCut);
      verdicts.push({
        target: `${label}, ${what}: at least ${target} x as fast as AIDE`,
        measured: `${isCut ? 'more than ' : ''}${ratio.toFixed(1)} x`,
        met: ratio >= target,
      });
    }
  }
  verdicts.push({
    target: `RSS at most ${RSS_TARGET_MIB} MiB`,
    measured: `${worstMiB.toFixed(0)} MiB`,
    met: worstMiB <= RSS_TARGET_MIB,
  });
  return {
    title,
    columns: ['wall ms', 'CPU ms', 'RSS MiB', 'x AIDE', 'x CPU'],
    rows,
    verdicts,
    notes: [
      'Processes from their start to their end, files in the page cache, both with two workers; medians, ratios within a round.',
      'Ours writes and verifies a signed baseline.',
    ],
  };
}

interface Pair {
  readonly aide: Took;
  readonly ours: Took;
  /** With the command line, the configuration, the report. */
  readonly command: Took;
}

/** Every other round backwards, so that none always follows the same one. */
async function inTurns(
  round: number,
  { aide, ours, command }: Readonly<Record<keyof Pair, () => Promise<Took>>>,
): Promise<Pair> {
  if (round % 2 === 0) return { aide: await aide(), ours: await ours(), command: await command() };
  return { command: await command(), ours: await ours(), aide: await aide() };
}

function rowOf(label: string, took: readonly Took[]): ReportRow {
  const wallMs = median(took.map((one) => one.wallMs));
  const cpuMs = median(took.map((one) => one.cpuMs));
  const rssMiB = Math.max(...took.map((one) => one.rssMiB));
  return {
    label,
    cells: { 'wall ms': wallMs.toFixed(0), 'CPU ms': cpuMs.toFixed(0), 'RSS MiB': rssMiB.toFixed(0) },
    values: { wallMs, cpuMs, rssMiB },
  };
}
