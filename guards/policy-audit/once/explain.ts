/** The result of each policy for one object, or why it does not apply. */
import type { GuardContext } from '../../../guard/context.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { type KubeObject, type Namespace, namespaces } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { checkPolicies } from './needs.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { type Irrelevance, matchPolicy, type MatchTarget } from '../policies/match.ts';
import type { OpenPolicy, Runtimes } from '../policies/open-policy.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { partName } from '../reports/part-name.ts';
import { entriesOf } from '../reports/part-report.ts';
import { ReportApi } from '../reports/report-api.ts';
import {
  type AuditReport,
  exceptedResult,
  property,
  type ReportResult,
  reportTypes,
  resultOf,
} from '../reports/report.ts';
import { auditTarget } from '../scanner/audit-target.ts';
import { objectRequest } from '../scanner/object-request.ts';
import { type ServedKind, servedKinds } from '../scanner/served-kinds.ts';

/** The result of one policy. */
export interface Explanation {
  readonly policy: string;
  readonly isRelevant: boolean;
  /** Why the policy does not apply to the object. */
  readonly why?: string;
  readonly result?: ReportResult['result'];
  readonly message?: string;
  /** When the policy was evaluated, in ms since 1970. */
  readonly evaluatedMs?: number;
  /** Whether the policy was evaluated now, or the result was read from a report. */
  readonly from?: 'evaluation' | 'report';
}

export interface Explained {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly policies: readonly Explanation[];
  /** Policies that cannot be evaluated, and why. */
  readonly problems: ReadonlyMap<string, string>;
}

export const reasons: Readonly<Record<Irrelevance, string>> = {
  background: 'backgroundAudit is false',
  excluded: 'it excludes this kind',
  namespace: 'it is in another namespace',
  namespaceSelector: 'its namespaceSelector does not select the namespace',
  objectSelector: 'its objectSelector does not select the object',
  operation: 'it does not apply to created objects',
  resource: 'its rules do not match this kind',
  scope: 'its rules match another scope',
};

export interface ExplainRequest {
  /** `pod`, `pods`, `deployments.apps`, `Deployment`. */
  readonly kind: string;
  readonly name: string;
  readonly namespace: string;
}

/**
 * @throws {RampartError} `INPUT` if the kind is not served, `NOT_FOUND` if the object does not exist, `UNSUPPORTED` if policies
 * are not served.
 */
export async function explain(
  context: GuardContext,
  runtimes: Runtimes,
  { kind: wanted, name, namespace: within }: ExplainRequest,
): Promise<Explained> {
  const { client, signal } = context;
  const unlisted = await checkPolicies(context);
  const { kinds } = await servedKinds(client, signal);
  const kind = findKind(kinds, wanted);
  const namespace = kind.type.namespaced ? within : '';
  const target = { name, ...(namespace !== '' && { namespace }) };
  const object = await orUndefined(client.get(kind.type, target, { signal }));
  if (object === undefined) {
    throw new RampartError(errorCodes.NOT_FOUND, {
      what: `there is no ${kind.type.kind} ${namespace === '' ? '' : `${namespace}/`}${name}`,
    });
  }
  const space =
    namespace === '' ? undefined : await client.get<Namespace>(namespaces, { name: namespace }, { signal });
  const stop = new AbortController();
  const policies = new PolicySet({
    context: { ...context, signal: AbortSignal.any([signal, stop.signal]) },
    runtimes,
    writesStatus: false,
    mutates: true,
  });
  const exceptions = new ExceptionSet({
    context: { ...context, signal: AbortSignal.any([signal, stop.signal]) },
    writesStatus: false,
  });
  const running = Promise.all([policies.run(), exceptions.run()]);
  running.catch(() => stop.abort());
  try {
    await Promise.race([Promise.all([policies.complete, exceptions.complete]), running]);
    signal.throwIfAborted();
    const report = await reportOf(context, namespace, object);
    const asked = auditTarget(kind, object, () => space?.metadata.labels);
    const found: Explanation[] = [];
    for (const open of policies.audited) {
      found.push(await explainPolicy(context, open, exceptions, asked, kind, object, report));
    }
    const problems = new Map([...unlisted, ...policies.problems]);
    return { kind: kind.type.kind, namespace, name, policies: found, problems };
  } finally {
    stop.abort();
    await running.catch(() => undefined);
  }
}

async function explainPolicy(
  { client, signal }: GuardContext,
  open: OpenPolicy,
  exceptions: ExceptionSet,
  target: MatchTarget,
  kind: ServedKind,
  object: KubeObject,
  report: Pick<AuditReport, 'results' | 'scope'> | undefined,
): Promise<Explanation> {
  const { policy } = open;
  const match = matchPolicy(policy, target);
  const isMutating = policy.source === 'MutatingAdmissionPolicy';
  if (isMutating && typeof match !== 'string')
    return { policy: policy.id, isRelevant: false, why: 'it changes such objects when they are written' };
  const shown = policy.backgroundAudit || isMutating ? match : 'background';
  if (typeof shown === 'string') return { policy: policy.id, isRelevant: false, why: reasons[shown] };
  const { type } = kind;
  const { name = '', namespace, labels = {} } = object.metadata;
  const subject = { group: type.group, kind: type.kind, namespace: namespace ?? '', name, labels };
  const exception = exceptions.find(policy.origin, subject);
  if (exception !== undefined) {
    const nowMs = Date.now();
    return reported(exceptedResult(policy, exception, nowMs), 'evaluation', nowMs);
  }
  const known = report?.results.find(
    (result) =>
      result.policy === policy.id &&
      result.result !== 'skip' &&
      result.properties[property.uid] === policy.origin.uid &&
      result.properties[property.resourceVersion] === policy.origin.resourceVersion,
  );
  if (known !== undefined && report?.scope?.resourceVersion === object.metadata.resourceVersion) {
    const { seconds, nanos } = known.timestamp;
    return reported(known, 'report', seconds * 1000 + nanos / 1e6);
  }
  const nowMs = Date.now();
  const judgement = await open.ask(await objectRequest(client, kind, shown, object, signal), signal);
  const result = resultOf(policy, judgement, nowMs);
  if (result === undefined)
    return { policy: policy.id, isRelevant: false, why: 'a match condition is false' };
  return reported(result, 'evaluation', nowMs);
}

function reported(result: ReportResult, from: 'evaluation' | 'report', evaluatedMs: number): Explanation {
  const { policy, message } = result;
  return {
    policy,
    isRelevant: true,
    result: result.result,
    from,
    evaluatedMs,
    ...(message !== undefined && { message }),
  };
}

/** The results for the object, from its own report or from one of its namespace. */
async function reportOf(
  { client, signal }: GuardContext,
  namespace: string,
  { metadata: { uid = '' } }: KubeObject,
): Promise<Pick<AuditReport, 'results' | 'scope'> | undefined> {
  for (const types of Object.values(reportTypes)) {
    const api = new ReportApi(client, types);
    const own = await api.read(namespace, uid, signal);
    if (own !== undefined) return own;
    for (let number = 1; ; number++) {
      const part = await api.read(namespace, partName(namespace, number), signal);
      if (part === undefined) break;
      const entry = entriesOf(part).get(uid);
      if (entry !== undefined) return entry;
    }
  }
  return undefined;
}

function findKind(kinds: ReadonlyMap<string, ServedKind>, wanted: string): ServedKind {
  const asked = wanted.toLowerCase();
  const found = [...kinds.values()].find(({ key, type, shortNames }) =>
    [
      key,
      ...shortNames,
      type.plural,
      type.kind.toLowerCase(),
      `${type.kind.toLowerCase()}.${type.group}`,
    ].includes(asked),
  );
  if (found !== undefined) return found;
  throw new RampartError(errorCodes.INPUT, {
    what: `the API does not serve the kind ${JSON.stringify(wanted)}`,
    next: 'Name it as in kubectl: pod, deployments.apps',
  });
}
