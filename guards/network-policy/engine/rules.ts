/**
 * The rules of one node, which the engine computes and a dataplane programs.
 *
 * Nothing in here is specific to nftables or iptables. A dataplane enforces them in the kernel; the suite of
 * all dataplanes (dataplane/dataplane.suite.fixture.ts) defines the meaning.
 */

export type Family = 4 | 6;
export type Direction = 'ingress' | 'egress';
export const directions: readonly Direction[] = ['ingress', 'egress'];
export type Protocol = 'TCP' | 'UDP' | 'SCTP';

/**
 * The fate of a packet that no policy allows; `would-refuse`: it passes and is reported, because of monitor
 * mode.
 */
export type RefusalVerdict = 'refused' | 'would-refuse';

/** `namespace/name`: neither may contain a slash, so keys are unique. */
export type PodKey = string;
export type PolicyKey = string;

/** An address in canonical text (RFC 5952 for IPv6), without a prefix length. */
export type Address = string;

/**
 * A closed interval of addresses of one family: `10.0.0.0`-`10.0.0.255`. Blocks are given as intervals, without their `except`.
 *
 * @example
 * const block: AddressRange = { first: '10.0.0.0', last: '10.0.0.255' }; // 10.0.0.0/24
 * const one: AddressRange = { first: '2001:db8::1', last: '2001:db8::1' };
 */
export interface AddressRange {
  readonly first: Address;
  readonly last: Address;
}

/** Blocks of one family; sorted, disjoint, not touching. */
export type AddressSet = readonly AddressRange[];

/** Keyed by family: IPv4 and IPv6 are independent of each other. */
export type ByFamily<T> = Readonly<Record<Family, T>>;

/**
 * A closed interval of ports of one protocol; 0 to 65535 is every port of it.
 *
 * @example
 * const https: PortRange = { protocol: 'TCP', first: 443, last: 443 };
 * const everyUdpPort: PortRange = { protocol: 'UDP', first: 0, last: 65_535 };
 */
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

/**
 * The peers that rules allow: their members change, while the rules stay.
 *
 * @example
 * const backends: Peers = {
 *   pods: { 4: ['10.1.0.10', '10.1.0.9'], 6: [] }, // sorted as strings
 *   blocks: { 4: [{ first: '192.0.2.0', last: '192.0.2.255' }], 6: [] },
 * };
 */
export interface Peers {
  /** Addresses of pods, sorted as strings. */
  readonly pods: ByFamily<readonly Address[]>;
  /** The blocks stay the same as long as the key does. */
  readonly blocks: ByFamily<AddressSet>;
}

/** The peers' selectors and blocks, as JSON: rules with the same peers have the same key. */
export type PeersKey = `[${string}`;

/**
 * The packets that one rule of a policy allows: a packet (the first of a connection) that matches one of the
 * clauses. For ingress, the peer is the source, for egress the destination; ports are always those of the
 * destination.
 *
 * @example
 * const fromEveryone: Clause = { peers: 'everyone', ports: [{ protocol: 'TCP', first: 443, last: 443 }] };
 * const namedPort: Clause = {
 *   peers: 'everyone',
 *   endpoints: { 4: [{ address: '10.1.0.10', protocol: 'TCP', port: 5432 }], 6: [] },
 * };
 */
export type Clause =
  | {
      /** `everyone`: any address, including those of this node and of no pod. */
      readonly peers: 'everyone' | PeersKey;
      /** `any`: every protocol, including those without ports. */
      readonly ports: 'any' | readonly PortRange[];
    }
  | {
      /**
       * Named ports: the destination must be one of these endpoints. For egress, the endpoints belong to the
       * peers, and `peers` is `everyone`.
       */
      readonly peers: 'everyone' | PeersKey;
      readonly endpoints: ByFamily<readonly Endpoint[]>;
    };

export interface PolicyRule {
  /** Index in `spec.ingress` or `spec.egress`. */
  readonly index: number;
  /** Empty: the rule allows nothing, for example because it cannot be expressed. */
  readonly clauses: readonly Clause[];
}

/**
 * One direction of one policy, with the rules that pods of this node need.
 *
 * @example
 * const denyAll: PolicyRules = { policy: 'shop/deny', direction: 'ingress', rules: [] };
 * const allowHttps: PolicyRules = {
 *   policy: 'shop/web',
 *   direction: 'ingress',
 *   rules: [{ index: 0, clauses: [{ peers: 'everyone', ports: [{ protocol: 'TCP', first: 443, last: 443 }] }] }],
 * };
 */
export interface PolicyRules {
  readonly policy: PolicyKey;
  readonly direction: Direction;
  readonly rules: readonly PolicyRule[];
}

/**
 * A pod of this node.
 *
 * @example
 * const isolated: LocalPod = {
 *   pod: 'shop/db',
 *   addresses: { 4: ['10.1.0.10'], 6: [] },
 *   ingress: ['shop/db'], // isolated by one policy
 *   egress: undefined, // not isolated
 *   monitors: { ingress: false, egress: false },
 * };
 */
export interface LocalPod {
  readonly pod: PodKey;
  /** Addresses of the pod's status, and the link-local ones of its interface. */
  readonly addresses: ByFamily<readonly Address[]>;
  /** Policies that select it for a direction, sorted; undefined: it is not isolated, so everything is allowed. */
  readonly ingress: readonly PolicyKey[] | undefined;
  readonly egress: readonly PolicyKey[] | undefined;
  /** Whether all policies that isolate it in a direction are in monitor mode. False if none isolates it. */
  readonly monitors: Readonly<Record<Direction, boolean>>;
}

/** Whether packets of a direction may be refused: at least one policy that isolates the pod is not in monitor mode. */
export function isEnforced(pod: Pick<LocalPod, Direction | 'monitors'>, direction: Direction): boolean {
  return pod[direction] !== undefined && !pod.monitors[direction];
}

/**
 * Everything that a dataplane must enforce.
 *
 * @example
 * const rules: NodeRules = {
 *   ...noRules,
 *   pods: new Map([[isolated.pod, isolated]]),
 *   policies: new Map([[policyRulesKey('ingress', 'shop/db'), { policy: 'shop/db', direction: 'ingress', rules: [] }]]),
 * };
 */
export interface NodeRules {
  readonly pods: ReadonlyMap<PodKey, LocalPod>;
  /** Only policies that a pod of this node names. Keyed by `direction policy`, see {@link policyRulesKey}. */
  readonly policies: ReadonlyMap<string, PolicyRules>;
  /** Only the peers that the policies name. */
  readonly peers: ReadonlyMap<PeersKey, Peers>;
  /** The pod CIDRs of this node: addresses in them that belong to no known pod get the default verdict. */
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

/** The keys of the policies that name one of these peers. Searches all policies. */
export function policiesNaming(peers: ReadonlySet<PeersKey>, { policies }: NodeRules): string[] {
  if (peers.size === 0) return [];
  const names = ({ rules }: PolicyRules): boolean =>
    rules.some(({ clauses }) =>
      clauses.some((clause) => clause.peers !== 'everyone' && peers.has(clause.peers)),
    );
  return [...policies].filter(([, policy]) => names(policy)).map(([key]) => key);
}

export interface AddressChange {
  readonly gone: readonly Address[];
  readonly come: readonly Address[];
}

/** Pods that joined and left peers. */
export type PeersChange = ByFamily<AddressChange>;

/**
 * The difference from the previous rules: only that must be programmed.
 *
 * @example
 * const podCame: RulesChange = {
 *   pods: new Set(['shop/db']),
 *   policies: new Set(),
 *   peers: new Map([['["app=db"]', { 4: { gone: [], come: ['10.1.0.10'] }, 6: { gone: [], come: [] } }]]),
 *   podCidrs: false,
 * };
 */
export interface RulesChange {
  readonly pods: ReadonlySet<PodKey>;
  /** Keys of {@link NodeRules.policies}. */
  readonly policies: ReadonlySet<string>;
  /** Undefined: the peers as a whole came or went, or their changes are unknown. */
  readonly peers: ReadonlyMap<PeersKey, PeersChange | undefined>;
  readonly podCidrs: boolean;
}

export function isNoChange({ pods, policies, peers, podCidrs }: RulesChange): boolean {
  return pods.size + policies.size + peers.size === 0 && !podCidrs;
}

/** A field of a policy that cannot be expressed: its rule allows nothing. */
export interface PolicyProblem {
  readonly policy: PolicyKey;
  /** `spec.ingress[0].ports[1].endPort`, `metadata.annotations` */
  readonly field: string;
  /** A sentence: what is wrong, and what follows. */
  readonly message: string;
}

/** A field of a policy that applies in another way than its text suggests: the message explains it. */
export type PolicyWarning = PolicyProblem;
