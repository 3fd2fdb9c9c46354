/** Fields that are written in the same way in the reports of all guards. */
import type { ReportResult } from './report-entry.ts';

export type ReportSummary = Readonly<Record<ReportResult, number>>;

export function summaryOf(results: Iterable<{ readonly result: ReportResult }>): ReportSummary {
  const summary = noResults();
  for (const { result } of results) summary[result]++;
  return summary;
}

/** A summary with all counts 0. */
export function noResults(): Record<ReportResult, number> {
  return { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
}

/** @param timeMs since 1970 */
export function timestampOf(timeMs: number): { readonly seconds: number; readonly nanos: number } {
  const seconds = Math.floor(timeMs / 1000);
  return { seconds, nanos: Math.round((timeMs - seconds * 1000) * 1e6) };
}

/** Truncates a text. Half a surrogate pair at its end is replaced: the API server would refuse it as JSON. */
export function cut(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters ? text : `${text.slice(0, maxCharacters - 1).toWellFormed()}…`;
}
