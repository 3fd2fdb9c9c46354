/**
 * Turns the objects of the cluster into the rules of this node, change by change.
 *
 * Pure: no I/O, no clock. The result follows from the objects that it knows, never from their order.
 * A change costs in proportion to what depends on it. Of policies that select no pod of this node, only the parsed form
 * is held.
 */
import type { Labels } from '../../../lib/kube/selectors/selectors.ts';
import { rangesOf, union } from './address-sets.ts';
import { type Block, parseBlock } from './addresses.ts';
import { CompiledPolicy } from './compiled-policy.ts';
import { type Compared, equal } from './equal.ts';
import { MapVersion } from './map-version.ts';
import { misreadMonitor, monitorModeOf, namespaceWarning, type PolicyMode } from './monitor.ts';
import type { NamespaceObject, PodObject, PolicyObject } from './objects.ts';
import { type ParsedPolicy, parsePolicy } from './parsed-policy.ts';
import { PeerViews } from './peer-views.ts';
import { type PodChange, PodTable } from './pod-table.ts';
import {
  type Address,
  type AddressChange,
  directions,
  type Family,
  type LocalPod,
  type NodeRules,
  noRules,
  type Peers,
  type PeersChange,
  type PeersKey,
  type PodKey,
  type PolicyKey,
  type PolicyProblem,
  policyRulesKey,
  type PolicyRules,
  type PolicyWarning,
  type RulesChange,
} from './rules.ts';
import { type Dirty, Targets } from './targets.ts';

interface Versions extends NodeRules {
  readonly pods: MapVersion<PodKey, LocalPod>;
  readonly policies: MapVersion<string, PolicyRules>;
  readonly peers: MapVersion<PeersKey, Peers>;
}

export class PolicyEngine {
  readonly #namespaces = new Map<string, Labels>();
  /** Namespaces whose annotation is ignored, and why. */
  readonly #misread = new Map<string, string>();
  readonly #policies = new Map<PolicyKey, ParsedPolicy>();
  /** Policies that cannot be fully expressed, or differ from what is enforced. */
  readonly #flawed = new Set<ParsedPolicy>();
  readonly #pods: PodTable;
  readonly #dirty: Dirty = { pods: new Set(), policies: new Set(), peers: new Set() };
  readonly #targets: Targets;
  readonly #views: PeerViews;
  /** Policies that select a pod of this node. */
  readonly #compiled = new Map<PolicyKey, CompiledPolicy>();
  #rules: Versions = {
    ...{ pods: new MapVersion(), policies: new MapVersion(), peers: new MapVersion() },
    podCidrs: noRules.podCidrs,
  };
  /** The rules at the last {@link takeChange}; below, what may have changed since. */
  #taken: NodeRules = noRules;
  readonly #touchedPods = new Set<PodKey>();
  readonly #touchedPolicies = new Set<string>();
  readonly #touchedPeers = new Set<PeersKey>();

  /**
   * @param nodeName - Pods with this `spec.nodeName` belong to this node.
   * @param mode - `monitor`: all policies are in monitor mode here.
   */
  constructor(nodeName: string, mode: PolicyMode = 'enforce') {
    this.#targets = new Targets(this.#dirty, mode);
    this.#pods = new PodTable(nodeName);
    this.#views = new PeerViews(this.#pods, this.#namespaces, this.#dirty);
  }

  upsertPolicy(object: PolicyObject): void {
    const policy = parsePolicy(object);
    const before = this.#policies.get(policy.key);
    if (equal(before, policy)) return;
    if (before !== undefined) this.#forget(before);
    this.#policies.set(policy.key, policy);
    if (policy.problems.length + policy.warnings.length > 0) this.#flawed.add(policy);
    this.#targets.addPolicy(policy);
  }

  /** @param key - `namespace/name` */
  removePolicy(key: PolicyKey): void {
    const policy = this.#policies.get(key);
    if (policy === undefined) return;
    this.#policies.delete(key);
    this.#forget(policy);
  }

  #forget(policy: ParsedPolicy): void {
    this.#flawed.delete(policy);
    this.#targets.removePolicy(policy);
  }

  upsertPod(pod: PodObject): void {
    this.#podsChanged(this.#pods.upsert(pod));
  }

  /** @param key - `namespace/name` */
  removePod(key: PodKey): void {
    this.#podsChanged(this.#pods.remove(key));
  }

  /** The IPv6 link-local addresses of the interface of a pod of this node: policies that isolate the pod apply to them too. */
  setLinkLocal(key: PodKey, addresses: readonly Address[]): void {
    this.#targets.setLinkLocal(key, addresses);
  }

  upsertNamespace({ metadata }: NamespaceObject): void {
    const name = metadata.name ?? '';
    this.#setNamespace(name, metadata.labels ?? {});
    this.#targets.setNamespaceMode(name, monitorModeOf(metadata));
    const misread = misreadMonitor(metadata);
    if (misread === undefined) this.#misread.delete(name);
    else this.#misread.set(name, misread);
  }

  removeNamespace(name: string): void {
    this.#setNamespace(name, undefined);
    this.#targets.setNamespaceMode(name, 'enforce');
    this.#misread.delete(name);
  }

  /** Sets the pod CIDRs of this node (`spec.podCIDRs`). Malformed CIDRs are skipped. */
  setPodCidrs(cidrs: readonly string[]): void {
    const blocks = cidrs.map(parseBlock).filter((block): block is Block => typeof block !== 'string');
    const of = (wanted: Family) => rangesOf(wanted, union(blocks.filter(({ family }) => family === wanted)));
    this.#rules = { ...this.#rules, podCidrs: { 4: of(4), 6: of(6) } };
  }

  /** The current rules. They are immutable; unchanged parts are the same objects as before. */
  get rules(): NodeRules {
    const { pods, policies, peers } = this.#dirty;
    if (pods.size > 0) this.#rules = { ...this.#rules, pods: this.#podsAnew() };
    if (policies.size > 0) this.#rules = { ...this.#rules, policies: this.#policiesAnew() };
    // Peers come last: policies that come and go add and remove theirs.
    if (peers.size > 0) this.#rules = { ...this.#rules, peers: this.#peersAnew() };
    clear(pods, policies, peers);
    return this.#rules;
  }

  /**
   * Pods of this node that may have changed since the last {@link takeChange}: all pods in that change, and those
   * whose own labels or whose namespace's labels have changed.
   */
  get touchedPods(): ReadonlySet<PodKey> {
    void this.rules;
    return this.#touchedPods;
  }

  /** How {@link rules} differ from the last call; on the first call, from no rules. */
  takeChange(): RulesChange {
    const [before, after] = [this.#taken, this.rules];
    const compared: Compared = new Map();
    const differ = (were: ReadonlyMap<string, object>, are: ReadonlyMap<string, object>) => (key: string) =>
      !equal(were.get(key), are.get(key), compared);
    const pods = [...this.#touchedPods].filter(differ(before.pods, after.pods));
    const policies = [...this.#touchedPolicies].filter(differ(before.policies, after.policies));
    const peers = new Map<PeersKey, PeersChange | undefined>();
    for (const key of this.#touchedPeers) {
      const change = this.#views.named(key)?.takeChange();
      const isDifferent =
        change === undefined ? !equal(before.peers.get(key), after.peers.get(key)) : isSome(change);
      if (isDifferent) peers.set(key, change);
    }
    clear(this.#touchedPods, this.#touchedPolicies, this.#touchedPeers);
    this.#taken = after;
    return {
      pods: new Set(pods),
      policies: new Set(policies),
      peers,
      podCidrs: !equal(before.podCidrs, after.podCidrs),
    };
  }

  /** The pod that has an address, on any node; undefined if no pod counts as its owner (see pod-table.ts). */
  podAt(address: Address): PodKey | undefined {
    return this.#pods.at(address);
  }

  /** Changes of the addresses of pods that count, on any node, since the last call. On the first call, all addresses have come. */
  takeAddressChange(): AddressChange {
    return this.#pods.takeAddressChange();
  }

  /** Labels of a pod that counts, and of its namespace. */
  labelsOf(key: PodKey): { readonly pod: Labels; readonly namespace: Labels } | undefined {
    const pod = this.#pods.get(key);
    return pod && { pod: pod.labels, namespace: this.#namespaces.get(pod.namespace) ?? {} };
  }

  /**
   * Parts of any policy that cannot be expressed; port names that no pod has, only for policies that pods of
   * this node need.
   */
  problems(): readonly PolicyProblem[] {
    // Computing the rules updates the peers that pods of this node need.
    void this.rules;
    return [
      ...[...this.#flawed].flatMap(({ problems }) => problems),
      ...[...this.#compiled.values()].flatMap((compiled) => compiled.problems()),
    ];
  }

  /** Fields of policies, and of their Namespaces, that suggest something other than what is enforced. */
  warnings(): readonly PolicyWarning[] {
    return [...[...this.#flawed].flatMap(({ warnings }) => warnings), ...this.#misreadNamespaces()];
  }

  /** A warning for each policy to which the annotation would apply. */
  #misreadNamespaces(): PolicyWarning[] {
    if (this.#misread.size === 0) return [];
    return [...this.#policies.values()].flatMap(({ key, namespace }) => {
      const message = this.#misread.get(namespace);
      return message === undefined ? [] : [namespaceWarning(key, message)];
    });
  }

  #podsChanged(changes: readonly PodChange[]): void {
    for (const change of changes) {
      this.#targets.podChanged(change);
      this.#views.podChanged(change);
    }
  }

  #setNamespace(name: string, labels: Labels | undefined): void {
    const before = this.#namespaces.get(name);
    if (labels === undefined) this.#namespaces.delete(name);
    else this.#namespaces.set(name, labels);
    if (equal(before, labels)) return;
    this.#targets.namespaceChanged(name);
    this.#views.namespaceChanged(name, before, labels);
  }

  #podsAnew(): Versions['pods'] {
    const pods = new Map<PodKey, LocalPod | undefined>();
    for (const key of this.#dirty.pods) {
      pods.set(key, this.#targets.localPod(key));
      this.#touchedPods.add(key);
    }
    return this.#rules.pods.with(pods);
  }

  /** Returns the previous version if nothing has changed: most pods that come or go change no policy. */
  #policiesAnew(): Versions['policies'] {
    const policies = new Map<string, PolicyRules | undefined>();
    for (const key of this.#dirty.policies) {
      const compiled = this.#compiledOf(key);
      for (const direction of directions) {
        const rulesKey = policyRulesKey(direction, key);
        const rules = compiled?.rules(direction);
        if (rules === this.#rules.policies.get(rulesKey)) continue;
        policies.set(rulesKey, rules);
        this.#touchedPolicies.add(rulesKey);
      }
    }
    return policies.size === 0 ? this.#rules.policies : this.#rules.policies.with(policies);
  }

  #peersAnew(): Versions['peers'] {
    const peers = new Map<PeersKey, Peers | undefined>();
    for (const key of this.#dirty.peers) {
      peers.set(key, this.#views.named(key)?.value());
      this.#touchedPeers.add(key);
    }
    return this.#rules.peers.with(peers);
  }

  #compiledOf(key: PolicyKey): CompiledPolicy | undefined {
    const policy = this.#policies.get(key);
    const targets = policy === undefined ? [] : this.#targets.of(policy);
    if (policy === undefined || targets.length === 0) {
      if (this.#compiled.delete(key)) this.#views.release(key);
      return undefined;
    }
    let compiled = this.#compiled.get(key);
    if (compiled?.policy !== policy) {
      compiled = new CompiledPolicy(policy, this.#views.hold(policy));
      this.#compiled.set(key, compiled);
    }
    compiled.setTargets(targets);
    return compiled;
  }
}

/** Not those that are empty: V8 gives a set that is cleared a new table, and the table before leads to it, so that both get old together. */
function clear(...sets: readonly Set<string>[]): void {
  for (const set of sets) if (set.size > 0) set.clear();
}

function isSome(change: PeersChange): boolean {
  return [change[4], change[6]].some(({ gone, come }) => gone.length + come.length > 0);
}
