/**
 * The status of a policy. Names and reasons are Kubewarden's (kubewarden-controller, api/policies/v1). Pure.
 */
import { type Condition, findCondition, setCondition } from '../../../lib/kube/object/conditions.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { policyId } from './read-policy.ts';

export const policyActive = 'PolicyActive';
/** Upstream sets this once every replica of the server has loaded the policy; here, a single engine is enough. */
export const policyReachable = 'PolicyUniquelyReachable';

/** False if the API serves none of the kinds that the policy's rules name. Absent if that has never been the case. */
export const kindsServed = 'KindsServed';

/** The reason of {@link policyReachable} while no pod of its server is ready. */
export const noReadyPods = 'NoReadyPods';

export type Status = NonNullable<AnyKubewardenPolicy['status']>;

const cannotRun = 'PolicyCannotRun';
const formerActive = 'FormerPolicyActive';
const formerStays = '. The previous version stays in use';
/** After a restart: the policy was evaluated earlier, but cannot be evaluated now. */
const unavailable = 'PolicyUnavailable';

const reachable = {
  type: policyReachable,
  status: 'True',
  reason: 'LatestReplicaSetIsUniquelyReachable',
  message: 'It is evaluated in a single place',
} as const;

/** The status of an active policy; the same object if nothing changes. */
export function activeStatus(object: AnyKubewardenPolicy): Status {
  const { spec, metadata } = object;
  const observedGeneration = metadata.generation;
  let conditions: readonly Condition[] | undefined = object.status?.conditions;
  conditions = setCondition(conditions, {
    type: policyActive,
    status: 'True',
    reason: 'PolicyActive',
    message: 'It is evaluated',
    observedGeneration,
  });
  conditions = setCondition(conditions, { ...reachable, observedGeneration });
  return kept(object, { policyStatus: 'active', mode: spec.mode, conditions: conditions ?? [] });
}

/**
 * Whether a policy was evaluated for writes when its status was written. It stays in use even if it can no
 * longer be evaluated: `failurePolicy` decides then.
 */
export function isInUse({ status }: Pick<AnyKubewardenPolicy, 'status'>): boolean {
  return (
    status?.policyStatus === 'active' ||
    findCondition(status?.conditions, policyActive)?.reason === unavailable
  );
}

/** Whether the status says that the policy is not in use, and why. */
export function isKnownUnused(object: Pick<AnyKubewardenPolicy, 'status'>): boolean {
  return findCondition(object.status?.conditions, policyActive)?.status === 'False' && !isInUse(object);
}

/** What happens to requests if a policy that is in use cannot be evaluated. */
function fateOf({ spec }: AnyKubewardenPolicy): string {
  const isRefused = spec.failurePolicy !== 'Ignore' && spec.mode !== 'monitor';
  return `. Requests that it applies to are ${isRefused ? 'refused' : 'allowed unchecked'}`;
}

/**
 * What decides if a policy cannot be evaluated as written: its previous version, its failurePolicy, its pods
 * (which refuse whatever the failurePolicy is, like Kubewarden's policy server), or nothing.
 */
export type Substitute = 'failurePolicy' | 'former' | 'pods' | undefined;

function consequenceOf(object: AnyKubewardenPolicy, substitute: Substitute): string {
  if (substitute === 'former') return formerStays;
  if (substitute === 'failurePolicy') return fateOf(object);
  if (substitute === undefined) return '';
  return `. What it applies to is ${object.spec.mode === 'monitor' ? 'allowed unchecked' : 'refused'} there`;
}

const notOnPods = 'its PolicyServer does not evaluate it ';

/** @param where - On which pods the policy is missing, and why. */
export function missingOnPods(where: string): string {
  return notOnPods + where;
}

/** Whether the status says that the policy's pods did not evaluate it, although the operator could open it. */
export function isMissingOnPods({ status }: Pick<AnyKubewardenPolicy, 'status'>): boolean {
  const { reason, message = '' } = findCondition(status?.conditions, policyActive) ?? {};
  return reason === unavailable && message.includes(notOnPods);
}

/** The status of a policy that cannot be evaluated as written. */
export function refusedStatus(object: AnyKubewardenPolicy, why: string, substitute: Substitute): Status {
  const isAsked = substitute === 'former';
  const condition = {
    status: 'False',
    reason: isAsked ? formerActive : substitute === undefined ? cannotRun : unavailable,
    message: why + consequenceOf(object, substitute),
    observedGeneration: object.metadata.generation,
  } as const;
  let conditions = setCondition(object.status?.conditions, { ...condition, type: policyActive });
  // The condition about the server may be outdated.
  if (!isAsked) conditions = setCondition(conditions, { ...condition, type: policyReachable });
  return kept(object, {
    policyStatus: isAsked ? 'active' : 'pending',
    mode: isAsked ? (object.status?.mode ?? 'unknown') : 'unknown',
    conditions,
  });
}

/** The status of a policy that is not evaluated yet. */
export function waiting(
  object: AnyKubewardenPolicy,
  policyStatus: 'pending' | 'scheduled',
  reason: string,
  message: string,
): Status {
  const observedGeneration = object.metadata.generation;
  let { conditions } = object.status ?? {};
  for (const type of [policyActive, policyReachable])
    conditions = setCondition(conditions, { type, status: 'False', reason, message, observedGeneration });
  return kept(object, { policyStatus, mode: 'unknown', conditions: conditions ?? [] });
}

/**
 * The status of a policy that is being opened, and of which no version can be evaluated yet.
 *
 * @param sinceMs - When the fetch of its module began, in ms since 1970. Undefined: not yet.
 */
export function openingStatus(object: AnyKubewardenPolicy, sinceMs: number | undefined): Status {
  const message =
    sinceMs === undefined
      ? 'it is being loaded'
      : `its module has been fetched or compiled since ${new Date(sinceMs).toISOString()}`;
  return isInUse(object)
    ? refusedStatus(object, message, 'failurePolicy')
    : waiting(object, 'pending', 'PolicyOpening', message);
}

/**
 * The status of a policy, updated by whether the kinds that its rules name are served; undefined if nothing
 * changes.
 *
 * @param unserved - The kinds that the rules name, if the API serves none of them.
 */
export function statusOfKinds(object: AnyKubewardenPolicy, unserved: string | undefined): Status | undefined {
  const { status, metadata } = object;
  const isReported = findCondition(status?.conditions, kindsServed) !== undefined;
  if (status === undefined || (unserved === undefined && !isReported)) return undefined;
  const conditions = setCondition(status.conditions, {
    type: kindsServed,
    observedGeneration: metadata.generation,
    ...(unserved === undefined
      ? { status: 'True', reason: 'KindsServed', message: 'the API serves kinds that spec.rules name' }
      : {
          ...{ status: 'False', reason: 'NoSuchKind' },
          message: `it applies to nothing: the API does not serve ${unserved}`,
        }),
  });
  return conditions === status.conditions ? undefined : { ...status, conditions };
}

/** Why the policy cannot be evaluated as written, according to its status; undefined if the status contains no such reason. */
export function refusalIn(object: AnyKubewardenPolicy | undefined): string | undefined {
  const condition = findCondition(object?.status?.conditions, policyActive);
  if (object === undefined || condition?.status !== 'False') return undefined;
  const { message, reason } = condition;
  if (reason === cannotRun) return message;
  if ((reason !== formerActive && reason !== unavailable) || isMissingOnPods(object)) return undefined;
  const end = reason === formerActive ? formerStays : fateOf(object);
  return message.endsWith(end) ? message.slice(0, -end.length) : message;
}

/** The status of a policy with a webhook, updated by whether its server answers. */
export function withAnswers(object: AnyKubewardenPolicy, status: Status, isAnswering: boolean): Status {
  const { spec, metadata } = object;
  const fate = spec.failurePolicy === 'Ignore' ? 'allowed unchecked' : 'refused';
  const unanswered = {
    type: policyReachable,
    status: 'False',
    reason: noReadyPods,
    message:
      `the webhook ${policyId(object)} is not answered, because the PolicyServer ${spec.policyServer} has no ready pod: ` +
      `requests that it applies to are ${fate}`,
  } as const;
  const conditions = setCondition(status.conditions, {
    ...(isAnswering ? reachable : unanswered),
    observedGeneration: metadata.generation,
  });
  return conditions === status.conditions ? status : { ...status, conditions };
}

function kept({ status }: AnyKubewardenPolicy, next: Status): Status {
  if (status === undefined) return next;
  const isSame =
    status.policyStatus === next.policyStatus &&
    status.mode === next.mode &&
    status.conditions === next.conditions;
  return isSame ? status : next;
}
