/**
 * The rules of a node as the objects of one nftables table: everything but the policies (policies.ts) and their peers.
 *
 * Each direction has base chains of its own: `accept` ends only one of them, so what a source may send is still
 * checked against what its destination may receive, and by the tables of others. No packet is marked.
 */
import {
  type Address,
  type Direction,
  type Family,
  isEnforced,
  type LocalPod,
  type NodeRules,
  type RefusalVerdict,
} from '../../engine/rules.ts';
import type { DataplaneOptions } from '../dataplane.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import {
  commentText,
  counterName,
  directions,
  families,
  logPrefix,
  podMap,
  podName,
  objectMap,
  policyChain,
  shortDirection,
  unknownChain,
} from './names.ts';
import type {
  AddressElements,
  ElementSet,
  ObjectElements,
  PairElements,
  VerdictElements,
} from './nft-sets.ts';
import type { Chain, TableObject } from './objects.ts';
import { rangeSet } from './peer-sets.ts';
import { classOf, type PodClass } from './pod-classes.ts';
import { pairText } from './rule-text.ts';
import { accept, type BaseChain, rule, type Rule, type Statement, type Verdict } from './rule.ts';

/** The address that identifies the pod: the source of what it sends, the destination of what it receives. */
const podSide = { egress: 'saddr', ingress: 'daddr' } as const;

/**
 * IPv6 depends on neighbour discovery and on listener discovery for multicast, and they belong to no
 * connection. Both stay on their link, which the hop limit shows: a routed packet has less than 255 (RFC
 * 4861, 7.1), and one with 1 is not routed (RFC 3810, 5). ICMP errors belong to a connection: an error is
 * `related` to the one that it is about.
 */
const ofLink = [
  rule(
    { kind: 'hop limit', family: 6, hops: 255 },
    {
      ...{ kind: 'icmpv6 type', family: 6 },
      types: ['nd-router-solicit', 'nd-router-advert', 'nd-neighbor-solicit', 'nd-neighbor-advert'],
    },
    accept,
  ),
  rule(
    { kind: 'hop limit', family: 6, hops: 1 },
    {
      ...{ kind: 'icmpv6 type', family: 6 },
      types: ['mld-listener-query', 'mld-listener-report', 'mld-listener-done', 'mld2-listener-report'],
    },
    accept,
  ),
];

/** After DNAT (-100), so that a Service's address is already that of its pod; before the filters of others (0). */
const priority = { egress: -10, ingress: -9 } as const;

/** The objects that belong to no single pod or policy, including the rules for all pods. */
export function compileBase(rules: NodeRules, options: DataplaneOptions): TableObject[] {
  const hasUnknown = options.unknownPods !== 'allow';
  return [
    baseChain('forward', 'egress', []),
    baseChain('forward', 'ingress', []),
    // Packets from a pod to its own node, including those to a NodePort whose endpoint is in the node's network namespace, such as a
    // hostNetwork pod.
    baseChain('input', 'egress', []),
    // A node always reaches its own pods. Not in forward: there, a source address of the node is forged.
    baseChain('output', 'ingress', [rule({ kind: 'local address', side: 'saddr', is: true }, accept)]),
    ...directions.map((direction) => directionChain(direction, hasUnknown)),
    relatedChain,
    {
      kind: 'chain',
      name: 'refuse',
      // Rejects, so that clients fail immediately. TCP is reset: over IPv6, an ICMP error reaches connect(2) only after a second.
      rules: [
        // Within a bridge a reset goes past conntrack (net/ipv4/netfilter/nf_reject_ipv4.c, nf_send_reset): its source would be the pod, not
        // the Service that the client has called.
        rule(
          { kind: 'translated destination' },
          { kind: 'from a bridge' },
          { kind: 'protocol', protocol: protocolNumbers.TCP },
          { kind: 'reject', with: 'icmp error' },
        ),
        rule({ kind: 'protocol', protocol: protocolNumbers.TCP }, { kind: 'reject', with: 'tcp reset' }),
        rule({ kind: 'reject', with: 'icmp error' }),
      ],
    },
    ...(hasUnknown ? unknownObjects(rules, options) : []),
  ];
}

/**
 * A table that makes the kernel track connections (net/netfilter/nft_ct.c, nft_ct_get_init), and does nothing
 * else: no packet passes it.
 */
export const tracking: TableObject = {
  kind: 'chain',
  name: 'track',
  comment: 'connections are tracked, so that those that are open continue when rules come',
  rules: [rule({ kind: 'connection state', states: ['established', 'related'] }, { kind: 'return' })],
};

function baseChain(hook: BaseChain['hook'], direction: Direction, first: readonly Rule[]): Chain {
  return {
    kind: 'chain',
    name: `${hook}-${shortDirection[direction]}`,
    base: { hook, priority: priority[direction] },
    rules: [
      ...first,
      rule({ kind: 'jump', chain: shortDirection[direction] }),
      // Packets that come back here were counted by the chain of their class.
      rule({ kind: 'goto', chain: 'refuse' }),
    ],
  };
}

/**
 * The common rules of all pods, before those of the chains of classes: with each change, the kernel follows
 * all of these from each hook (nf_tables_api.c, nft_chain_validate), which is most of the time that the
 * change takes.
 */
function directionChain(direction: Direction, hasUnknown: boolean): Chain {
  const side = podSide[direction];
  const ofPods = (family: Family): Rule[] => [
    rule(
      { kind: 'connection state', states: ['invalid'] },
      { kind: 'address in set', family, side, set: enforcedSet(direction, family) },
      { kind: 'drop' },
    ),
    // A pod may reach itself through a Service.
    rule({ kind: 'pair in set', family, other: 'destination', set: samePodSet(family) }, accept),
    rule({ kind: 'verdict map', family, side, map: podMap(direction, family) }),
  ];
  const related = { kind: 'connection state', states: ['related'] } as const;
  return {
    kind: 'chain',
    name: shortDirection[direction],
    rules: [
      rule({ kind: 'connection state', states: ['established'] }, accept),
      rule(related, direction === 'egress' ? { kind: 'jump', chain: relatedChain.name } : accept),
      ...ofPods(4),
      // After the rules for IPv4, so that IPv4 packets which those handle skip these.
      ...ofLink,
      ...ofPods(6),
      ...(hasUnknown ? unknownRules(direction) : []),
      rule(accept),
    ],
  };
}

function unknownRules(direction: Direction): Rule[] {
  const side = podSide[direction];
  return [
    ...(direction === 'egress' ? [rule({ kind: 'connection state', states: ['related'] }, accept)] : []),
    ...families.map((family) =>
      rule(
        { kind: 'address in set', family, side, set: podCidrSet(family) },
        { kind: 'local address', side, is: false },
        { kind: 'goto', chain: unknownChain(direction) },
      ),
    ),
  ];
}

/**
 * Anyone who knows a connection can forge an error about it. So a pod may send errors about its own connections
 * only: the pod is one end, hence the source of one of the two directions, also behind a Service. Other errors
 * return: an isolated pod may send them only if a policy allows it.
 */
const relatedChain: Chain = {
  kind: 'chain',
  name: 'related-out',
  rules: [
    ...families.flatMap((family) =>
      (['original source', 'reply source'] as const).map((other) =>
        rule({ kind: 'pair in set', family, other, set: samePodSet(family) }, accept),
      ),
    ),
    ...[protocolNumbers.ICMP, protocolNumbers.ICMPv6].map((protocol) =>
      rule({ kind: 'protocol', protocol }, { kind: 'return' }),
    ),
    rule(accept),
  ],
};

/** The set of all pairs of addresses of the same pod. */
function samePodSet(family: Family): string {
  return `same-pod-${family}`;
}

/** The set of the addresses of pods whose packets are refused unless a policy allows them. */
function enforcedSet(direction: Direction, family: Family): string {
  return `enforced-${shortDirection[direction]}-${family}`;
}

function podCidrSet(family: Family): string {
  return `pod-cidrs-${family}`;
}

function unknownObjects(rules: NodeRules, options: DataplaneOptions): TableObject[] {
  const verdict = options.unknownPods === 'monitor' ? 'would-refuse' : 'refused';
  return [
    ...families.map((family) => rangeSet(podCidrSet(family), family, rules.podCidrs[family])),
    ...directions.flatMap((direction): TableObject[] => {
      const name = unknownChain(direction);
      return [
        { kind: 'counter', name: counterName(name, verdict) },
        {
          kind: 'chain',
          name,
          rules: ending(
            verdict,
            [
              [
                { kind: 'counter', name: counterName(name, verdict) },
                { kind: 'limit', ...reported },
              ],
            ],
            logPrefix(verdict, name),
            options,
          ),
        },
      ];
    }),
  ];
}

/** Rate limit for reporting packets, for each pod and direction. */
const reported = { perMinute: 10, burst: 10 } as const;

/**
 * The end of a chain: reports the packets that reach it. The calling chain then refuses them, unless they are only
 * monitored: then they are accepted here.
 */
function ending(
  verdict: RefusalVerdict,
  /** For each rule that reports: the statements that count a packet, and those that limit the rate of the log. */
  counts: readonly (readonly Statement[])[],
  prefix: string,
  { logGroups }: DataplaneOptions,
): Rule[] {
  const logs = logGroups.map((group): Statement => ({ kind: 'log', prefix, group }));
  const reports = counts.map((statements) => rule(...statements, ...logs));
  if (verdict === 'refused') return reports;
  // Invalid packets: the chain of an isolated pod drops them without a report.
  return [rule({ kind: 'connection state', states: ['invalid'] }, accept), ...reports, rule(accept)];
}

/** The sets and maps that have the addresses of all pods. */
export function compilePodSets(pods: Iterable<LocalPod>): TableObject[] {
  const all = [...pods];
  return families.flatMap((family): ElementSet[] => [
    samePods(all, family),
    ...directions.flatMap((direction) => [
      enforcedPods(all, direction, family),
      podVerdicts(all, direction, family),
      podCounters(all, direction, family),
      podLimits(all, direction, family),
    ]),
  ]);
}

function samePods(pods: readonly LocalPod[], family: Family): PairElements {
  const pairs = pods.flatMap(({ addresses }) =>
    addresses[family].flatMap((first) => addresses[family].map((second) => ({ first, second }))),
  );
  const elements = new Map(pairs.map((pair) => [pairText(pair), pair]));
  return { kind: 'set', holds: 'pairs', name: samePodSet(family), family, elements };
}

function enforcedPods(pods: readonly LocalPod[], direction: Direction, family: Family): AddressElements {
  const enforced = pods.filter((pod) => isEnforced(pod, direction));
  const elements = new Map(
    enforced.flatMap(({ addresses }) => addresses[family].map((address) => [address, undefined] as const)),
  );
  return { kind: 'set', holds: 'addresses', name: enforcedSet(direction, family), family, elements };
}

/**
 * Maps the addresses of pods to the chains of their classes. A pod that is not isolated is included too: it is known. If two pods have
 * the same address, the isolated one gets it.
 */
function podVerdicts(pods: readonly LocalPod[], direction: Direction, family: Family): VerdictElements {
  const elements = new Map<Address, Verdict>();
  for (const pod of pods) {
    const of = classOf(pod, direction);
    for (const address of pod.addresses[family]) {
      if (of !== undefined) elements.set(address, of.goto);
      else if (!elements.has(address)) elements.set(address, accept);
    }
  }
  return { kind: 'map', holds: 'verdicts', name: podMap(direction, family), family, elements };
}

function podCounters(pods: readonly LocalPod[], direction: Direction, family: Family): ObjectElements {
  return podObjectMap('counters', pods, direction, family, (pod, verdict) =>
    counterName(podName(direction, pod.pod), verdict),
  );
}

function podLimits(pods: readonly LocalPod[], direction: Direction, family: Family): ObjectElements {
  return podObjectMap('limits', pods, direction, family, ({ pod }) => podName(direction, pod));
}

function podObjectMap(
  holds: ObjectElements['holds'],
  pods: readonly LocalPod[],
  direction: Direction,
  family: Family,
  nameOf: (pod: LocalPod, verdict: RefusalVerdict) => string,
): ObjectElements {
  const elements = new Map<Address, string>();
  for (const pod of pods) {
    const of = classOf(pod, direction);
    if (of === undefined) continue;
    const name = nameOf(pod, of.verdict);
    for (const address of pod.addresses[family]) elements.set(address, name);
  }
  return { kind: 'map', holds, name: objectMap(holds, direction, family), family, elements };
}

/** A pod's own objects, besides the elements of its addresses. */
export function compilePod(pod: LocalPod): TableObject[] {
  return directions.flatMap((direction): TableObject[] => {
    const of = classOf(pod, direction);
    if (of === undefined) return [];
    const name = podName(direction, pod.pod);
    return [
      { kind: 'counter', name: counterName(name, of.verdict) },
      { kind: 'limit', name, ...reported },
    ];
  });
}

/** A rule for each policy, and what reports the packets that none of them accepts. */
export function compileClass(of: PodClass, options: DataplaneOptions): TableObject[] {
  const { direction, name, policies, verdict } = of;
  const side = podSide[direction];
  const counts = families.map((family) =>
    (['counter', 'limit'] as const).map((object): Statement => {
      const map = objectMap(`${object}s`, direction, family);
      return { kind: 'object map', object, family, side, map };
    }),
  );
  return [
    {
      kind: 'chain',
      name,
      comment: commentText(policies.join(' ')),
      rules: [
        ...policies.map((policy) => ({
          ...rule({ kind: 'jump', chain: policyChain(direction, policy) }),
          comment: commentText(policy),
        })),
        ...ending(verdict, counts, logPrefix(verdict, name, policies), options),
      ],
    },
  ];
}
