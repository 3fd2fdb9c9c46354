/** Compares single paths with the baseline, as a scan would. */
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
  /** The differences; all other requested paths are unchanged. */
  readonly changes: ReadonlyMap<ByteString, ReportedChange>;
  /** Why these, and what is in them, could not be compared. */
  readonly unread: ReadonlyMap<ByteString, ScanProblem>;
  /** Entries of the baseline, and of now, by path. Empty when whole directories were rechecked. */
  readonly old: ReadonlyMap<ByteString, Entry>;
  readonly now: ReadonlyMap<ByteString, Entry>;
  /** There are too many differences; these are some. */
  readonly isCut: boolean;
}

type Parts = Pick<LiveJob, 'baseline' | 'conf' | 'reportOptions'> & {
  readonly scanner: Scanner;
  readonly onProgress?: ScanOptions['onProgress'];
};

/**
 * @param paths sorted by their bytes, none twice
 * @throws BaselineError; what the scanner throws; the reason of the signal
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

/** A directory and all that is in it; either may be gone. */
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
