/** The nodes' reports, by policy: if a node's object changes, only the policies whose parts differ are reported. */
import { isDeepStrictEqual } from 'node:util';

import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { KiveNodeStatus } from '../api.ts';
import type { NodePart } from '../policy-status-schema.ts';
import { partsOf } from './policy-status.ts';

/** Disposing of it ends the subscription. */
export class PolicyParts implements Disposable {
  /** Keyed by the policy's key, then by node. */
  readonly #parts = new Map<string, Map<string, NodePart>>();
  /** Keys of the policies that a node reports on, keyed by node. */
  readonly #keysOf = new Map<string, Set<string>>();
  readonly #subscription: Disposable;

  /** @param onChanged - Called with the key of each policy on which a node's report has changed. */
  constructor(statuses: IndexedCache<KiveNodeStatus>, onChanged: (policyKey: string) => void) {
    this.#subscription = statuses.subscribe(({ type, object }) => {
      for (const key of this.#set(object, type === 'deleted')) onChanged(key);
    });
    for (const status of statuses.list()) this.#set(status, false);
  }

  /** The parts for one policy, sorted by the node's name. */
  of(policyKey: string, uid: string | undefined, hasNode: (name: string) => boolean): NodePart[] {
    return partsOf(uid, this.#parts.get(policyKey)?.values() ?? []).filter(({ node }) => hasNode(node));
  }

  keysOf(node: string): Iterable<string> {
    return this.#keysOf.get(node) ?? [];
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #set({ metadata, policies }: KiveNodeStatus, isGone: boolean): Set<string> {
    const { name: node = '' } = metadata;
    const changed = new Set<string>();
    const now = new Set<string>();
    for (const part of isGone ? [] : policies) {
      const key = `${part.namespace}/${part.name}`;
      const nodes = this.#parts.get(key) ?? new Map<string, NodePart>();
      const entry = { ...part, node };
      now.add(key);
      if (isDeepStrictEqual(nodes.get(node), entry)) continue;
      this.#parts.set(key, nodes.set(node, entry));
      changed.add(key);
    }
    for (const key of this.#keysOf.get(node) ?? []) {
      if (now.has(key)) continue;
      const nodes = this.#parts.get(key);
      nodes?.delete(node);
      if (nodes?.size === 0) this.#parts.delete(key);
      changed.add(key);
    }
    if (now.size > 0) this.#keysOf.set(node, now);
    else this.#keysOf.delete(node);
    return changed;
  }
}
