/** If this process decides on admission, writes to the status of policies whether they are evaluated. */
import type { GuardContext } from '../../../guard/context.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { referenceTo } from '../../../lib/kube/events/event-object.ts';
import type { EventRecorder } from '../../../lib/kube/events/event-recorder.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { activeStatus, openingStatus, refusedStatus, type Status, type Substitute } from './policy-status.ts';

export class StatusWriter {
  readonly #client: GuardContext['client'];
  readonly #recorder: EventRecorder;

  constructor(context: GuardContext) {
    this.#client = context.client;
    this.#recorder = context.recorder();
  }

  /**
   * @param problem - Why the policy cannot be evaluated as written.
   * @returns its new resourceVersion; undefined if nothing was written, or the policy is gone.
   * @throws {KubeError} if the policy has been changed by another client.
   */
  async notify(
    type: ResourceType,
    object: AnyKubewardenPolicy,
    { problem, substitute }: { readonly problem: string | undefined; readonly substitute: Substitute },
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const status = problem === undefined ? activeStatus(object) : refusedStatus(object, problem, substitute);
    if (status === object.status) return undefined;
    if (problem !== undefined) {
      this.#recorder.record({
        regarding: referenceTo(type, object),
        type: 'Warning',
        reason: 'PolicyNotActive',
        action: 'Opening',
        note: problem,
      });
    }
    return this.#write(type, object, status, signal);
  }

  /**
   * Writes the status of a policy that is being opened.
   *
   * @param sinceMs - When the opening began, in ms since 1970.
   * @throws like {@link notify}
   */
  async reportOpening(
    type: ResourceType,
    object: AnyKubewardenPolicy,
    sinceMs: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const status = openingStatus(object, sinceMs);
    if (status !== object.status) await this.#write(type, object, status, signal);
  }

  async #write(
    type: ResourceType,
    { metadata }: AnyKubewardenPolicy,
    status: Status,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { namespace, name = '', resourceVersion } = metadata;
    const target = { namespace, name, subresource: 'status' };
    const body = { metadata: { resourceVersion }, status };
    const written = await orUndefined(
      this.#client.patch(
        type as ResourceType<AnyKubewardenPolicy>,
        target,
        { type: 'merge', body },
        { signal },
      ),
    );
    return written?.metadata.resourceVersion;
  }
}
