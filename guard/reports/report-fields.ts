/** Fields of reports that are written alike, whichever guard writes them. */
import type { ReportResult } from './report-entry.ts';

export type ReportSummary = Readonly<Record<ReportResult, number>>;

export function summaryOf(results: Iterable<{ readonly result: ReportResult }>): ReportSummary {
  const summary = noResults();
  for (const { result } of results) summary[result]++;
  return summary;
}

/** A summary to count in. */
export function noResults(): Record<ReportResult, number> {
  return { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
}

/** @param timeMs since 1970 */
export function timestampOf(timeMs: number): { readonly seconds: number; readonly nanos: number } {
  const seconds = Math.floor(timeMs / 1000);
  return { seconds, nanos: Math.round((timeMs - seconds * 1000) * 1e6) };
}

/** Half of a pair of surrogates is not JSON that a server takes. */
export function cut(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters ? text : `${text.slice(0, maxCharacters - 1).toWellFormed()}…`;
}
