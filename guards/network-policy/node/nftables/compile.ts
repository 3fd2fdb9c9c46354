/**
 * The rules of a node as the objects of one nftables table.
 *
 * Each direction has base chains of its own: `accept` ends only one of them, so what a source may send is still
 * checked against what its destination may receive, and by the tables of others. No packet is marked.
 */
import type {
  Clause,
  Direction,
  Endpoint,
  Family,
  LocalPod,
  NodeRules,
  PolicyRules,
} from '../../engine/rules.ts';
import type { DataplaneOptions } from '../dataplane.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import {
  commentText,
  directions,
  families,
  logPrefix,
  podChain,
  podMap,
  policyChain,
  shortDirection,
  unknownChain,
} from './names.ts';
import type { Chain, ElementSet, TableObject } from './objects.ts';
import { addressType, peerMatches, rangeSet } from './peer-sets.ts';
import { portMatches } from './ports.ts';

const ip = { 4: 'ip', 6: 'ip6' } as const;
/** The address that identifies the pod: the source of what it sends, the destination of what it receives. */
const podSide = { egress: 'saddr', ingress: 'daddr' } as const;
const peerSide = { egress: 'daddr', ingress: 'saddr' } as const;

/** Path MTU discovery and IPv6 neighbour discovery depend on these: they belong to no connection that could be allowed. */
const control = [
  'icmp type { destination-unreachable, time-exceeded, parameter-problem } accept',
  'icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem, nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept',
];

/** After DNAT (-100), so that a Service's address is already that of its pod; before the filters of others (0). */
const priority = { egress: -10, ingress: -9 } as const;

/** Everything except the pods and policies. */
export function compileBase(rules: NodeRules, options: DataplaneOptions): TableObject[] {
  const deny = options.unknownPods === 'deny';
  return [
    baseChain('forward', 'egress', []),
    baseChain('forward', 'ingress', []),
    // What a pod sends to its node, including to a NodePort whose destination is in the node's own network.
    baseChain('input', 'egress', []),
    // A node always reaches its own pods. Not in forward: there, a source address of the node is forged.
    baseChain('output', 'ingress', ['fib saddr type local accept']),
    ...directions.map((direction) => directionChain(direction, deny)),
    {
      kind: 'chain',
      name: 'refuse',
      // At once, also over IPv6, where an ICMP error reaches connect(2) only after a second.
      rules: ['meta l4proto 6 reject with tcp reset', 'reject'],
    },
    ...(deny ? unknownObjects(rules, options) : []),
  ];
}

function baseChain(hook: string, direction: Direction, first: readonly string[]): Chain {
  return {
    kind: 'chain',
    name: `${hook}-${shortDirection[direction]}`,
    base: `type filter hook ${hook} priority ${priority[direction]}; policy accept;`,
    rules: [...first, `jump ${shortDirection[direction]}`],
  };
}

function directionChain(direction: Direction, denyUnknown: boolean): Chain {
  const side = podSide[direction];
  return {
    kind: 'chain',
    name: shortDirection[direction],
    rules: [
      'ct state established,related accept',
      ...control,
      ...families.map((family) => `${ip[family]} ${side} vmap @${podMap(direction, family)}`),
      ...families.flatMap((family) =>
        denyUnknown
          ? [
              `${ip[family]} ${side} @pod-cidrs-${family} fib ${side} type != local goto ${unknownChain(direction)}`,
            ]
          : [],
      ),
    ],
  };
}

function unknownObjects(rules: NodeRules, options: DataplaneOptions): TableObject[] {
  return [
    ...families.map((family) => rangeSet(`pod-cidrs-${family}`, family, rules.podCidrs[family])),
    ...directions.flatMap((direction): TableObject[] => {
      const name = unknownChain(direction);
      return [
        { kind: 'counter', name },
        { kind: 'chain', name, rules: refusal(name, options) },
      ];
    }),
  ];
}

function refusal(name: string, { logGroup }: DataplaneOptions): string[] {
  return [
    `limit rate 10/minute burst 10 packets log prefix "${logPrefix(name)}" group ${logGroup}`,
    `counter name ${name} goto refuse`,
  ];
}

/**
 * Maps the addresses of pods to their chains. A pod that is not isolated is included too: it is known. If two pods have
 * the same address, the isolated one gets it.
 */
export function compileMaps(pods: Iterable<LocalPod>): TableObject[] {
  const all = [...pods];
  return directions.flatMap((direction) =>
    families.map((family): ElementSet => {
      const elements = new Map<string, string>();
      for (const pod of all) {
        for (const address of pod.addresses[family]) {
          if (pod[direction] !== undefined) elements.set(address, gotoPod(direction, pod));
          else if (!elements.has(address)) elements.set(address, 'accept');
        }
      }
      return {
        kind: 'map',
        name: podMap(direction, family),
        type: `${addressType[family]} : verdict`,
        interval: false,
        elements,
      };
    }),
  );
}

const verdicts = { ingress: new WeakMap<LocalPod, string>(), egress: new WeakMap<LocalPod, string>() };

/** A change affects one pod of a node: the names of the others are not hashed again. */
function gotoPod(direction: Direction, pod: LocalPod): string {
  let verdict = verdicts[direction].get(pod);
  if (verdict === undefined) {
    verdict = `goto ${podChain(direction, pod.pod)}`;
    verdicts[direction].set(pod, verdict);
  }
  return verdict;
}

export function compilePod(pod: LocalPod, options: DataplaneOptions): TableObject[] {
  return directions.flatMap((direction): TableObject[] => {
    const policies = pod[direction];
    if (policies === undefined) return [];
    const name = podChain(direction, pod.pod);
    return [
      { kind: 'counter', name },
      {
        kind: 'chain',
        name,
        comment: commentText(pod.pod),
        rules: [
          'ct state invalid drop',
          // Through a Service that leads back to it.
          ...families.flatMap((family) =>
            pod.addresses[family].map((address) => `${ip[family]} ${peerSide[direction]} ${address} accept`),
          ),
          ...policies.map(
            (policy) => `jump ${policyChain(direction, policy)} comment "${commentText(policy)}"`,
          ),
          ...refusal(name, options),
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
  const lines = rules.flatMap(({ index, clauses }) =>
    clauses.flatMap((clause, place) => {
      const compiled = compileClause(clause, direction, `${chain}-${index}-${place}`, peers);
      sets.push(...compiled.sets);
      return compiled.matches.map((match) =>
        [match, 'accept', `comment "${direction}[${index}]"`].filter(Boolean).join(' '),
      );
    }),
  );
  return [...sets, { kind: 'chain', name: chain, comment: commentText(policy), rules: lines }];
}

interface CompiledClause {
  readonly matches: readonly string[];
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
  const matches: string[] = [];
  const sets: ElementSet[] = [];
  for (const family of families) {
    const matched = peerFields(clause.peers, family, `${ip[family]} ${peerSide[direction]}`, peers);
    let destinations: readonly string[];
    if ('ports' in clause) {
      destinations = portMatches(clause.ports);
    } else {
      const endpoints = endpointSet(`${name}-endpoints-${family}`, family, clause.endpoints[family]);
      // Nobody: no rule, so nothing is allowed, and no set for it.
      if (endpoints.elements.size === 0) continue;
      sets.push(endpoints);
      destinations = [`${ip[family]} daddr . meta l4proto . th dport @${endpoints.name}`];
    }
    for (const peer of matched) {
      matches.push(...destinations.map((destination) => `${peer} ${destination}`.trim()));
    }
  }
  return { matches, sets };
}

function peerFields(key: Clause['peers'], family: Family, field: string, all: NodeRules['peers']): string[] {
  if (key === 'everyone') return [''];
  const peers = all.get(key);
  return peers === undefined ? [] : peerMatches(key, peers, family).map((match) => `${field} ${match}`);
}

function endpointSet(name: string, family: Family, endpoints: readonly Endpoint[]): ElementSet {
  return {
    kind: 'set',
    name,
    type: `${addressType[family]} . inet_proto . inet_service`,
    interval: false,
    elements: new Map(
      endpoints.map(({ address, protocol, port }) => [
        `${address} . ${protocolNumbers[protocol]} . ${port}`,
        '',
      ]),
    ),
  };
}
