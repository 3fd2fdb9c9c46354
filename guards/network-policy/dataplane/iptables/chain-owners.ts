/** Which pod or policy a chain belongs to: for messages, counts and logged packets. */
import type {
  Direction,
  NodeRules,
  PodKey,
  PolicyKey,
  PolicyRules,
  RulesChange,
} from '../../engine/rules.ts';
import { families, podChain, policyChain } from './names.ts';

export interface ChainOwner {
  readonly kind: 'pod' | 'policy';
  readonly key: string;
}

export class ChainOwners {
  readonly #owners = new Map<string, ChainOwner>();

  get(chain: string): ChainOwner | undefined {
    return this.#owners.get(chain);
  }

  podOf(chain: string): { readonly pod: PodKey } | undefined {
    const owner = this.#owners.get(chain);
    return owner?.kind === 'pod' ? { pod: owner.key } : undefined;
  }

  set(rules: NodeRules): void {
    this.#owners.clear();
    for (const key of rules.pods.keys()) this.#addPod(key);
    for (const policy of rules.policies.values()) this.#addPolicy(policy);
  }

  change({ pods, policies }: NodeRules, change: RulesChange): void {
    for (const key of change.pods) {
      if (pods.has(key)) this.#addPod(key);
      else this.#owners.delete(podChain(key));
    }
    for (const key of change.policies) {
      const policy = policies.get(key);
      if (policy !== undefined) {
        this.#addPolicy(policy);
        continue;
      }
      const [direction, name] = key.split(' ', 2) as [Direction, PolicyKey];
      for (const family of families) this.#owners.delete(policyChain(direction, name, family));
    }
  }

  #addPod(key: PodKey): void {
    this.#owners.set(podChain(key), { kind: 'pod', key });
  }

  #addPolicy({ direction, policy: key }: PolicyRules): void {
    for (const family of families) {
      this.#owners.set(policyChain(direction, key, family), { kind: 'policy', key });
    }
  }
}
