/** How a correct dataplane would treat a packet, by the rules of a node. */
import assert from 'node:assert/strict';

import { parseAddress } from './addresses.ts';
import {
  type AddressSet,
  type Clause,
  type Direction,
  type NodeRules,
  policyRulesKey,
  type RefusalVerdict,
} from './rules.ts';

export interface AddressPacket {
  readonly from: string;
  readonly to: string;
  readonly protocol: string;
  readonly port?: number | undefined;
}

export function isAllowed(rules: NodeRules, direction: Direction, packet: AddressPacket): boolean {
  return verdictOf(rules, direction, packet) !== 'refused';
}

export function verdictOf(
  rules: NodeRules,
  direction: Direction,
  packet: AddressPacket,
): 'allowed' | RefusalVerdict {
  const mine = direction === 'ingress' ? packet.to : packet.from;
  const pod = [...rules.pods.values()].find(({ addresses }) =>
    [...addresses[4], ...addresses[6]].includes(mine),
  );
  const policies = pod?.[direction];
  if (pod === undefined || policies === undefined) return 'allowed';
  const isAllowedByOne = policies.some((policy) => {
    const of = rules.policies.get(policyRulesKey(direction, policy));
    assert(of !== undefined, `${policy} is named by a pod and is not among the policies`);
    return of.rules.some(({ clauses }) => clauses.some((clause) => fits(rules, clause, direction, packet)));
  });
  if (isAllowedByOne) return 'allowed';
  return pod.monitors[direction] ? 'would-refuse' : 'refused';
}

function fits(rules: NodeRules, clause: Clause, direction: Direction, packet: AddressPacket): boolean {
  const peer = direction === 'ingress' ? packet.from : packet.to;
  const family = packet.to.includes(':') ? 6 : 4;
  if (clause.peers !== 'everyone') {
    const peers = rules.peers.get(clause.peers);
    assert(peers !== undefined, `${clause.peers} is named by a policy and is not among the peers`);
    if (!peers.pods[family].includes(peer) && !includes(peers.blocks[family], peer)) return false;
  }
  if ('endpoints' in clause) {
    return clause.endpoints[family].some(
      ({ address, protocol, port }) =>
        address === packet.to && protocol === packet.protocol && port === packet.port,
    );
  }
  if (clause.ports === 'any') return true;
  return clause.ports.some(
    ({ protocol, first, last }) =>
      protocol === packet.protocol &&
      packet.port !== undefined &&
      first <= packet.port &&
      packet.port <= last,
  );
}

function includes(set: AddressSet, address: string): boolean {
  const value = valueOf(address);
  return set.some(({ first, last }) => valueOf(first) <= value && value <= valueOf(last));
}

function valueOf(address: string): bigint {
  const value = parseAddress(address)?.value;
  assert(value !== undefined, `${address} is no address`);
  return value;
}
