/**
 * The results of an audit of one object as a report. Names, labels and properties are those of Kubewarden's audit
 * scanner (internal/report), so that tools for its reports can read these. Pure.
 */
import { visibleText } from '../../../lib/output/printable.ts';
import { managedByLabel } from '../../../guard/managed-by.ts';
import { hash } from 'node:crypto';

import {
  apiVersionOf,
  type KubeObject,
  type OwnerReference,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { cut, type ReportSummary, summaryOf, timestampOf } from '../../../guard/reports/report-fields.ts';
import type { ReportKind } from '../../../guard/reports/report-entry.ts';
import { reportTypes as reportTypesOf } from '../../../guard/reports/report-types.ts';
import type { Exception } from '../exceptions/exception.ts';
import type { Judgement } from '../policies/open-policy.ts';
import type { Policy } from '../policies/policy.ts';

/** Whether there is one report for each object, or for each namespace. */
export type ReportsBy = 'namespace' | 'object';

export interface ReportTypes {
  readonly namespaced: ResourceType<AuditReport>;
  readonly cluster: ResourceType<AuditReport>;
}

export const reportTypes = reportTypesOf as Readonly<Record<ReportKind, ReportTypes>>;

const managedBy = 'kubewarden';
const versionLabel = 'kubewarden.io/policyreport-version';
export const runLabel = 'kubewarden.io/audit-scanner-run-uid';
export const ourReports = `${managedByLabel}=${managedBy}`;

export type AuditResult = 'error' | 'fail' | 'pass' | 'skip' | 'warn';

export interface ReportResult {
  readonly source: string;
  readonly policy: string;
  readonly category?: string;
  readonly severity?: string;
  readonly timestamp: { readonly seconds: number; readonly nanos: number };
  readonly result: AuditResult;
  readonly scored: true;
  readonly resourceSelector: Readonly<Record<string, never>>;
  readonly message?: string;
  readonly properties: Readonly<Record<string, string>>;
  /** The object of the result. Only in a report of many objects. */
  readonly resources?: readonly Scope[];
}

export interface Scope {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

export interface AuditReport extends KubeObject {
  readonly scope?: Scope;
  readonly summary: ReportSummary;
  readonly results: readonly ReportResult[];
}

export const property = {
  resourceVersion: 'policy-resource-version',
  uid: 'policy-uid',
  name: 'policy-name',
  namespace: 'policy-namespace',
  contextAware: 'context-aware',
  exception: 'exception',
  mutating: 'mutating',
  validating: 'validating',
} as const;

const severities: ReadonlySet<string> = new Set(['critical', 'high', 'medium', 'low', 'info']);
/** Limit of a message's length, in UTF-16 units. */
const MAX_MESSAGE = 4096;

/** The result of one policy for an object; `undefined` if the policy does not apply. */
export function resultOf(policy: Policy, judgement: Judgement, wallMs: number): ReportResult | undefined {
  if (judgement.type === 'skipped') return undefined;
  const { severity, category } = policy;
  const isError = judgement.type === 'error';
  const message = isError ? judgement.error.message : (judgement.verdict.message ?? '');
  const shown = policy.mode === 'monitor' ? 'info' : severity;
  return {
    source: policy.source,
    policy: policy.id,
    ...(category !== undefined && { category }),
    // Any other word would make the API reject the entire report.
    ...(shown !== undefined && severities.has(shown) && { severity: shown }),
    timestamp: timestampOf(wallMs),
    result: isError || isFailure(judgement) ? 'error' : judgement.verdict.allowed ? 'pass' : 'fail',
    scored: true,
    resourceSelector: {},
    ...(message !== '' && { message: cut(visibleText(message), MAX_MESSAGE) }),
    properties: propertiesOf(policy, policy.isContextAware || judgement.asked.length > 0),
  };
}

/** The result for an object that an exception exempts from the policy. */
export function exceptedResult(policy: Policy, { key, message }: Exception, wallMs: number): ReportResult {
  const judgement = { type: 'verdict', verdict: { allowed: true, message }, asked: [] } as const;
  const result = resultOf(policy, judgement, wallMs) as ReportResult;
  return { ...result, result: 'skip', properties: { ...result.properties, [property.exception]: key } };
}

/** Whether the policy exceeded its deadline: a policy server answers such a request with code 500. */
function isFailure(judgement: Extract<Judgement, { readonly type: 'verdict' }>): boolean {
  return !judgement.verdict.allowed && judgement.verdict.code === 500;
}

type Properties = Readonly<Record<string, string>>;

const propertiesOfPolicies = {
  aware: new WeakMap<Policy, Properties>(),
  other: new WeakMap<Policy, Properties>(),
};

/**
 * All results of a policy share these properties.
 *
 * @param isContextAware - Whether the policy may read the cluster, or has requested anything else.
 */
function propertiesOf(policy: Policy, isContextAware: boolean): Properties {
  const known = propertiesOfPolicies[isContextAware ? 'aware' : 'other'];
  let properties = known.get(policy);
  if (properties === undefined) known.set(policy, (properties = madeProperties(policy, isContextAware)));
  return properties;
}

/** The properties, sorted by name. */
function madeProperties({ origin, isMutating, binding }: Policy, isContextAware: boolean): Properties {
  return {
    ...(binding !== undefined && { binding }),
    ...(isContextAware && { [property.contextAware]: 'true' }),
    ...(isMutating && { [property.mutating]: 'true' }),
    [property.name]: origin.name,
    ...(origin.namespace !== undefined && { [property.namespace]: origin.namespace }),
    [property.resourceVersion]: origin.resourceVersion,
    [property.uid]: origin.uid,
    ...(!isMutating && { [property.validating]: 'true' }),
  };
}

export function reportLabels(runUid: string): Readonly<Record<string, string>> {
  return { [managedByLabel]: managedBy, [versionLabel]: 'v2', [runLabel]: runUid };
}

/** The report about one object. */
export function objectReport(
  types: ReportTypes,
  scope: Scope,
  results: readonly ReportResult[],
  runUid: string,
): AuditReport {
  const type = scope.namespace === undefined ? types.cluster : types.namespaced;
  const { apiVersion, kind, name, uid, namespace } = scope;
  const owner: OwnerReference = { apiVersion, kind, name, uid };
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      name: uid,
      ...(namespace !== undefined && { namespace }),
      labels: reportLabels(runUid),
      ownerReferences: [owner],
    },
    scope,
    summary: summaryOf(results),
    results,
  };
}

/**
 * Equal for reports with the same content. The digest does not include the time of the results, the run that wrote
 * them, and the version of the object: so for an object whose status changes constantly, the report is not
 * rewritten constantly.
 */
export function digestOf({
  scope,
  summary,
  results,
}: Pick<AuditReport, 'results' | 'scope' | 'summary'>): string {
  const { resourceVersion: _changes, ...subject } = scope ?? { resourceVersion: '' };
  // One flat list for speed: the digest is computed twice for each report.
  const said: (number | string | undefined)[] = [];
  for (const { source, policy, category, severity, result, message, properties } of results) {
    const names = sortedNames(properties);
    said.push(source, policy, category, severity, result, message, names.length);
    for (const name of names) said.push(name, properties[name]);
  }
  return shortHash(JSON.stringify([subject, summary, said]));
}

/** 72 bits. For a longer slice, V8 would keep the entire text: two strings instead of one. */
export function shortHash(text: string): string {
  return hash('sha1', text, 'base64').slice(0, 12);
}

/** Usually the names are in order already, since they are written in order. */
function sortedNames(properties: Readonly<Record<string, string>>): string[] {
  const names = Object.keys(properties);
  for (let at = 1; at < names.length; at++) {
    if ((names[at - 1] ?? '') > (names[at] ?? '')) return names.toSorted();
  }
  return names;
}

/** The command that installs the kinds of reports. */
export const reportsRemedy = 'kubectl apply -k deploy/policy-reports/';
