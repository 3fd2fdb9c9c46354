/**
 * The status of a policy. Names and reasons are Kubewarden's (kubewarden-controller, api/policies/v1). Pure.
 */
import { type Condition, findCondition, setCondition } from '../../../lib/kube/object/conditions.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { policyId } from './read-policy.ts';

export const policyActive = 'PolicyActive';
/** Upstream waits until every server has the policy under its path; there is one engine here. */
export const policyReachable = 'PolicyUniquelyReachable';

/** The reason of {@link policyReachable} while no pod of its server is ready. */
export const noReadyPods = 'NoReadyPods';

export type Status = NonNullable<AnyKubewardenPolicy['status']>;

const cannotRun = 'PolicyCannotRun';
const formerActive = 'FormerPolicyActive';
const formerStays = '. The previous version stays in use';

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
 * The status of a policy that cannot be evaluated as written.
 *
 * @param isAsked whether its previous version is still active.
 */
export function refusedStatus(object: AnyKubewardenPolicy, why: string, isAsked: boolean): Status {
  const condition = {
    status: 'False',
    reason: isAsked ? formerActive : cannotRun,
    message: isAsked ? `${why}${formerStays}` : why,
    observedGeneration: object.metadata.generation,
  } as const;
  let conditions = setCondition(object.status?.conditions, { ...condition, type: policyActive });
  // What was said of its server may be past.
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
 * The status of a policy that is being opened for the first time. One that is active stays so: its previous version is
 * evaluated until the new one is open.
 *
 * @param sinceMs - Since 1970: when its module was asked for. Undefined: not yet.
 */
export function openingStatus(object: AnyKubewardenPolicy, sinceMs: number | undefined): Status | undefined {
  if (object.status?.policyStatus === 'active') return undefined;
  const message =
    sinceMs === undefined
      ? 'it is being loaded'
      : `its module has been fetched or compiled since ${new Date(sinceMs).toISOString()}`;
  return waiting(object, 'pending', 'PolicyOpening', message);
}

/** Why it cannot be evaluated as written, by its status; undefined if that does not say so. */
export function refusalIn(object: AnyKubewardenPolicy | undefined): string | undefined {
  const condition = findCondition(object?.status?.conditions, policyActive);
  const isRefused = condition?.reason === cannotRun || condition?.reason === formerActive;
  if (condition?.status !== 'False' || !isRefused) return undefined;
  const { message } = condition;
  return message.endsWith(formerStays) ? message.slice(0, -formerStays.length) : message;
}

/** The status of a policy with a webhook, whose server answers or not. */
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
