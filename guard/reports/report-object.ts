/** Turns entries into the object that is written to the API. No I/O, no clock. */
import { managedLabels } from '../managed-by.ts';
import { hash } from 'node:crypto';

import { apiVersionOf, type KubeObject, type ResourceType } from '../../lib/kube/object/object.ts';
import type { PolicyReport } from './policy-reports.ts';
import { type Report, type ReportEntry, reportResults } from './report-entry.ts';
import { cut, noResults, type ReportSummary, timestampOf } from './report-fields.ts';

/** A report with this many results takes some 300 KiB; etcd accepts 1.5 MiB, and consumers hold all reports in memory. */
export const maxResults = 500;
export const maxResultsBytes = 512 * 1024;
const MAX_CHARACTERS = 1024;
/** Space reserved for the result about omitted entries. */
const REST_BYTES = 4096;

/** The property of the last result that says how many entries are omitted. */
export const omittedProperty = 'omitted-results';

type WireResult = NonNullable<PolicyReport['results']>[number];

/** Fields that both kinds of reports have, in all released versions of their definitions. */
export interface ReportObject extends KubeObject {
  readonly scope: PolicyReport['scope'];
  readonly summary: ReportSummary;
  readonly results: readonly WireResult[];
}

/**
 * The object for a report. Entries beyond {@link maxResults} or {@link maxResultsBytes} are left out, from the end: the summary counts
 * them, and a last result says how many are missing.
 */
export function reportObject(type: ResourceType, report: Report): ReportObject {
  const { namespace, name, scope, entries, omitted = {}, labels, owner } = report;
  const summary = noResults();
  const left = noResults();
  for (const of of reportResults) summary[of] = left[of] = omitted[of] ?? 0;
  const results: WireResult[] = [];
  let bytes = REST_BYTES;
  let isFull = false;
  for (const entry of entries) {
    summary[entry.result]++;
    if (!isFull) {
      const result = resultOf(entry);
      bytes += Buffer.byteLength(JSON.stringify(result)) + 1;
      // One place is reserved for the result about the omitted entries.
      isFull = bytes > maxResultsBytes || results.length >= maxResults - 1;
      if (!isFull) results.push(result);
    }
    if (isFull) left[entry.result]++;
  }
  const [like] = entries;
  if (like !== undefined) results.push(...restOf(left, like, report.completeAt));
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      namespace,
      name,
      labels: { ...labels, ...managedLabels },
      ...(owner && { ownerReferences: [owner] }),
    },
    scope: withoutEmpty(scope),
    summary,
    results,
  };
}

/** Equal for objects with the same content; times do not count in results that describe no event. */
export function digestOf(object: ReportObject): string {
  const results = object.results.map((one) =>
    one.result === 'fail' || one.result === 'warn' ? one : { ...one, timestamp: undefined },
  );
  return hash('sha256', JSON.stringify({ ...object, results }), 'base64');
}

function resultOf({ subject, timestampMs, ...entry }: ReportEntry): WireResult {
  const properties = Object.fromEntries(
    Object.entries(entry.properties).map(([key, value]) => [key, cut(value, MAX_CHARACTERS)]),
  );
  return {
    source: entry.source,
    policy: entry.policy,
    rule: entry.rule,
    category: entry.category,
    severity: entry.severity,
    result: entry.result,
    scored: true,
    message: cut(entry.message, MAX_CHARACTERS),
    timestamp: timestampOf(timestampMs),
    properties,
    ...(subject && { resources: [withoutEmpty(subject)] }),
  };
}

function* restOf(
  left: ReportSummary,
  like: ReportEntry,
  completeAt: string | undefined,
): Iterable<WireResult> {
  const worst = reportResults.find((one) => left[one] > 0);
  if (worst === undefined) return;
  const all = Object.values(left).reduce((sum, number) => sum + number, 0);
  const where = completeAt === undefined ? '' : ` All of them: ${completeAt}.`;
  const { subject: _ofThatOne, ...rest } = like;
  yield resultOf({
    ...rest,
    rule: 'omitted',
    result: worst,
    message: `${all} more ${all === 1 ? 'result is' : 'results are'} counted and not shown.${where}`,
    properties: { [omittedProperty]: String(all) },
  });
}

function withoutEmpty<T extends object>(object: T): T {
  return Object.fromEntries(
    Object.entries(object).filter(([, value]) => value !== undefined && value !== ''),
  ) as T;
}
