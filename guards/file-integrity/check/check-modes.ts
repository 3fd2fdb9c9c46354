/** The effects of `rampart integrity check` on files and baseline: init, check, update, import. */
import { createReadStream } from 'node:fs';
import { link, rename, unlink } from 'node:fs/promises';

import manifest from '../../../package.json' with { type: 'json' };
import { errorCodes, fileError, RampartError } from '../../../lib/errors/errors.ts';
import type { AideConf } from '../aide-conf/conf.ts';
import { checksums, refusedChecksums } from '../model/attributes.ts';
import type { Batch, Batches } from '../model/batches.ts';
import { Comparison } from '../compare/compare.ts';
import { onlyEntries } from '../database/entry-block.ts';
import { openBaseline, type Baseline } from '../database/read-baseline.ts';
import { replaceFile } from '../database/replace-file.ts';
import type { SigningKey, VerifyingKey } from '../database/signature.ts';
import { writeBaseline } from '../database/write-baseline.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import type { ScanProgress } from '../provider/provider.ts';
import { collectReport } from '../report/collect.ts';
import { runFacts } from './run-facts.ts';
import { Scanner, type ScanOptions } from '../scan/scanner.ts';
import type { ThreadPool } from '../scan/thread-pool.ts';
import { Tee } from './tee.ts';
import { withUnreadKept } from './unread-kept.ts';
import type { Report, ReportOptions, RunFacts } from '../model/report.ts';

export interface CheckJob {
  readonly conf: AideConf;
  readonly configName: string;
  readonly configDigest: string;
  readonly root: string;
  /** The baseline. Its directory exists if it is going to be written. */
  readonly db: string;
  readonly key: VerifyingKey;
  /** The key for modes that write a baseline. */
  readonly signingKey: SigningKey | undefined;
  readonly report: ReportOptions;
  /** Threads for `root`; used up by one init or check. */
  readonly threads: ThreadPool;
  /** Set if the progress is shown. */
  readonly onProgress: ((progress: ScanProgress) => void) | undefined;
  /** Called before the scan starts. */
  readonly onWarning: (text: string) => void;
  readonly signal: AbortSignal;
}

export interface Done {
  readonly report: Report;
  readonly facts: RunFacts;
}

export interface Imported {
  readonly entries: number;
  /** Its checksums that FIPS 140-3 does not approve, by their names in AIDE. */
  readonly refusedChecksums: readonly string[];
  /** Files that have no other. */
  readonly withoutChecksum: number;
}

/** How many problems are listed; the others are counted. */
const MAX_PROBLEMS = 10_000;

/** @throws {RampartError}: the baseline is unchanged */
export async function initFiles(job: CheckJob): Promise<Done> {
  const startedMs = Date.now();
  // Only to know how much there is.
  const expected = job.onProgress === undefined ? undefined : await expectedOfOld(job);
  await using scanner = new Scanner(job.threads);
  const problems: ScanProblem[] = [];
  let problemCount = 0;
  const entries = onlyEntries(scan(scanner, job, { expected, isLast: true }), (problem) => {
    if (++problemCount <= MAX_PROBLEMS) problems.push(problem);
  });
  const total = await write(job, entries);
  const counts = { total, added: 0, removed: 0, changed: 0, problems: problemCount };
  const omitted = problemCount - problems.length;
  const report: Report = { counts, changes: [], redefined: [], problems, omitted };
  return { report, facts: factsOf(job, 'init', startedMs) };
}

/** @throws {BaselineError} if the baseline cannot be trusted; {RampartError}: the baseline is unchanged */
export async function checkFiles(job: CheckJob, mode: 'check' | 'update'): Promise<Done> {
  const startedMs = Date.now();
  const { signal } = job;
  await using baseline = await openBaseline(job.db, job.key);
  if (baseline.header.configDigest !== job.configDigest && baseline.header.about['madeBy'] !== 'import')
    job.onWarning(`the baseline was created with a configuration other than the current ${job.configName}`);
  const { root: madeOf = job.root } = baseline.header.about;
  if (madeOf !== job.root)
    job.onWarning(`the baseline was created from the files under ${madeOf}, not under ${job.root}`);
  await using scanner = new Scanner(job.threads);
  const now = scan(scanner, job, { expected: expectedOf(baseline) });
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
  // Both have ended before anything is closed. The error of the scan precedes that of its copy.
  const [read, written] = await Promise.allSettled([reading, writing]);
  if (read.status === 'rejected') throw read.reason;
  if (written.status === 'rejected') throw written.reason;
  return { report: read.value, facts: factsOf(job, mode, startedMs) };
}

/**
 * Takes a database of AIDE as the baseline.
 *
 * @throws {RampartError}: the baseline is unchanged
 */
export async function importDatabase(job: CheckJob, path: string): Promise<Imported> {
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
    import('../database/aide-database.ts'),
    import('../database/sort-entries.ts'),
  ]);
  const entries = sortEntries(readAideDatabase(path, { signal: job.signal, onColumns }), job.signal);
  const total = await write(job, counted(entries), { madeBy: 'import' });
  return { entries: total, refusedChecksums: refused, withoutChecksum };
}

function scan(
  scanner: Scanner,
  { conf, onProgress, signal }: CheckJob,
  options: Pick<ScanOptions, 'expected' | 'isLast'>,
): Batches<Entry | ScanProblem> {
  const [stream] = scanner.scan([conf], { ...options, signal, onProgress });
  if (stream === undefined) throw new Error('a scan of one configuration has no stream');
  return stream;
}

/** @param compared - The reported entries: unreported ones are not accepted. */
async function write(
  job: CheckJob,
  entries: Batches<Entry>,
  { madeBy = 'check', compared }: { readonly madeBy?: string; readonly compared?: Promise<unknown> } = {},
): Promise<number> {
  const { db: path, root, signingKey: key, configDigest, signal } = job;
  if (key === undefined)
    throw new RampartError(errorCodes.INPUT, { what: 'there is no key to sign the baseline with' });
  // The root that an AIDE database was made from is unknown.
  const about = { madeBy, ...(madeBy !== 'import' && { root }) };
  const header = { rampartVersion: manifest.version, madeAtMs: Date.now(), configDigest, about };
  async function* last(): AsyncGenerator<Batch<Entry>, void, undefined> {
    yield* entries;
    await compared;
    // Everything was seen: the previous baseline stays beside the new one.
    await keepOld(path);
  }
  return (await writeBaseline({ path, key, header, entries: last(), signal })).entries;
}

/**
 * Errors of link(2) without hard links: by the file system (FAT on a USB stick), by this file, or
 * temporarily.
 */
const withoutLinks: ReadonlySet<unknown> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EMLINK']);

/** As `<baseline>.old`, by a hard link where possible, so that a baseline exists at every moment. */
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
    throw fileError(`cannot write ${old}`, error, 'The baseline is unchanged');
  }
  await rename(temporary, old);
  await unlink(temporary).catch(() => undefined);
}

async function expectedOfOld({ db, key }: CheckJob): Promise<ScanOptions['expected']> {
  try {
    await using baseline = await openBaseline(db, key);
    return expectedOf(baseline);
  } catch {
    // None, or one that is about to be replaced.
    return undefined;
  }
}

/** The amount that a scan will read, if nothing has changed. */
function expectedOf({ counts }: Baseline): NonNullable<ScanOptions['expected']> {
  return { files: counts.entries, bytes: counts.contentBytes };
}

function factsOf({ conf, db }: CheckJob, action: 'init' | 'check' | 'update', startedMs: number): RunFacts {
  const written = action === 'check' ? undefined : db;
  return runFacts(conf, { action, program: `Rampart ${manifest.version}`, startedMs, written });
}
