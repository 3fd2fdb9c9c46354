/** The modes of `rampart integrity check`: init, check, update, import. */
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
  /** Path of the baseline. In a mode that writes it, its directory exists. */
  readonly db: string;
  readonly key: VerifyingKey;
  /** The key that signs a baseline; undefined in modes that do not write one. */
  readonly signingKey: SigningKey | undefined;
  readonly report: ReportOptions;
  /** Threads that read below `root`. They serve one init or check, and end with it. */
  readonly threads: ThreadPool;
  /** Undefined if the progress is not shown. */
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
  /** AIDE's names of the checksums in the database that FIPS 140-3 does not approve. */
  readonly refusedChecksums: readonly string[];
  /** Number of regular files that have no other checksum. */
  readonly withoutChecksum: number;
}

/** Limit of listed problems; the others are counted. */
const MAX_PROBLEMS = 10_000;

/** Creates a baseline. @throws {RampartError}: the baseline is unchanged */
export async function initFiles(job: CheckJob): Promise<Done> {
  const startedMs = Date.now();
  // The old baseline only tells how much there is to scan.
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

/**
 * Compares the files with the baseline; with `update` also replaces it. @throws {BaselineError} if the baseline cannot
 * be trusted; {RampartError}: the baseline is unchanged
 */
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
  // Both must end before anything is closed. The scan's error takes precedence over the one that it causes in its copy.
  const [read, written] = await Promise.allSettled([reading, writing]);
  if (read.status === 'rejected') throw read.reason;
  if (written.status === 'rejected') throw written.reason;
  return { report: read.value, facts: factsOf(job, mode, startedMs) };
}

/**
 * Imports an AIDE database as the baseline.
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
  // Loaded only here: a check needs neither, and starts faster without them.
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

/**
 * @param compared - Settles when the report is complete; if it fails, the baseline is not written, because unreported
 *   changes must not be accepted.
 */
async function write(
  job: CheckJob,
  entries: Batches<Entry>,
  { madeBy = 'check', compared }: { readonly madeBy?: string; readonly compared?: Promise<unknown> } = {},
): Promise<number> {
  const { db: path, root, signingKey: key, configDigest, signal } = job;
  if (key === undefined)
    throw new RampartError(errorCodes.INPUT, { what: 'there is no key to sign the baseline with' });
  // The root that an AIDE database was made from is not recorded in it.
  const about = { madeBy, ...(madeBy !== 'import' && { root }) };
  const header = { rampartVersion: manifest.version, madeAtMs: Date.now(), configDigest, about };
  async function* last(): AsyncGenerator<Batch<Entry>, void, undefined> {
    yield* entries;
    await compared;
    // All entries have been read: now keep the previous baseline next to the new one.
    await keepOld(path);
  }
  return (await writeBaseline({ path, key, header, entries: last(), signal })).entries;
}

/**
 * Errors of link(2) if no hard link is possible: not on this file system (FAT on a USB stick), not of this file, or not
 * at the moment.
 */
const withoutLinks: ReadonlySet<unknown> = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EMLINK']);

/** Keeps the baseline as `<baseline>.old`. Uses a hard link if possible, so that the baseline has its name at every moment. */
async function keepOld(path: string): Promise<void> {
  const old = `${path}.old`;
  const temporary = `${old}.new.${process.pid}`;
  // In a container, process IDs repeat: an earlier process with this ID may have been killed here and left the file.
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
    // There is no baseline, or one that cannot be used and is about to be replaced.
    return undefined;
  }
}

/** What a scan will read if nothing has changed. */
function expectedOf({ counts }: Baseline): NonNullable<ScanOptions['expected']> {
  return { files: counts.entries, bytes: counts.contentBytes };
}

function factsOf({ conf, db }: CheckJob, action: 'init' | 'check' | 'update', startedMs: number): RunFacts {
  const written = action === 'check' ? undefined : db;
  return runFacts(conf, { action, program: `Rampart ${manifest.version}`, startedMs, written });
}
