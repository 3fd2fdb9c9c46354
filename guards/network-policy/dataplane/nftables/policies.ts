/** Policies as chains, sets of endpoints and matches of ports. */
import type {
  Clause,
  Direction,
  Endpoint,
  Family,
  NodeRules,
  PolicyRules,
  PortRange,
} from '../../engine/rules.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import { commentText, families, policyChain } from './names.ts';
import type { ElementSet, EndpointElements } from './nft-sets.ts';
import type { TableObject } from './objects.ts';
import { peerMatches } from './peer-sets.ts';
import { accept, type Match, type Rule, type Side, type Transport } from './rule.ts';
import { endpointText } from './rule-text.ts';

/** The address of the other end: the destination of what a pod sends, the source of what it receives. */
const peerSide = { egress: 'daddr', ingress: 'saddr' } as const;

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
  /** Matches of each rule. */
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
      // No endpoints: no rule, so nothing is allowed, and no set for it.
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

const lastPort = 65_535;

/**
 * One list of matches for each range of ports; an empty list matches every packet. Without any list, nothing is
 * allowed. A rule does not match its ports by a set: the time of a listing grows with the number of sets of ranges
 * (docs/decisions/0011-nftables-by-libnftables.md).
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
