/** Whether the rules of a node allow an existing connection: pure. */
import { type Flow, type SeenFlow, seenFlow } from '../conntrack/flow.ts';
import { firstIndex } from '../../engine/address-sets.ts';
import { addressValue } from '../../engine/addresses.ts';
import {
  type Address,
  type Clause,
  type Direction,
  directions,
  type Family,
  isEnforced,
  type LocalPod,
  type NodeRules,
  type Peers,
  policyRulesKey,
  type Protocol,
} from '../../engine/rules.ts';
import { protocolNumbers } from '../../dataplane/kernel-packet.ts';

const protocols: Readonly<Record<number, Protocol>> = {
  [protocolNumbers.TCP]: 'TCP',
  [protocolNumbers.UDP]: 'UDP',
  [protocolNumbers.SCTP]: 'SCTP',
};

/**
 * Returns a function that decides whether these rules allow a flow. A flow that no pod of this node starts or
 * receives is always allowed.
 *
 * @param isOwn - Whether an address is the node's own: the node always reaches its own pods.
 */
export function flowsAllowedBy(
  rules: NodeRules,
  isOwn: (address: Address) => boolean,
): (flow: Flow) => boolean {
  const byAddress = new Map<Address, LocalPod>();
  for (const pod of rules.pods.values()) {
    for (const address of [...pod.addresses[4], ...pod.addresses[6]]) {
      // If two pods have the same address, the rules of the isolated one apply, as in the kernel.
      const isIsolated = pod.ingress !== undefined || pod.egress !== undefined;
      if (isIsolated || !byAddress.has(address)) byAddress.set(address, pod);
    }
  }

  function allows(direction: Direction, { protocol }: Flow, { from, to, port }: SeenFlow): boolean {
    const [own, peer] = direction === 'ingress' ? [to, from] : [from, to];
    const pod = byAddress.get(own);
    const policies = pod?.[direction];
    if (pod === undefined || policies === undefined || !isEnforced(pod, direction)) return true;
    if (byAddress.get(peer) === pod) return true;
    if (direction === 'ingress' && isOwn(from)) return true;
    const packet = {
      family: to.includes(':') ? 6 : 4,
      peer,
      to,
      port,
      protocol: protocols[protocol],
    } as const;
    return policies.some((policy) =>
      rules.policies
        .get(policyRulesKey(direction, policy))
        ?.rules.some(({ clauses }) => clauses.some((clause) => fits(clause, rules.peers, packet))),
    );
  }

  return (flow) => {
    // A flow that belongs to another connection was allowed because of that one.
    if (flow.isExpected) return true;
    const seen = seenFlow(flow);
    return directions.every((direction) => allows(direction, flow, seen));
  };
}

interface FlowPacket {
  readonly family: Family;
  readonly peer: Address;
  readonly to: Address;
  /** Undefined if the protocol has no ports. */
  readonly protocol: Protocol | undefined;
  readonly port: number;
}

function fits(
  clause: Clause,
  peers: NodeRules['peers'],
  { family, peer, to, protocol, port }: FlowPacket,
): boolean {
  if (clause.peers !== 'everyone') {
    const allowed = peers.get(clause.peers);
    if (allowed === undefined || !includes(allowed, family, peer)) return false;
  }
  if ('endpoints' in clause) {
    return clause.endpoints[family].some(
      (one) => one.address === to && one.protocol === protocol && one.port === port,
    );
  }
  if (clause.ports === 'any') return true;
  return clause.ports.some(
    (range) => range.protocol === protocol && range.first <= port && port <= range.last,
  );
}

/** The pods are sorted as strings. */
function includes({ pods, blocks }: Peers, family: Family, address: Address): boolean {
  const sorted = pods[family];
  const at = firstIndex(sorted.length, (index) => (sorted[index] as Address) >= address);
  if (sorted[at] === address) return true;
  if (blocks[family].length === 0) return false;
  const value = addressValue(address);
  return blocks[family].some(
    ({ first, last }) => addressValue(first) <= value && value <= addressValue(last),
  );
}
