/** Compares single paths with the baseline, with the same result as a scan. */
import type { Batch, Batches } from '../model/batches.ts';
import { Comparison } from '../compare/compare.ts';
import type { Baseline } from '../database/read-baseline.ts';
import type { ByteString, Entry, ScanProblem } from '../model/entry.ts';
import { describeDifference } from '../report/describe.ts';
import type { Scanner, ScanOptions } from '../scan/scanner.ts';
import type { ReportedChange } from '../model/report.ts';
import type { LiveJob } from './live-job.ts';

/** Limit of differences of one directory; if there are more, a scan reports them. */
const maxDifferences = 10_000;

export interface Recheck {
  /** The differences; all other compared paths are unchanged. */
  readonly changes: ReadonlyMap<ByteString, ReportedChange>;
  /** Paths that could not be compared, nor anything below them, with the reason. */
  readonly unread: ReadonlyMap<ByteString, ScanProblem>;
  /** Old entries from the baseline (`old`), and current ones (`now`), by path. Empty when whole directories were rechecked. */
  readonly old: ReadonlyMap<ByteString, Entry>;
  readonly now: ReadonlyMap<ByteString, Entry>;
  /** Whether there were too many differences: `changes` has only some of them. */
  readonly isCut: boolean;
}

type Parts = Pick<LiveJob, 'baseline' | 'conf' | 'reportOptions'> & {
  readonly scanner: Scanner;
  readonly onProgress?: ScanOptions['onProgress'];
};

/**
 * Compares single paths.
 *
 * @param paths sorted by their bytes, without duplicates
 * @throws BaselineError; the errors of the scanner; the reason of the signal
 */
export async function recheckPaths(
  parts: Parts,
  paths: readonly ByteString[],
  signal: AbortSignal,
): Promise<Recheck> {
  const old = await parts.baseline.find(paths, signal);
  const now = new Map<ByteString, Entry>();
  const asked = paths.map((path) => ({ path, below: false }));
  const seen = parts.scanner.look(parts.conf, asked, { signal, onProgress: parts.onProgress });
  const compared = await compare(parts, [[...old.values()]], noting(seen, now), signal);
  return { ...compared, old, now };
}

/** Compares a path and everything below it; it may exist only in the baseline, or only now. */
export async function recheckBelow(parts: Parts, path: ByteString, signal: AbortSignal): Promise<Recheck> {
  const seen = parts.scanner.look(parts.conf, [{ path, below: true }], { signal });
  const compared = await compare(parts, withBelow(parts.baseline, path, signal), seen, signal);
  return { ...compared, old: new Map(), now: new Map() };
}

async function* withBelow(
  baseline: Baseline,
  path: ByteString,
  signal: AbortSignal,
): AsyncGenerator<readonly Entry[], void, undefined> {
  yield [...(await baseline.find([path], signal)).values()];
  yield* baseline.below(path, signal);
}

async function* noting(
  seen: Batches<Entry | ScanProblem>,
  now: Map<ByteString, Entry>,
): AsyncGenerator<Batch<Entry | ScanProblem>, void, undefined> {
  for await (const batch of seen) {
    for (const item of batch) if (!('code' in item)) now.set(item.path, item);
    yield batch;
  }
}

async function compare(
  { baseline, reportOptions, scanner }: Parts,
  old: Batches<Entry>,
  now: Batches<Entry | ScanProblem>,
  signal: AbortSignal,
): Promise<Pick<Recheck, 'changes' | 'unread' | 'isCut'>> {
  const comparison = new Comparison({
    ...{ old, now, signal },
    oldAttributes: baseline.counts.attributes,
    digestStart: (entry, sizeBytes, aborted = signal) => scanner.digestStart(entry, sizeBytes, aborted),
  });
  const changes = new Map<ByteString, ReportedChange>();
  const unread = new Map<ByteString, ScanProblem>();
  for await (const batch of comparison) {
    for (const difference of batch) {
      const { kind, path } = difference;
      if (kind === 'unread') unread.set(path, difference.problem);
      else if (kind !== 'redefined') {
        const change = describeDifference(difference, reportOptions);
        if (change !== undefined) changes.set(path, change);
      }
    }
    if (changes.size > maxDifferences) return { changes, unread, isCut: true };
  }
  return { changes, unread, isCut: false };
}
