/** Common to all report formats: the outline, the order, AIDE's exit code. */
import type { ByteString } from '../model/entry.ts';
import { type ReportCounts, type ReportLevel, reportLevels, type RunFacts } from '../model/report.ts';

export function isAtLeast(level: ReportLevel, min: ReportLevel): boolean {
  return reportLevels.indexOf(level) >= reportLevels.indexOf(min);
}

/** AIDE's exit code for a report, a bit mask: 1 added, 2 removed, 4 changed. */
export function exitBits({ added, removed, changed }: ReportCounts): number {
  return (added > 0 ? 1 : 0) + (removed > 0 ? 2 : 0) + (changed > 0 ? 4 : 0);
}

/** The sentence that sums up the result. */
export function outline({ action }: RunFacts, counts: ReportCounts): string {
  if (action === 'init') return 'AIDE successfully initialized database.';
  const where = action === 'compare' ? 'the two databases' : 'database and filesystem';
  return exitBits(counts) === 0
    ? `AIDE found NO differences between ${where}. Looks okay!!`
    : `AIDE found differences between ${where}!!`;
}

/** Compares paths in AIDE's order, that of its tree: a directory's contents come before its next sibling. */
export function compareInTree(one: ByteString, other: ByteString): number {
  const max = Math.min(one.length, other.length);
  for (let at = 0; at < max; at++) {
    const a = one.charCodeAt(at);
    const b = other.charCodeAt(at);
    if (a !== b) return a === 0x2f ? -1 : b === 0x2f ? 1 : a - b;
  }
  return one.length - other.length;
}
