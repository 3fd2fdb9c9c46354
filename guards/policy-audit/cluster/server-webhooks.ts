/** Reads and writes the webhooks of policy servers in the API. */
import { managedSelector } from '../../../guard/managed-by.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isForbidden, orUndefined } from '../../../lib/kube/client/client-errors.ts';
import type { KubeObject, ResourceType } from '../../../lib/kube/object/object.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { policyId } from '../policies/read-policy.ts';
import { serverLabel } from '../server-label.ts';
import type { Wanted } from './server-objects.ts';
import { fieldManager } from './stored-certificates.ts';
import { mutatingType, validatingType } from './webhooks.ts';

const types = [validatingType, mutatingType] as const;

export class ServerWebhooks {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** The names of the PolicyServers that have webhooks. */
  async servers(signal: AbortSignal): Promise<Set<string>> {
    const found = await this.#ofAllTypes(signal);
    return new Set(found.map(({ object }) => object.metadata.labels?.[serverLabel] ?? ''));
  }

  /** Whether this policy has a webhook. */
  async has(policy: AnyKubewardenPolicy, signal: AbortSignal): Promise<boolean> {
    const id = policyId(policy);
    const found = await this.#ofAllTypes(signal, policy.spec.policyServer);
    return found.some(({ object }) => object.metadata.name === id);
  }

  /** @returns why the cluster does not allow this webhook; '' if it does */
  async apply({ type, object }: Wanted, signal: AbortSignal): Promise<string> {
    try {
      await this.#client.apply(type, object, { fieldManager, force: true, signal });
      return '';
    } catch (error) {
      if (!isForbidden(error)) throw error;
      return `its webhook is refused: ${(error as Error).message}`;
    }
  }

  /** @param keep - IDs of the policies whose webhooks stay. `ID true` or `ID false` keeps only a mutating or only a validating webhook. */
  async remove(server: string, keep: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    for (const { type, object } of await this.#ofAllTypes(signal, server)) {
      const { name = '' } = object.metadata;
      if (keep.has(name) || keep.has(`${name} ${type === mutatingType}`)) continue;
      await orUndefined(this.#client.delete(type, { name }, { signal }));
    }
  }

  async #ofAllTypes(
    signal: AbortSignal,
    server?: string,
  ): Promise<{ readonly type: ResourceType; readonly object: KubeObject }[]> {
    const selector = server === undefined ? serverLabel : `${serverLabel}=${server}`;
    const lists = await Promise.all(
      types.map(async (type) => {
        const labelSelector = `${selector},${managedSelector}`;
        const { items } = await this.#client.list(type, {}, { labelSelector, signal });
        return items.map((object) => ({ type, object }));
      }),
    );
    return lists.flat();
  }
}
