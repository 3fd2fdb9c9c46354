/** What `rampart integrity check` does to files and baseline: init, check, update, import. */
import { createReadStream } from 'node:fs';
import { link, rename, unlink } from 'node:fs/promises';

import manifest from '../../package.json' with { type: 'json' };
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import type { AideConf } from '../../systems/file-integrity/aide-conf/conf.ts';
import { checksums, refusedChecksums } from '../../systems/file-integrity/attributes.ts';
import type { Batch, Batches } from '../../systems/file-integrity/batches.ts';
import { Comparison } from '../../systems/file-integrity/compare.ts';
import { onlyEntries } from '../../systems/file-integrity/database/entry-block.ts';
import { openBaseline, type Baseline } from '../../systems/file-integrity/database/read-baseline.ts';
import { replaceFile } from '../../systems/file-integrity/database/replace-file.ts';
import type { SigningKey, VerifyingKey } from '../../systems/file-integrity/database/signature.ts';
import { writeBaseline } from '../../systems/file-integrity/database/write-baseline.ts';
import type { Entry, ScanProblem } from '../../systems/file-integrity/entry.ts';
import type { ScanProgress } from '../../systems/file-integrity/provider.ts';
import { collectReport } from '../../systems/file-integrity/report/collect.ts';
import {
  exitBits,
  type Report,
  type ReportOptions,
  type RunFacts,
} from '../../systems/file-integrity/report/report.ts';
import { Scanner, type ScanOptions } from '../../systems/file-integrity/scan/scanner.ts';
import type { ThreadPool } from '../../systems/file-integrity/scan/thread-pool.ts';
import { say } from '../process.ts';
import { aideExit } from './exit-codes.ts';
import { ProgressBar } from './progress-bar.ts';
import { Tee } from './tee.ts';
import { withUnreadKept } from './unread-kept.ts';

export interface CheckJob {
  readonly conf: AideConf;
  readonly configName: string;
  readonly configDigest: string;
  readonly root: string;
  /** The baseline. Its directory exists where it is going to be written. */
  readonly db: string;
  readonly key: VerifyingKey;
  /** For what writes. */
  readonly signingKey: SigningKey | undefined;
  readonly report: ReportOptions;
  /** Of `root`; used up by one init or check. */
  readonly threads: ThreadPool;
  readonly signal: AbortSignal;
}

export interface Done {
  readonly report: Report;
  readonly facts: RunFacts;
  readonly exitCode: number;
}

type Expected = NonNullable<ScanOptions['expected']>;

/** Problems that are told one by one; the rest is counted. */
const MOST_PROBLEMS = 10_000;

/** @throws {RampartError}: the baseline is as it was */
export async function initFiles(job: CheckJob): Promise<Done> {
  const startedMs = Date.now();
  using bar = new ProgressBar(process.stderr);
  // Only to know how much there is.
  const expected = bar.isShown ? await expectedOfOld(job) : undefined;
  await using scanner = new Scanner(job.threads);
  const problems: ScanProblem[] = [];
  let problemCount = 0;
  const entries = onlyEntries(scan(scanner, job, bar, { expected, isLast: true }), (problem) => {
    if (++problemCount <= MOST_PROBLEMS) problems.push(problem);
  });
  const total = await write(job, entries);
  const counts = { total, added: 0, removed: 0, changed: 0, problems: problemCount };
  const omitted = problemCount - problems.length;
  const report: Report = { counts, changes: [], redefined: [], problems, omitted };
  return { report, facts: factsOf(job, 'init', startedMs), exitCode: 0 };
}

/**
 * @throws {BaselineError} where the baseline cannot be trusted; {RampartError}: the baseline is as it was
 */
export async function checkFiles(job: CheckJob, mode: 'check' | 'update'): Promise<Done> {
  const startedMs = Date.now();
  const { signal } = job;
  await using baseline = await openBaseline(job.db, job.key);
  if (baseline.header.configDigest !== job.configDigest && baseline.header.about['madeBy'] !== 'import')
    say(`warning: the baseline was created with a configuration other than the current ${job.configName}`);
  const { root: madeOf = job.root } = baseline.header.about;
  if (madeOf !== job.root)
    say(`warning: the baseline was created from the files under ${madeOf}, not under ${job.root}`);
  using bar = new ProgressBar(process.stderr);
  const expected = bar.isShown ? expectedOf(baseline) : undefined;
  await using scanner = new Scanner(job.threads);
  const now = scan(scanner, job, bar, { expected });
  const tee = mode === 'update' ? new Tee(now) : undefined;
  const comparison = new Comparison({
    old: baseline.entries(signal),
    now: tee?.main() ?? now,
    oldAttributes: baseline.counts.attributes,
    digestStart: (entry, sizeBytes, aborted = signal) => scanner.digestStart(entry, sizeBytes, aborted),
    signal,
  });
  const reading = collectReport({ differences: comparison, totals: comparison.totals, options: job.report });
  const writing =
    tee === undefined
      ? undefined
      : write(job, withUnreadKept(baseline.entries(signal), tee.copy()), { compared: reading });
  // Both have ended before anything is closed. What the scan says goes before what its copy lacks.
  const [read, written] = await Promise.allSettled([reading, writing]);
  if (read.status === 'rejected') throw read.reason;
  if (written.status === 'rejected') throw written.reason;
  const report = read.value;
  const bits = exitBits(report.counts);
  const exitCode = bits === 0 && report.counts.problems > 0 ? aideExit.io : bits;
  return { report, facts: factsOf(job, mode, startedMs), exitCode };
}

/** Takes a database of AIDE as the baseline. @throws {RampartError}: the baseline is as it was */
export async function importDatabase(job: CheckJob, path: string): Promise<void> {
  let refused: readonly string[] = [];
  let withoutChecksum = 0;
  const onColumns = (names: readonly string[]): void => {
    refused = names.filter((name) => refusedChecksums.has(name));
  };
  async function* counted(entries: Batches<Entry>): AsyncGenerator<Batch<Entry>, void, undefined> {
    for await (const batch of entries) {
      for (const { type, attributes } of batch)
        if (type === 'f' && (attributes & checksums) === 0) withoutChecksum++;
      yield batch;
    }
  }
  // A check needs neither, and starts sooner without them.
  const [{ readAideDatabase }, { sortEntries }] = await Promise.all([
    import('../../systems/file-integrity/database/aide-database.ts'),
    import('../../systems/file-integrity/database/sort-entries.ts'),
  ]);
  const entries = sortEntries(readAideDatabase(path, { signal: job.signal, onColumns }), job.signal);
  const total = await write(job, counted(entries), { madeBy: 'import' });
  say(`${total} entries of ${path} imported as the baseline ${job.db}`);
  if (refused.length === 0) return;
  say(
    `warning: its checksums ${refused.join(', ')} are not used because FIPS 140-3 does not approve them` +
      (withoutChecksum === 0
        ? ''
        : `; ${withoutChecksum} files have no other checksum, so their content is not compared`),
  );
}

function scan(
  scanner: Scanner,
  { conf, signal }: CheckJob,
  bar: ProgressBar,
  { expected, isLast = false }: { readonly expected: Expected | undefined; readonly isLast?: boolean },
): Batches<Entry | ScanProblem> {
  const onProgress = bar.isShown ? (progress: ScanProgress): void => bar.show(progress) : undefined;
  const [stream] = scanner.scan([conf], {
    signal,
    isLast,
    onProgress,
    expected,
  });
  if (stream === undefined) throw new Error('a scan of one configuration has no stream');
  return stream;
}

/** @param compared - What has to be told of the entries: what cannot be told is not taken. */
async function write(
  job: CheckJob,
  entries: Batches<Entry>,
  { madeBy = 'check', compared }: { readonly madeBy?: string; readonly compared?: Promise<unknown> } = {},
): Promise<number> {
  const { db: path, root, signingKey: key, configDigest, signal } = job;
  if (key === undefined)
    throw new RampartError(errorCodes.INPUT, { what: 'there is no key to sign the baseline with' });
  // Of a database of AIDE nobody knows where its files are.
  const about = { madeBy, ...(madeBy !== 'import' && { root }) };
  const header = { rampartVersion: manifest.version, madeAtMs: Date.now(), configDigest, about };
  async function* last(): AsyncGenerator<Batch<Entry>, void, undefined> {
    yield* entries;
    await compared;
    // Everything was seen: the one before stays beside the new one.
    await keepOld(path);
  }
  return (await writeBaseline({ path, key, header, entries: last(), signal })).entries;
}

/** Of link(2): of no file system without second names (FAT on a USB stick), not of this file, or not any more. */
const withoutLinks: ReadonlySet<unknown> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EMLINK']);

/** As `<baseline>.old`, a second name where there can be one, so that at no moment there is none. */
async function keepOld(path: string): Promise<void> {
  const old = `${path}.old`;
  const temporary = `${old}.new.${process.pid}`;
  // In a container every process may have the number of one that was killed right here.
  await unlink(temporary).catch(() => undefined);
  try {
    await link(path, temporary);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return;
    if (withoutLinks.has(code)) {
      return await replaceFile(old, async (file) => file.writeFile(createReadStream(path)));
    }
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot write ${old}`,
      why: (error as Error).message,
      next: 'The baseline is unchanged',
      cause: error,
    });
  }
  await rename(temporary, old);
  await unlink(temporary).catch(() => undefined);
}

async function expectedOfOld({ db, key }: CheckJob): Promise<ReturnType<typeof expectedOf> | undefined> {
  try {
    await using baseline = await openBaseline(db, key);
    return expectedOf(baseline);
  } catch {
    // None, or one that is about to be replaced.
    return undefined;
  }
}

/** What a scan is going to read, if all is as it was. */
function expectedOf({ counts }: Baseline): { files: number; bytes: number } {
  return { files: counts.entries, bytes: counts.contentBytes };
}

function factsOf({ conf, db }: CheckJob, action: RunFacts['action'], startedMs: number): RunFacts {
  const configVersion = conf.options.get('config_version')?.value;
  return {
    ...{ action, startedMs, endedMs: Date.now(), program: `Rampart ${manifest.version}` },
    ...(action !== 'check' && { written: db }),
    ...(configVersion !== undefined && { configVersion }),
  };
}
