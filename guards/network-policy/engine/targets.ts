/** The pods of this node, and the policies that select them. */
import { labelsMatch } from '../../../lib/kube/selectors/selectors.ts';
import { equal } from './equal.ts';
import type { PolicyMode } from './monitor.ts';
import type { ParsedPolicy } from './parsed-policy.ts';
import type { PodChange, PodFacts } from './pod-table.ts';
import type { Address, Direction, Family, LocalPod, PeersKey, PodKey, PolicyKey } from './rules.ts';
import { SelectorIndex } from './selector-index.ts';

/** The parts that must be computed again. */
export interface Dirty {
  readonly pods: Set<PodKey>;
  readonly policies: Set<PolicyKey>;
  readonly peers: Set<PeersKey>;
}

interface Target {
  readonly facts: PodFacts;
  readonly policies: Set<ParsedPolicy>;
}

export class Targets {
  readonly #dirty: Dirty;
  readonly #pods = new Map<PodKey, Target>();
  /** IPv6 link-local addresses of the interfaces of pods. */
  readonly #linkLocal = new Map<PodKey, readonly Address[]>();
  readonly #index = new SelectorIndex<ParsedPolicy>();
  readonly #selected = new Map<ParsedPolicy, Map<PodKey, PodFacts>>();
  /** Results of {@link of}, until they change. */
  readonly #lists = new Map<ParsedPolicy, readonly PodFacts[]>();
  /** Mode of the node. */
  readonly #mode: PolicyMode;
  /** Namespaces all of whose policies are in monitor mode. */
  readonly #monitored = new Set<string>();

  constructor(dirty: Dirty, mode: PolicyMode) {
    this.#dirty = dirty;
    this.#mode = mode;
  }

  setNamespaceMode(namespace: string, mode: PolicyMode): void {
    if (this.#monitored.has(namespace) === (mode === 'monitor')) return;
    if (mode === 'monitor') this.#monitored.add(namespace);
    else this.#monitored.delete(namespace);
    for (const { facts } of this.#pods.values()) {
      if (facts.namespace === namespace) this.#dirty.pods.add(facts.key);
    }
  }

  addPolicy(policy: ParsedPolicy): void {
    this.#index.add(policy, policy.namespace, policy.targets);
    for (const target of this.#pods.values()) {
      if (target.facts.namespace === policy.namespace && labelsMatch(policy.targets, target.facts.labels)) {
        this.#select(policy, target);
        this.#dirty.pods.add(target.facts.key);
      }
    }
  }

  removePolicy(policy: ParsedPolicy): void {
    this.#index.delete(policy, policy.namespace, policy.targets);
    for (const key of this.#selected.get(policy)?.keys() ?? []) {
      this.#pods.get(key)?.policies.delete(policy);
      this.#dirty.pods.add(key);
    }
    this.#selected.delete(policy);
    this.#changed(policy);
  }

  podChanged({ before, after }: PodChange): void {
    const was = before === undefined ? undefined : this.#pods.get(before.key);
    if (was !== undefined) {
      this.#pods.delete(was.facts.key);
      this.#dirty.pods.add(was.facts.key);
      for (const policy of was.policies) this.#deselect(policy, was.facts.key);
    }
    if (after?.local !== true) return;
    const target = { facts: after, policies: new Set<ParsedPolicy>() };
    this.#pods.set(after.key, target);
    this.#dirty.pods.add(after.key);
    const found = new Set<ParsedPolicy>();
    this.#index.find(after.namespace, after.labels, found);
    for (const policy of found) {
      if (labelsMatch(policy.targets, after.labels)) this.#select(policy, target);
    }
  }

  /** The labels of a namespace may also change which policies select its pods. */
  namespaceChanged(namespace: string): void {
    for (const { facts } of this.#pods.values()) {
      if (facts.namespace === namespace) this.#dirty.pods.add(facts.key);
    }
  }

  setLinkLocal(key: PodKey, addresses: readonly Address[]): void {
    if (equal(this.#linkLocal.get(key) ?? [], addresses)) return;
    if (addresses.length === 0) this.#linkLocal.delete(key);
    else this.#linkLocal.set(key, addresses);
    this.#dirty.pods.add(key);
  }

  /** The pods of this node that the policy selects; the same array as long as the pods are the same. */
  of(policy: ParsedPolicy): readonly PodFacts[] {
    const known = this.#lists.get(policy);
    if (known !== undefined) return known;
    const pods = [...(this.#selected.get(policy)?.values() ?? [])];
    if (pods.length > 0) this.#lists.set(policy, pods);
    return pods;
  }

  localPod(key: PodKey): LocalPod | undefined {
    const target = this.#pods.get(key);
    if (target === undefined) return undefined;
    const isMonitored = this.#mode === 'monitor' || this.#monitored.has(target.facts.namespace);
    const isolating = (direction: Direction): readonly ParsedPolicy[] =>
      [...target.policies].filter((policy) => policy[direction] !== undefined);
    const keysOf = (policies: readonly ParsedPolicy[]): PolicyKey[] | undefined =>
      policies.length === 0 ? undefined : policies.map(({ key: policy }) => policy).toSorted();
    const monitors = (policies: readonly ParsedPolicy[]): boolean =>
      policies.length > 0 && (isMonitored || policies.every(({ mode }) => mode === 'monitor'));
    const [ingress, egress] = [isolating('ingress'), isolating('egress')];
    const addressesOf = (wanted: Family) =>
      target.facts.addresses.filter(({ family }) => family === wanted).map(({ text }) => text);
    return {
      pod: key,
      addresses: { 4: addressesOf(4), 6: [...addressesOf(6), ...(this.#linkLocal.get(key) ?? [])] },
      ingress: keysOf(ingress),
      egress: keysOf(egress),
      monitors: { ingress: monitors(ingress), egress: monitors(egress) },
    };
  }

  #select(policy: ParsedPolicy, { facts, policies }: Target): void {
    policies.add(policy);
    const selected = this.#selected.get(policy);
    if (selected === undefined) this.#selected.set(policy, new Map([[facts.key, facts]]));
    else selected.set(facts.key, facts);
    this.#changed(policy);
  }

  #deselect(policy: ParsedPolicy, key: PodKey): void {
    const selected = this.#selected.get(policy);
    selected?.delete(key);
    if (selected?.size === 0) this.#selected.delete(policy);
    this.#changed(policy);
  }

  #changed(policy: ParsedPolicy): void {
    this.#lists.delete(policy);
    this.#dirty.policies.add(policy.key);
  }
}
