/**
 * The policies of a policy server as the API server and users see them: for each, the webhook that calls the
 * server, and the status that says whether the policy is enforced.
 */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import { findCondition } from '../../../lib/kube/object/conditions.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import type { PolicySet } from '../policies/policy-set.ts';
import {
  activeStatus,
  isMissingOnPods,
  missingOnPods,
  openingStatus,
  policyActive,
  refusedStatus,
  type Status,
  waiting,
  withAnswers,
} from '../policies/policy-status.ts';
import { canRun, pending, type Scheduled } from './scheduled-policies.ts';
import type { PodStates } from './server-pods.ts';
import { fieldManager } from './stored-certificates.ts';
import { ServerWebhooks } from './server-webhooks.ts';
import { type WebhookParts, webhookOf } from './webhooks.ts';

/** The parts that all webhooks of a server share. */
export interface Serving extends Pick<WebhookParts, 'service' | 'authorities' | 'systemNamespace'> {
  readonly signal: AbortSignal;
}

export class ServedPolicies {
  readonly #client: KubeClient;
  readonly #recorder: EventRecorder;
  readonly #trials: Pick<PolicySet, 'opening'>;
  readonly #webhooks: ServerWebhooks;

  constructor(client: KubeClient, recorder: EventRecorder, trials: Pick<PolicySet, 'opening'>) {
    this.#client = client;
    this.#recorder = recorder;
    this.#trials = trials;
    this.#webhooks = new ServerWebhooks(client);
  }

  /** Servers whose webhooks exist. */
  servers(signal: AbortSignal): Promise<Set<string>> {
    return this.#webhooks.servers(signal);
  }

  /** Deletes the webhooks first: one whose server is gone would refuse every request that it is called for. */
  async withdraw(
    name: string,
    policies: readonly Scheduled[],
    why: string,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#webhooks.remove(name, new Set(), signal);
    for (const { object, type } of policies) {
      await this.#notify(
        type,
        object,
        waiting(object, 'scheduled', 'NotEnforced', `not enforced: ${why}`),
        signal,
      );
    }
  }

  /** While a server is rolled out, active policies stay active on the previous pods, if there are any; the others wait. */
  async whileRollingOut(
    name: string,
    policies: readonly Scheduled[],
    states: PodStates | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    for (const { id, object, type, problem } of policies) {
      const missing = states?.missing(id);
      let next: Status;
      if (problem !== '') next = await this.#refused(object, problem, missing, signal);
      else if (object.status?.policyStatus !== 'active' && !isMissingOnPods(object)) next = pending(object);
      else if (missing !== undefined) next = servedStatus(object, states, missing);
      else next = object.status ?? pending(object);
      if (next.policyStatus === 'active') next = withAnswers(object, next, states !== undefined);
      await this.#notify(type, object, next, signal);
    }
    await this.#webhooks.remove(name, new Set(policies.map(({ id }) => id)), signal);
  }

  /**
   * The server has been rolled out.
   *
   * @param states - The states that its pods report; undefined if no pod is ready.
   */
  async serve(
    name: string,
    policies: readonly Scheduled[],
    states: PodStates | undefined,
    { service, authorities, systemNamespace, signal }: Serving,
  ): Promise<void> {
    for (const { id, object, policy, type, problem, isTried } of policies) {
      const missing = states?.missing(id);
      if (!isTried) {
        const isActive = object.status?.policyStatus === 'active';
        if (isActive && missing !== undefined)
          await this.#notify(type, object, servedStatus(object, states, missing), signal);
        // The server of an active policy already answers requests for it.
        if (isActive || isMissingOnPods(object)) continue;
        await this.#notify(type, object, openingStatus(object, this.#trials.opening.get(id)), signal);
        continue;
      }
      if (policy === undefined || problem !== '') {
        await this.#notify(type, object, await this.#refused(object, problem, missing, signal), signal);
        continue;
      }
      if (missing !== undefined && !(await this.#webhooks.has(object, signal))) {
        // Treated like a policy that cannot run: a policy that was never active refuses nothing.
        await this.#notify(type, object, refusedStatus(object, missingOnPods(missing), undefined), signal);
        continue;
      }
      const webhook = webhookOf({ object, policy, service, authorities, systemNamespace });
      const refusal = await this.#webhooks.apply(webhook, signal);
      const status =
        refusal === ''
          ? servedStatus(object, states, missing)
          : await this.#refused(object, refusal, missing, signal);
      await this.#notify(type, object, status, signal);
    }
    // If a policy cannot run, its previous version and webhook are kept: without the webhook, everything would be allowed.
    const kept = policies.map((one) => (canRun(one) ? `${one.id} ${one.policy?.isMutating}` : one.id));
    await this.#webhooks.remove(name, new Set(kept), signal);
  }

  /** The status of a policy that cannot run as written: its webhook stays, if it has one, and its pods answer with the previous version if they have it. */
  async #refused(
    object: AnyKubewardenPolicy,
    problem: string,
    missing: string | undefined,
    signal: AbortSignal,
  ): Promise<Status> {
    const isCalled = await this.#webhooks.has(object, signal);
    if (!isCalled || missing === undefined)
      return refusedStatus(object, problem, isCalled ? 'former' : undefined);
    return refusedStatus(object, `${problem}; its previous version: ${missingOnPods(missing)}`, 'pods');
  }

  async #notify(
    type: ResourceType,
    object: AnyKubewardenPolicy,
    status: Status,
    signal: AbortSignal,
  ): Promise<void> {
    if (status === object.status || JSON.stringify(status) === JSON.stringify(object.status)) return;
    if (isMissingOnPods({ status }) && !isMissingOnPods(object)) {
      this.#recorder.record({
        regarding: referenceTo(type, object),
        type: 'Warning',
        reason: 'PolicyNotActive',
        action: 'Serving',
        note: findCondition(status.conditions, policyActive)?.message ?? '',
      });
    }
    const { name = '', namespace } = object.metadata;
    const target = { name, namespace, subresource: 'status' };
    const patch = { type: 'merge', body: { status } } as const;
    await orUndefined(this.#client.patch(type, target, patch, { fieldManager, signal }));
  }
}

/** The status of a policy with a webhook. @param missing - On which pods it is not evaluated, and why. */
function servedStatus(
  object: AnyKubewardenPolicy,
  states: PodStates | undefined,
  missing: string | undefined,
): Status {
  if (missing !== undefined) return refusedStatus(object, missingOnPods(missing), 'pods');
  // If a pod does not answer, its last known states are used.
  const { status } = object;
  return status !== undefined && isMissingOnPods(object) && states?.unread.length !== 0
    ? status
    : activeStatus(object);
}
