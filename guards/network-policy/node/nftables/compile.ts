/**
 * The rules of a node as the objects of one nftables table.
 *
 * Each direction has base chains of its own: `accept` ends only one of them, so what a source may send is still
 * checked against what its destination may receive, and by the tables of others. No packet is marked.
 */
import type {
  Address,
  Clause,
  Direction,
  Endpoint,
  Family,
  LocalPod,
  NodeRules,
  PolicyRules,
  PortRange,
  RefusalVerdict,
} from '../../engine/rules.ts';
import type { DataplaneOptions } from '../dataplane.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import {
  commentText,
  counterName,
  directions,
  families,
  logPrefix,
  podChain,
  podMap,
  policyChain,
  shortDirection,
  unknownChain,
} from './names.ts';
import type { ElementSet, EndpointElements, VerdictElements } from './nft-sets.ts';
import type { Chain, TableObject } from './objects.ts';
import { peerMatches, rangeSet } from './peer-sets.ts';
import { endpointText } from './rule-text.ts';
import {
  accept,
  type BaseChain,
  type Match,
  rule,
  type Rule,
  type Side,
  type Statement,
  type Transport,
  type Verdict,
} from './rule.ts';

/** The address that identifies the pod: the source of what it sends, the destination of what it receives. */
const podSide = { egress: 'saddr', ingress: 'daddr' } as const;
const peerSide = { egress: 'daddr', ingress: 'saddr' } as const;

/**
 * IPv6 depends on neighbour discovery and on listener discovery for multicast, and they belong to no connection. Both stay on their link, which
 * the hop limit shows: what was routed has less than 255 (RFC 4861, 7.1), and what has 1 is not routed (RFC 3810, 5). ICMP errors belong to a
 * connection: an error is `related` to the one that it tells of.
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

/** Everything except the pods and policies. */
export function compileBase(rules: NodeRules, options: DataplaneOptions): TableObject[] {
  const hasUnknown = options.unknownPods !== 'allow';
  return [
    baseChain('forward', 'egress', []),
    baseChain('forward', 'ingress', []),
    // What a pod sends to its node, including to a NodePort whose destination is in the node's own network.
    baseChain('input', 'egress', []),
    // A node always reaches its own pods. Not in forward: there, a source address of the node is forged.
    baseChain('output', 'ingress', [rule({ kind: 'local address', side: 'saddr', is: true }, accept)]),
    ...directions.map((direction) => directionChain(direction, hasUnknown)),
    {
      kind: 'chain',
      name: 'refuse',
      // At once, also over IPv6, where an ICMP error reaches connect(2) only after a second.
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

/** What has the kernel track connections (net/netfilter/nft_ct.c, nft_ct_get_init), and nothing else: no packet passes it. */
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
      // What comes back: the chain of its pod has counted it.
      rule({ kind: 'goto', chain: 'refuse' }),
    ],
  };
}

function directionChain(direction: Direction, hasUnknown: boolean): Chain {
  const side = podSide[direction];
  const podRule = (family: Family): Rule =>
    rule({ kind: 'verdict map', family, side, map: podMap(direction, family) });
  // Whoever knows of a connection can make up an error about it: an isolated pod tells of its own.
  const errorRule = (family: Family): Rule =>
    rule(
      { kind: 'connection state', states: ['related'] },
      { kind: 'protocol', protocol: family === 4 ? protocolNumbers.ICMP : protocolNumbers.ICMPv6 },
      ...podRule(family).statements,
    );
  return {
    kind: 'chain',
    name: shortDirection[direction],
    rules: [
      rule({ kind: 'connection state', states: ['established'] }, accept),
      ...(direction === 'egress' ? families.map(errorRule) : []),
      rule({ kind: 'connection state', states: ['related'] }, accept),
      podRule(4),
      // Packets of IPv4 need not pass them.
      ...ofLink,
      podRule(6),
      ...(hasUnknown ? families : []).map((family) =>
        rule(
          { kind: 'address in set', family, side, set: podCidrSet(family) },
          { kind: 'local address', side, is: false },
          { kind: 'goto', chain: unknownChain(direction) },
        ),
      ),
      rule(accept),
    ],
  };
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
        { kind: 'chain', name, rules: refusal(name, verdict, options) },
      ];
    }),
  ];
}

/**
 * The end of a chain: what comes here is refused, or is reported and passes. Few rules, and no way to others: with each change, the kernel follows
 * all chains of pods from each hook (nf_tables_api.c, nft_chain_validate), which is most of the time that the change takes.
 */
function refusal(
  chain: string,
  verdict: RefusalVerdict,
  { logGroups }: DataplaneOptions,
  pod?: string,
  policies?: readonly string[],
): Rule[] {
  const prefix = logPrefix(verdict, chain, pod, policies);
  const report = rule(
    { kind: 'counter', name: counterName(chain, verdict) },
    { kind: 'limit', perMinute: 10, burst: 10 },
    ...logGroups.map((group): Statement => ({ kind: 'log', prefix, group })),
  );
  if (verdict === 'refused') return [report];
  // What the chain of an isolated pod drops without a report.
  return [rule({ kind: 'connection state', states: ['invalid'] }, accept), report, rule(accept)];
}

/**
 * Maps the addresses of pods to their chains. A pod that is not isolated is included too: it is known. If two pods have
 * the same address, the isolated one gets it.
 */
export function compileMaps(pods: Iterable<LocalPod>): TableObject[] {
  const all = [...pods];
  return directions.flatMap((direction) =>
    families.map((family): VerdictElements => {
      const elements = new Map<Address, Verdict>();
      for (const pod of all) {
        for (const address of pod.addresses[family]) {
          if (pod[direction] !== undefined) elements.set(address, gotoPod(direction, pod));
          else if (!elements.has(address)) elements.set(address, accept);
        }
      }
      return {
        kind: 'map',
        holds: 'verdicts',
        name: podMap(direction, family),
        family,
        elements,
      };
    }),
  );
}

const verdicts = { ingress: new WeakMap<LocalPod, Verdict>(), egress: new WeakMap<LocalPod, Verdict>() };

/** A change affects one pod of a node: the names of the others are not hashed again. */
function gotoPod(direction: Direction, pod: LocalPod): Verdict {
  let verdict = verdicts[direction].get(pod);
  if (verdict === undefined) {
    verdict = { kind: 'goto', chain: podChain(direction, pod.pod) };
    verdicts[direction].set(pod, verdict);
  }
  return verdict;
}

/** Only errors come here as `related`: the source of either direction is an end of the connection, a pod behind a Service too. */
function ownErrors(address: Address): Rule[] {
  return (['original', 'reply'] as const).map((way) =>
    rule(
      { kind: 'connection state', states: ['related'] },
      { kind: 'connection source', way, address },
      accept,
    ),
  );
}

export function compilePod(pod: LocalPod, options: DataplaneOptions): TableObject[] {
  return directions.flatMap((direction): TableObject[] => {
    const policies = pod[direction];
    if (policies === undefined) return [];
    const name = podChain(direction, pod.pod);
    const verdict = pod.monitors[direction] ? 'would-refuse' : 'refused';
    return [
      { kind: 'counter', name: counterName(name, verdict) },
      {
        kind: 'chain',
        name,
        comment: commentText(pod.pod),
        rules: [
          ...(verdict === 'refused'
            ? [rule({ kind: 'connection state', states: ['invalid'] }, { kind: 'drop' })]
            : []),
          ...(direction === 'egress' ? families.flatMap((family) => pod.addresses[family]) : []).flatMap(
            (address) => ownErrors(address),
          ),
          // Through a Service that leads back to it.
          ...families.flatMap((family) =>
            pod.addresses[family].map((address) =>
              rule(
                {
                  ...{ kind: 'address', family, side: peerSide[direction] },
                  range: { first: address, last: address },
                },
                accept,
              ),
            ),
          ),
          ...policies.map((policy) => ({
            ...rule({ kind: 'jump', chain: policyChain(direction, policy) }),
            comment: commentText(policy),
          })),
          ...refusal(name, verdict, options, pod.pod, policies),
        ],
      },
    ];
  });
}

/** A chain that accepts what the policy allows in this direction, and its sets of endpoints. The sets of peers are shared. */
export function compilePolicy(
  { policy, direction, rules }: PolicyRules,
  peers: NodeRules['peers'],
): TableObject[] {
  const chain = policyChain(direction, policy);
  const sets: ElementSet[] = [];
  const accepting = rules.flatMap(({ index, clauses }) =>
    clauses.flatMap((clause, place) => {
      const compiled = compileClause(clause, direction, `${chain}-${index}-${place}`, peers);
      sets.push(...compiled.sets);
      const comment = `${direction}[${index}]`;
      return compiled.matches.map((matches): Rule => ({ statements: [...matches, accept], comment }));
    }),
  );
  return [...sets, { kind: 'chain', name: chain, comment: commentText(policy), rules: accepting }];
}

interface CompiledClause {
  /** Of each rule. */
  readonly matches: readonly (readonly Match[])[];
  readonly sets: readonly ElementSet[];
}

function compileClause(
  clause: Clause,
  direction: Direction,
  name: string,
  peers: NodeRules['peers'],
): CompiledClause {
  if (clause.peers === 'everyone' && 'ports' in clause) {
    return { matches: portMatches(clause.ports), sets: [] };
  }
  const matches: Match[][] = [];
  const sets: ElementSet[] = [];
  for (const family of families) {
    const matched = peersOf(clause.peers, { family, side: peerSide[direction] }, peers);
    let destinations: readonly (readonly Match[])[];
    if ('ports' in clause) {
      destinations = portMatches(clause.ports);
    } else {
      const endpoints = endpointSet(`${name}-endpoints-${family}`, family, clause.endpoints[family]);
      // Nobody: no rule, so nothing is allowed, and no set for it.
      if (endpoints.elements.size === 0) continue;
      sets.push(endpoints);
      destinations = [[{ kind: 'endpoint in set', family, set: endpoints.name }]];
    }
    for (const peer of matched) {
      matches.push(...destinations.map((destination) => [...peer, ...destination]));
    }
  }
  return { matches, sets };
}

function peersOf(
  key: Clause['peers'],
  of: { readonly family: Family; readonly side: Side },
  all: NodeRules['peers'],
): Match[][] {
  if (key === 'everyone') return [[]];
  const peers = all.get(key);
  return peers === undefined ? [] : peerMatches(key, peers, of).map((match) => [match]);
}

function endpointSet(name: string, family: Family, endpoints: readonly Endpoint[]): EndpointElements {
  const elements = new Map(
    endpoints.map(({ address, protocol, port }) => {
      const element = { address, protocol: protocolNumbers[protocol], port };
      return [endpointText(element), element];
    }),
  );
  return { kind: 'set', holds: 'endpoints', name, family, elements };
}

/** Ports as matches of rules. */
const lastPort = 65_535;

/**
 * A list of matches for each range; an empty list matches everything. None: nothing is allowed. Not one set of ports for each rule: the
 * time that a listing takes grows with the number of sets of ranges (docs/decisions/0011-nftables-by-libnftables.md).
 */
export function portMatches(ports: 'any' | readonly PortRange[]): Match[][] {
  if (ports === 'any') return [[]];
  const protocols = [...new Set(ports.map(({ protocol }) => protocol))].sort();
  return protocols.flatMap((protocol) =>
    mergedPorts(ports.filter((range) => range.protocol === protocol)).map(({ first, last }): Match[] => {
      if (first === 0 && last === lastPort)
        return [{ kind: 'protocol', protocol: protocolNumbers[protocol] }];
      return [{ kind: 'destination port', protocol: protocol.toLowerCase() as Transport, first, last }];
    }),
  );
}

/** Ranges that overlap or touch are merged. */
function mergedPorts(ports: readonly PortRange[]): { first: number; last: number }[] {
  const merged: { first: number; last: number }[] = [];
  for (const { first, last } of [...ports].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else merged.push({ first, last });
  }
  return merged;
}
