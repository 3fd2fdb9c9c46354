/** Objects that are found, released and deleted, whatever their kind. */
import { deleteSame } from '../../lib/kube/client/delete-same.ts';
import { orUndefined } from '../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { releaseAll } from '../../lib/kube/controller/finalizers.ts';
import { type KubeObject, objectKey, scopedAs, type ResourceType } from '../../lib/kube/object/object.ts';
import { eachOf } from '../../lib/time/each-of.ts';
import { follow } from './follow.ts';
import type { Selected } from './selected.ts';

const PARALLEL = 16;
const GONE_MS = 90_000;

interface RemoverOptions {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly goneMs?: number;
}

/** Removes objects and records each. */
export class Remover {
  readonly removed: string[] = [];
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  readonly #goneMs: number;

  constructor({ client, signal, goneMs = GONE_MS }: RemoverOptions) {
    [this.#client, this.#signal, this.#goneMs] = [client, signal, goneMs];
  }

  /** The selected objects; none if the kind is not served. */
  async find({ type, namespace, ...selection }: Selected): Promise<readonly KubeObject[]> {
    const options = { ...selection, signal: this.#signal };
    return (await orUndefined(this.#client.list(type, { namespace }, options)))?.items ?? [];
  }

  async delete(selected: Selected): Promise<void> {
    await eachOf(await this.find(selected), PARALLEL, async (object) => {
      // If another object has taken this name meanwhile, the final check finds it.
      const deleted = await deleteSame(this.#client, selected.type, object, { signal: this.#signal });
      if (deleted) this.removed.push(named(selected.type, object));
    });
  }

  async release(type: ResourceType, finalizers: readonly string[]): Promise<void> {
    await releaseAll(this.#client, type, finalizers, {
      signal: this.#signal,
      onReleased: (object) => this.removed.push(`finalizer of ${named(type, object)}`),
    });
  }

  /** Removes the status of objects, which would become outdated. */
  async forget(type: ResourceType): Promise<void> {
    await eachOf(await this.find({ type }), PARALLEL, async (object) => {
      if (Object.keys((object as { readonly status?: object }).status ?? {}).length === 0) return;
      const { name = '', namespace } = object.metadata;
      const target = { name, namespace, subresource: 'status' };
      const patch = { type: 'merge', body: { status: null } } as const;
      await orUndefined(this.#client.patch(scopedAs(type, object), target, patch, { signal: this.#signal }));
      this.removed.push(`status of ${named(type, object)}`);
    });
  }

  /** Waits until they are gone. @returns those that remain when there is no more progress */
  async gone(selected: Selected): Promise<readonly string[]> {
    if ((await this.find(selected)).length > 0) {
      await follow(selected, {
        ...{ client: this.#client, signal: this.#signal, stalledMs: this.#goneMs },
        progress: ({ length }) => (length === 0 ? undefined : String(length)),
      });
    }
    return (await this.find(selected)).map((object) => named(selected.type, object));
  }
}

export function named({ kind }: ResourceType, object: KubeObject): string {
  return `${kind} ${objectKey(object)}`;
}
