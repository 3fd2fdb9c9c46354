/**
 * The status of a PolicyServer: a condition for each of its parts, named as Kubewarden's controller names them
 * (api/policies/v1/policyserver_types.go). Pure.
 */
import { type Condition, removeCondition, setCondition } from '../../../lib/kube/object/conditions.ts';
import { configMaps, deployments, type ResourceType, secrets } from '../../../lib/kube/object/object.ts';
import { counted, someOf } from '../../../lib/output/words.ts';
import type { PolicyServer } from '../api.ts';
import type { Scanner } from '../scanner/scanner.ts';
import { budgetType, serviceType } from './server-objects.ts';
import type { PodStates } from './server-pods.ts';

const conditionTypes: ReadonlyMap<string, string> = new Map([
  [secrets.plural, 'CertSecretReconciled'],
  [configMaps.plural, 'ConfigMapReconciled'],
  [budgetType.plural, 'PodDisruptionBudgetReconciled'],
  [deployments.plural, 'DeploymentReconciled'],
  [serviceType.plural, 'ServiceReconciled'],
]);

/** Whether it has a ready pod. */
export const serverReady = 'Ready';

/** The conditions, updated from the readiness of the pods; the same list if nothing changes. */
export function withReadiness(
  conditions: readonly Condition[] | undefined,
  { metadata, spec }: PolicyServer,
  isReady: boolean,
): readonly Condition[] {
  return setCondition(conditions, {
    type: serverReady,
    status: isReady ? 'True' : 'False',
    reason: isReady ? 'PodsReady' : spec.replicas === 0 ? 'NoReplicas' : 'NoReadyPods',
    message: isReady
      ? 'at least one pod is ready'
      : spec.replicas === 0
        ? 'it has no replicas: its policies are not enforced'
        : 'no pod is ready: what its policies apply to is refused, except by policies with failurePolicy Ignore',
    observedGeneration: metadata.generation,
  });
}

/** Whether all ready pods of the server evaluate all its policies. */
const policiesLoaded = 'PoliciesLoaded';
const MAX_NAMED = 10;

/** The conditions, updated from the states that the pods report for the policies with these IDs; the same list if nothing changes. */
export function withPodStates(
  conditions: readonly Condition[] | undefined,
  { metadata }: PolicyServer,
  states: PodStates | undefined,
  ids: readonly string[],
): readonly Condition[] | undefined {
  // Without ready pods, the condition `Ready` is enough.
  if (states === undefined || states.count === 0) return removeCondition(conditions, policiesLoaded);
  const { unread, count } = states;
  const missing = ids.filter((id) => states.missing(id) !== undefined);
  const [status, reason, message] =
    missing.length > 0
      ? (['False', 'PoliciesMissing', `not evaluated by all pods: ${someOf(missing, MAX_NAMED)}`] as const)
      : unread.length > 0
        ? ([
            'Unknown',
            'PodsUnread',
            `${unread.length} of ${counted(count, 'pod')} cannot be asked which policies they evaluate: ` +
              `${someOf(unread, MAX_NAMED)}; let the operator reach the port of their readiness probe`,
          ] as const)
        : (['True', 'PoliciesLoaded', 'all pods evaluate all policies'] as const);
  return setCondition(conditions, {
    ...{ type: policiesLoaded, status, reason, message },
    observedGeneration: metadata.generation,
  });
}

/** Whether all objects have been audited once; the message includes the progress of the current pass. */
export const serverAudited = 'Audited';

/**
 * The conditions, updated with the progress of the audit, which is common to the policies of all servers; the same
 * list if nothing changes.
 */
export function withAudit(
  conditions: readonly Condition[] | undefined,
  { metadata }: PolicyServer,
  audit: Pick<Scanner, 'lastPass' | 'passProgress'> | undefined,
): readonly Condition[] | undefined {
  const { lastPass, passProgress: runs } = audit ?? {};
  if (lastPass === undefined && runs === undefined) return conditions;
  const last =
    lastPass === undefined
      ? 'no full pass over the objects has ended yet'
      : `the last full pass over the objects ended at ${new Date(lastPass.endedMs).toISOString()} and took ${lastPass.seconds} s`;
  const now =
    runs &&
    `the one that began at ${runs.since} has ${runs.left} of ${counted(runs.namespaces, 'namespace')} left`;
  return setCondition(conditions, {
    type: serverAudited,
    status: lastPass === undefined ? 'False' : 'True',
    reason: runs === undefined ? 'PassEnded' : 'PassRuns',
    message: [last, now].filter((text) => text !== undefined).join('; '),
    observedGeneration: metadata.generation,
  });
}

/**
 * The conditions after a part has been written, or could not be; the same list if nothing changes.
 *
 * @param problem - Why it could not be written.
 */
export function withPart(
  conditions: readonly Condition[] | undefined,
  { metadata }: PolicyServer,
  { plural, kind }: ResourceType,
  problem?: string,
): readonly Condition[] {
  return setCondition(conditions, {
    type: conditionTypes.get(plural) ?? `${kind}Reconciled`,
    status: problem === undefined ? 'True' : 'False',
    reason: problem === undefined ? 'ReconciliationSucceeded' : 'ReconciliationFailed',
    ...(problem !== undefined && { message: `error reconciling ${kind}: ${problem}` }),
    observedGeneration: metadata.generation,
  });
}
