/** Collects the differences of a comparison into a report with limited memory: what exceeds the limit is only counted. */
import type { Batches } from '../model/batches.ts';
import type { ComparisonTotals, Difference } from '../compare/compare.ts';
import type { CountedPaths } from '../model/counted-paths.ts';
import { type ByteString, largeCode } from '../model/entry.ts';
import { describeDifference, describeRedefinition } from './describe.ts';
import { compareInTree } from './report.ts';
import type { AttributeDetail, Report, ReportedChange, ReportOptions } from '../model/report.ts';

/** Limit of a report, in characters of names and values; it takes about twice as many bytes of memory. */
const defaultLimit = 16 * 1024 * 1024;

export interface CollectOptions {
  readonly differences: Batches<Difference>;
  /** Totals of the comparison, complete when `differences` has ended. */
  readonly totals: ComparisonTotals;
  readonly options: ReportOptions;
  readonly limitCharacters?: number;
  /** Receives the changes that are only counted. */
  readonly counted?: CountedPaths;
  /** Receives the paths of large files that are read later: the report has no result for them. */
  readonly large?: Set<ByteString>;
}

/** @throws the errors of `differences` */
export async function collectReport({
  differences,
  totals,
  options,
  limitCharacters = defaultLimit,
  counted,
  large,
}: CollectOptions): Promise<Report> {
  const counts = { added: 0, removed: 0, changed: 0, problems: 0 };
  const changes: ReportedChange[] = [];
  const redefined: { path: string; difference: string }[] = [];
  const problems: { path: string; code: string; message: string }[] = [];
  let omitted = 0;
  let characters = 0;
  const keep = (size: number): boolean => {
    characters += size;
    if (characters <= limitCharacters) return true;
    omitted++;
    return false;
  };

  const redefinition = ({ path, old, now }: Extract<Difference, { kind: 'changed' | 'redefined' }>): void => {
    if (old.attributes === now.attributes) return;
    const difference = describeRedefinition(old, now, options);
    if (difference !== undefined && keep(path.length + 60)) redefined.push({ path, difference });
  };

  for await (const batch of differences) {
    for (const difference of batch) {
      if (difference.kind === 'unread') {
        const { path, code, message } = difference.problem;
        if (code === largeCode && large !== undefined) {
          large.add(path);
          continue;
        }
        counts.problems++;
        if (keep(path.length + message.length)) problems.push({ path, code, message });
        continue;
      }
      if (difference.kind === 'changed' || difference.kind === 'redefined') redefinition(difference);
      if (difference.kind === 'redefined') continue;
      const change = describeDifference(difference, options);
      if (change === undefined) continue;
      counts[change.kind]++;
      if (keep(sizeOf(change))) changes.push(change);
      else counted?.set(change.path, change.kind);
    }
  }
  const isReported = ({ path }: { path: string }): boolean => large?.has(path) !== true;
  // Changes of a large file's other attributes were already counted when its problem arrived: they are reported once
  // the file is read.
  for (const change of changes) if (!isReported(change)) counts[change.kind]--;
  const byPath = (a: { path: string }, b: { path: string }): number => compareInTree(a.path, b.path);
  return {
    counts: { total: totals.entries, ...counts },
    changes: changes.filter(isReported).sort(byPath),
    redefined: redefined.filter(isReported).sort(byPath),
    problems: problems.toSorted(byPath),
    omitted,
  };
}

function sizeOf({ path, details }: ReportedChange): number {
  let size = path.length + 60;
  for (const { old, now } of details) size += 40 + lengthOf(old) + lengthOf(now);
  return size;
}

function lengthOf(values: AttributeDetail['old']): number {
  let length = 0;
  for (const value of values) length += value.length;
  return length;
}
