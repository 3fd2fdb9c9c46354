/** The part of reports that is kept in memory: some hundred bytes per object instead of several thousand. */
import { fieldsOf } from '../../../lib/kube/object/facts.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import type { Policy } from '../policies/policy.ts';
import { summaryOf } from '../../../guard/reports/report-fields.ts';
import { type AuditReport, digestOf, property, type ReportResult, type Scope, shortHash } from './report.ts';

/** What is known about the object, apart from the report's own name and namespace. */
export type ReportSubject = Pick<Scope, 'apiVersion' | 'kind' | 'name' | 'resourceVersion'>;

/** Facts about the results for one object. */
export interface ReportFacts {
  readonly scope: ReportSubject;
  readonly digest: string;
  /** The policies with results, at their versions: see {@link policyMarks}. */
  readonly marks: string;
  /** One letter for each result: see object-states.ts. */
  readonly outcome: string;
}

export function factsOf(scope: Scope, results: readonly ReportResult[]): ReportFacts {
  return {
    scope,
    digest: digestOf({ scope, summary: summaryOf(results), results }),
    marks: digestOfMarks(
      results.map(({ policy, properties }) => [
        policy,
        properties[property.uid],
        properties[property.resourceVersion],
        // The requests of that evaluation are unknown: the result only shows a past state.
        ...(properties[property.contextAware] === undefined ? [] : ['asked']),
      ]),
    ),
    outcome: results.map(({ result }) => result.slice(0, 1)).join(''),
  };
}

/** The {@link ReportFacts.marks} of results of these policies, in order. */
export function policyMarks(policies: readonly Policy[]): string {
  return digestOfMarks(policies.map(({ id, origin }) => [id, origin.uid, origin.resourceVersion]));
}

function digestOfMarks(marks: readonly (readonly (string | undefined)[])[]): string {
  return shortHash(JSON.stringify(marks));
}

/** In a cache: a report and what is known about its content. */
export interface CachedReport<T> extends KubeObject {
  readonly facts: T;
}

/** For caches of reports about one object each. Of other reports, such as those of a whole namespace, only name, UID and version are kept. */
export function objectReportFacts(report: KubeObject): CachedReport<ReportFacts | undefined> {
  const { scope, results = [] } = report as Partial<AuditReport>;
  const isOurs = scope?.uid !== undefined && scope.uid === report.metadata.name;
  if (!isOurs) return cached(report, undefined);
  const { apiVersion, kind, name, resourceVersion } = scope;
  return cached(report, { ...factsOf(scope, results), scope: { apiVersion, kind, name, resourceVersion } });
}

export function cached<T>({ metadata }: KubeObject, facts: T): CachedReport<T> {
  // Caches restore apiVersion and kind when an object is read.
  return { metadata: fieldsOf(metadata, ['namespace', 'name', 'uid', 'resourceVersion']), facts };
}
