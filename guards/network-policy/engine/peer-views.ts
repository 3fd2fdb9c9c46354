/**
 * The state held for the peers of the policies that this node needs, kept up to date with pods and namespaces.
 * Rules with the same peers share it.
 */
import { type Labels, type LabelSelector, labelsMatch } from '../../../lib/kube/selectors/selectors.ts';
import { hasBlocks, partsOf, type Peers, type PodScope } from './parsed-peers.ts';
import { namesPeers, type ParsedPolicy, type ParsedRule } from './parsed-policy.ts';
import { PeerAddresses } from './peer-addresses.ts';
import { PeerEndpoints } from './peer-endpoints.ts';
import type { PodChange, PodFacts, PodTable } from './pod-table.ts';
import type { Direction, PeersKey, PolicyKey } from './rules.ts';
import { anyNamespace, SelectorIndex } from './selector-index.ts';
import type { Dirty } from './targets.ts';

/** What a rule depends on, except the peers that its clauses name. */
export interface RuleViews {
  readonly rule: ParsedRule;
  /** The keys of the parts of its peers. Empty: it allows no one. */
  readonly peers: readonly ('everyone' | PeersKey)[];
  /** Only for egress rules with named ports. */
  readonly endpoints: PeerEndpoints | undefined;
  /** Only with `endpoints`: the addresses whose ports these are. Undefined: those of everyone. */
  readonly addresses: PeerAddresses | undefined;
}

export type PolicyViews = Readonly<Record<Direction, readonly RuleViews[] | undefined>>;

interface Entry<View = PeerAddresses | PeerEndpoints> {
  readonly key: string;
  /** Whether clauses refer to these peers by their key, so that policies stay the same when the peers change. */
  readonly isNamed: boolean;
  readonly view: View;
  /** `everyone`: no pod needs to be selected. */
  readonly scopes: 'everyone' | readonly PodScope[];
  /** Whether a pod may be a peer by its address, whatever its labels. */
  readonly asksEveryPod: boolean;
  readonly users: Set<PolicyKey>;
}

export class PeerViews {
  readonly #pods: PodTable;
  readonly #namespaces: ReadonlyMap<string, Labels>;
  readonly #dirty: Dirty;
  /** Views that clauses refer to by key. They are in a map of their own, since changes of peers are reported by the same key. */
  readonly #named = new Map<string, Entry<PeerAddresses>>();
  readonly #others = new Map<string, Entry>();
  readonly #held = new Map<PolicyKey, ReadonlySet<Entry>>();
  readonly #index = new SelectorIndex<Entry>();
  readonly #byNamespaceLabels = new Set<Entry>();

  /** @param dirty - Receives the peers and policies that depend on what an event has changed. */
  constructor(pods: PodTable, namespaces: ReadonlyMap<string, Labels>, dirty: Dirty) {
    this.#pods = pods;
    this.#namespaces = namespaces;
    this.#dirty = dirty;
  }

  /** Holds what the rules of a policy need, and releases what it held for it before. */
  hold(policy: ParsedPolicy): PolicyViews {
    const held = new Set<Entry>();
    const use = <View extends PeerAddresses | PeerEndpoints>(entry: Entry<View>): View => {
      held.add(entry);
      entry.users.add(policy.key);
      return entry.view;
    };
    const viewsOf = (direction: Direction) =>
      policy[direction]?.map((rule) => {
        const { peers } = rule;
        const parts = peers === 'everyone' ? [] : partsOf(peers);
        if (namesPeers(rule, direction)) for (const part of parts) use(this.#addressesOf(part, true));
        const ofPeers = direction === 'egress' && rule.names.length > 0;
        return {
          rule,
          peers: peers === 'everyone' ? [peers] : parts.map(({ key }) => key),
          endpoints: ofPeers ? use(this.#endpointsOf(rule)) : undefined,
          addresses: ofPeers && peers !== 'everyone' ? use(this.#addressesOf(peers, false)) : undefined,
        };
      });
    const views = { ingress: viewsOf('ingress'), egress: viewsOf('egress') };
    this.#keep(policy.key, held);
    return views;
  }

  release(policy: PolicyKey): void {
    this.#keep(policy, new Set());
  }

  /** The addresses of these peers; undefined if no clause names them. */
  named(key: PeersKey): PeerAddresses | undefined {
    return this.#named.get(key)?.view;
  }

  podChanged({ before, after }: PodChange): void {
    const found = new Set<Entry>();
    if (before !== undefined) this.#index.find(before.namespace, before.labels, found);
    if (after !== undefined) this.#index.find(after.namespace, after.labels, found);
    const pod = after ?? (before === undefined ? undefined : { ...before, addresses: [] });
    if (pod !== undefined) for (const entry of found) this.#update(entry, pod);
  }

  /** The labels of a namespace have changed, or it came or went. */
  namespaceChanged(namespace: string, before: Labels | undefined, after: Labels | undefined): void {
    const selects = (selector: LabelSelector, labels: Labels | undefined) =>
      labels !== undefined && labelsMatch(selector, labels);
    for (const entry of this.#byNamespaceLabels) {
      const differs = scopesOf(entry).some(
        ({ namespaces }) =>
          typeof namespaces !== 'string' && selects(namespaces, before) !== selects(namespaces, after),
      );
      if (!differs) continue;
      for (const pod of this.#pods.inNamespace(namespace)) this.#update(entry, pod);
    }
  }

  #addressesOf(peers: Peers, isNamed: boolean): Entry<PeerAddresses> {
    const of = isNamed ? this.#named : (this.#others as Map<string, Entry<PeerAddresses>>);
    const key = isNamed ? peers.key : `addresses ${peers.key}`;
    return (
      of.get(key) ??
      this.#add(of, {
        ...{ key, isNamed },
        view: new PeerAddresses(peers),
        scopes: peers.scopes,
        asksEveryPod: false,
        users: new Set(),
      })
    );
  }

  #endpointsOf({ peers, names }: ParsedRule): Entry<PeerEndpoints> {
    const of = peers === 'everyone' ? 'everyone' : peers.key;
    const key = `endpoints ${JSON.stringify(names.map(({ protocol, name }) => [protocol, name]))} ${of}`;
    const others = this.#others as Map<string, Entry<PeerEndpoints>>;
    return (
      others.get(key) ??
      this.#add(others, {
        ...{ key, isNamed: false },
        view: new PeerEndpoints(peers, names),
        scopes: peers === 'everyone' ? peers : peers.scopes,
        asksEveryPod: peers === 'everyone' || hasBlocks(peers.blocks),
        users: new Set(),
      })
    );
  }

  #add<View extends PeerAddresses | PeerEndpoints>(
    to: Map<string, Entry<View>>,
    entry: Entry<View>,
  ): Entry<View> {
    to.set(entry.key, entry);
    for (const [namespace, selector] of anchoredBy(entry)) this.#index.add(entry, namespace, selector);
    const byLabels = scopesOf(entry).some(({ namespaces }) => typeof namespaces !== 'string');
    if (byLabels) this.#byNamespaceLabels.add(entry);
    this.#fill(entry);
    this.#changed(entry);
    return entry;
  }

  #drop(entry: Entry): void {
    (entry.isNamed ? this.#named : this.#others).delete(entry.key);
    this.#changed(entry);
    this.#byNamespaceLabels.delete(entry);
    for (const [namespace, selector] of anchoredBy(entry)) this.#index.delete(entry, namespace, selector);
  }

  #keep(policy: PolicyKey, kept: ReadonlySet<Entry>): void {
    for (const entry of this.#held.get(policy) ?? []) {
      if (kept.has(entry)) continue;
      entry.users.delete(policy);
      if (entry.users.size === 0) this.#drop(entry);
    }
    if (kept.size === 0) this.#held.delete(policy);
    else this.#held.set(policy, kept);
  }

  #update(entry: Entry, pod: PodFacts): void {
    if (entry.view.set(pod, this.#selects(entry, pod))) this.#changed(entry);
  }

  #changed({ key, isNamed, users }: Entry): void {
    if (isNamed) this.#dirty.peers.add(key as PeersKey);
    else for (const policy of users) this.#dirty.policies.add(policy);
  }

  #selects({ scopes }: Entry, pod: PodFacts): boolean {
    if (scopes === 'everyone') return true;
    return scopes.some(
      ({ namespaces, pods }) => this.#inScope(namespaces, pod.namespace) && labelsMatch(pods, pod.labels),
    );
  }

  /** An unknown namespace matches only by its name: without its labels, no selector matches it, not even an empty one. */
  #inScope(namespaces: string | LabelSelector, namespace: string): boolean {
    if (typeof namespaces === 'string') return namespaces === namespace;
    const labels = this.#namespaces.get(namespace);
    return labels !== undefined && labelsMatch(namespaces, labels);
  }

  #fill(entry: Entry): void {
    if (entry.asksEveryPod) {
      for (const pod of this.#pods.all()) entry.view.set(pod, this.#selects(entry, pod));
      return;
    }
    // An empty view need not be called for pods that it does not select.
    for (const scope of scopesOf(entry)) {
      for (const namespace of this.#namespacesOf(scope)) {
        for (const pod of this.#pods.inNamespace(namespace)) {
          if (labelsMatch(scope.pods, pod.labels)) entry.view.set(pod, true);
        }
      }
    }
  }

  #namespacesOf({ namespaces }: PodScope): Iterable<string> {
    if (typeof namespaces === 'string') return [namespaces];
    return [...this.#namespaces]
      .filter(([, labels]) => labelsMatch(namespaces, labels))
      .map(([namespace]) => namespace);
  }
}

const anyLabels: LabelSelector = { requirements: [], selectsNothing: false };

function scopesOf({ scopes }: Entry): readonly PodScope[] {
  return scopes === 'everyone' ? [] : scopes;
}

/** Where the entry is found in the index of selectors. */
function anchoredBy(entry: Entry): readonly (readonly [namespace: string, selector: LabelSelector])[] {
  if (entry.asksEveryPod) return [[anyNamespace, anyLabels]];
  return scopesOf(entry).map(({ namespaces, pods }) => [
    typeof namespaces === 'string' ? namespaces : anyNamespace,
    pods,
  ]);
}
