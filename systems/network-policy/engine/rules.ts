/**
 * What the engine says and a dataplane programs: the rules of one node.
 *
 * Nothing in here is of nftables or iptables. A dataplane makes them true in the kernel; the suite of all dataplanes
 * (node/dataplane.suite.fixture.ts) says what that means.
 */

export type Family = 4 | 6;
export type Direction = 'ingress' | 'egress';
export const directions: readonly Direction[] = ['ingress', 'egress'];
export type Protocol = 'TCP' | 'UDP' | 'SCTP';

/** `namespace/name`: neither may have a slash, so no two pods or policies have one key. */
export type PodKey = string;
export type PolicyKey = string;

/** An address in canonical text (RFC 5952 for IPv6), without a prefix length. */
export type Address = string;

/** A closed interval of addresses of one family: `10.0.0.0`-`10.0.0.255`. Blocks are told as intervals, their `except` taken out. */
export interface AddressRange {
  readonly first: Address;
  readonly last: Address;
}

/** Blocks of one family; sorted, disjoint, not touching. */
export type AddressSet = readonly AddressRange[];

/** By family: IPv4 and IPv6 have nothing to do with each other. */
export type ByFamily<T> = Readonly<Record<Family, T>>;

/** A closed interval of ports of one protocol; 0 to 65535 is every port of it. */
export interface PortRange {
  readonly protocol: Protocol;
  readonly first: number;
  readonly last: number;
}

/** One address with one port: what a named port stands for on one pod. */
export interface Endpoint {
  readonly address: Address;
  readonly protocol: Protocol;
  readonly port: number;
}

/** Whom rules allow: who is in it changes, while the rules stay as they are. */
export interface Peers {
  /** Addresses of pods that are in none of the blocks, sorted as texts. */
  readonly pods: ByFamily<readonly Address[]>;
  /** The same as long as the key is. */
  readonly blocks: ByFamily<AddressSet>;
}

/** What peers are selected by, as JSON: rules with the same peers have one key. */
export type PeersKey = `[${string}`;

/**
 * What one rule of a policy allows: a packet (its first of a connection) that fits one of the clauses.
 * For ingress the peer is the source, for egress the destination; ports are always those of the destination.
 */
export type Clause =
  | {
      /** `everyone`: any address, of this node and of nobody's pod too. */
      readonly peers: 'everyone' | PeersKey;
      /** `any`: every protocol, those without ports too. */
      readonly ports: 'any' | readonly PortRange[];
    }
  | {
      /** Named ports: the destination has to be one of these. For egress they are of the peers, which then are `everyone`. */
      readonly peers: 'everyone' | PeersKey;
      readonly endpoints: ByFamily<readonly Endpoint[]>;
    };

export interface PolicyRule {
  /** Its place in `spec.ingress` or `spec.egress`. */
  readonly index: number;
  /** Empty: the rule allows nothing, e.g. as it cannot be expressed. */
  readonly clauses: readonly Clause[];
}

/** One direction of one policy, with the rules that pods of this node need. */
export interface PolicyRules {
  readonly policy: PolicyKey;
  readonly direction: Direction;
  readonly rules: readonly PolicyRule[];
}

/** A pod of this node. */
export interface LocalPod {
  readonly pod: PodKey;
  readonly addresses: ByFamily<readonly Address[]>;
  /** Policies that select it for a direction, sorted; undefined: it is not isolated, all is allowed. */
  readonly ingress: readonly PolicyKey[] | undefined;
  readonly egress: readonly PolicyKey[] | undefined;
}

/** All that a dataplane is to make true. */
export interface NodeRules {
  readonly pods: ReadonlyMap<PodKey, LocalPod>;
  /** By `direction policy`, see {@link policyRulesKey}. Those that a pod of this node names, and no others. */
  readonly policies: ReadonlyMap<string, PolicyRules>;
  /** Those that the policies name, and no others. */
  readonly peers: ReadonlyMap<PeersKey, Peers>;
  /** Of this node: what is of no known pod in here is decided by the default. */
  readonly podCidrs: ByFamily<AddressSet>;
}

export const noRules: NodeRules = {
  pods: new Map(),
  policies: new Map(),
  peers: new Map(),
  podCidrs: { 4: [], 6: [] },
};

export function policyRulesKey(direction: Direction, policy: PolicyKey): string {
  return `${direction} ${policy}`;
}

/** The keys of the policies that name one of these peers. It looks through all policies. */
export function policiesNaming(peers: ReadonlySet<PeersKey>, { policies }: NodeRules): string[] {
  if (peers.size === 0) return [];
  const names = ({ rules }: PolicyRules): boolean =>
    rules.some(({ clauses }) =>
      clauses.some((clause) => clause.peers !== 'everyone' && peers.has(clause.peers)),
    );
  return [...policies].filter(([, policy]) => names(policy)).map(([key]) => key);
}

/** Pods that came to peers and went from them. */
export type PeersChange = ByFamily<{
  readonly gone: readonly Address[];
  readonly come: readonly Address[];
}>;

/** What is different from the rules before: only that has to be programmed. */
export interface RulesChange {
  readonly pods: ReadonlySet<PodKey>;
  /** Keys of {@link NodeRules.policies}. */
  readonly policies: ReadonlySet<string>;
  /** Undefined: the peers as a whole came or went, or it is not known what of them is different. */
  readonly peers: ReadonlyMap<PeersKey, PeersChange | undefined>;
  readonly podCidrs: boolean;
}

export function isNoChange({ pods, policies, peers, podCidrs }: RulesChange): boolean {
  return pods.size + policies.size + peers.size === 0 && !podCidrs;
}

/** A field of a policy that cannot be expressed: its rule allows nothing. */
export interface PolicyProblem {
  readonly policy: PolicyKey;
  /** `spec.ingress[0].ports[1].endPort` */
  readonly field: string;
  /** A sentence: what is wrong, and what follows. */
  readonly message: string;
}
