/** Waits until a CustomResourceDefinition is served: before that, its objects cannot be written. */
import type { V1CustomResourceDefinition } from '@kubernetes/client-node';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { sleep, systemClock } from '../../time/clock.ts';
import type { KubeClient } from '../client/client.ts';
import { type Condition, isConditionTrue } from '../object/conditions.ts';
import type { KubeKind, ResourceType } from '../object/object.ts';

/** CustomResourceDefinitions themselves. */
export const customResourceDefinitions: ResourceType<KubeKind<V1CustomResourceDefinition>> = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
};

const POLL_MS = 20;

interface EstablishedOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Resolves when the definition is established.
 *
 * @param name such as `widgets.example.com`.
 * @throws {RampartError} `API` when it takes too long, with the server's reason; what `KubeClient.get` throws, for
 *   example if the definition does not exist; the signal's reason.
 */
export async function established(
  client: KubeClient,
  name: string,
  { timeoutMs, signal }: EstablishedOptions,
): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const { status } = await client.get(customResourceDefinitions, { name }, { signal });
    const conditions = (status?.conditions ?? []) as readonly Condition[];
    if (isConditionTrue(conditions, 'Established')) return;
    if (waitedMs >= timeoutMs) {
      const said = conditions.map(({ type, status: is, message }) => `${type} is ${is}: ${message}`);
      throw new RampartError(errorCodes.API, {
        what: `${name} is not established after ${timeoutMs / 1000} s`,
        why: said.length > 0 ? said.join('; ') : 'the server gave no reason',
      });
    }
    await sleep(systemClock, POLL_MS, signal);
  }
}
