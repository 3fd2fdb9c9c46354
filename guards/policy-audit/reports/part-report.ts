/** One report of many objects: each result names the object that it is about. Pure. */
import { apiVersionOf, type KubeObject } from '../../../lib/kube/object/object.ts';
import { isPartName } from './part-name.ts';
import { cached, type CachedReport, factsOf, type ReportFacts } from './report-facts.ts';
import { summaryOf } from '../../../guard/reports/report-fields.ts';
import { type AuditReport, type ReportResult, reportLabels, type ReportTypes, type Scope } from './report.ts';

/** The results for one object. */
export interface Entry {
  readonly scope: Scope;
  readonly results: readonly ReportResult[];
}

/** What is known about an entry. */
export interface EntryFacts extends ReportFacts {
  readonly scope: Scope;
  readonly sizeBytes: number;
}

export type CachedPart = CachedReport<{
  /** Entries of a part. */
  readonly entries: readonly EntryFacts[];
  /** Whether it is a report about one object, as created by {@link objectReport}. */
  readonly isOfObject: boolean;
}>;

export function partReport(
  types: ReportTypes,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  entries: Iterable<Entry>,
  runUid: string,
): AuditReport {
  const type = namespace === '' ? types.cluster : types.namespaced;
  const results = [...entries].toSorted(byScope).flatMap(resultsOf);
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: { name, ...(namespace !== '' && { namespace }), labels: reportLabels(runUid) },
    summary: summaryOf(results),
    results,
  };
}

/** The entries of a report, keyed by the uid of the object. Results about no object, or about several, are omitted. */
export function entriesOf({ results = [] }: Partial<AuditReport>): Map<string, Entry> {
  const entries = new Map<string, { readonly scope: Scope; readonly results: ReportResult[] }>();
  for (const { resources = [], ...result } of results) {
    const [scope, another] = resources;
    if (scope?.uid === undefined || another !== undefined) continue;
    const known = entries.get(scope.uid);
    if (known === undefined) entries.set(scope.uid, { scope, results: [result] });
    else known.results.push(result);
  }
  return entries;
}

/** The size of the entry in a report, in bytes of JSON. */
export function sizeOf(entry: Entry): number {
  return Buffer.byteLength(JSON.stringify(resultsOf(entry)));
}

/** What caches keep of a part. */
export function partFacts(report: KubeObject): CachedPart {
  const { namespace, name = '' } = report.metadata;
  const audited = report as Partial<AuditReport>;
  const isPart = isPartName(namespace === undefined ? name : `${namespace}/${name}`);
  const entries = isPart ? [...entriesOf(audited).values()] : [];
  return cached(report, {
    entries: entries.map((entry) => ({
      ...factsOf(entry.scope, entry.results),
      scope: entry.scope,
      sizeBytes: sizeOf(entry),
    })),
    isOfObject: !isPart && audited.scope?.uid === name,
  });
}

function resultsOf({ scope, results }: Entry): ReportResult[] {
  return results.map((result) => ({ ...result, resources: [scope] }));
}

function byScope({ scope: a }: Entry, { scope: b }: Entry): number {
  const [own, other] = [`${a.kind} ${a.name} ${a.uid}`, `${b.kind} ${b.name} ${b.uid}`];
  return own < other ? -1 : own > other ? 1 : 0;
}
