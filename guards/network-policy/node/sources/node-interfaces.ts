/** Reads the interfaces of the node that lead to other network namespaces, with the addresses of their other ends. */
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import {
  interfaceAddresses,
  macAddressesIn,
  type InterfaceAddress,
  type PairEnd,
  pairEnds,
} from '../../../../lib/netlink/peer-namespaces.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { addressText, isLinkLocal } from '../../engine/addresses.ts';
import type { Address } from '../../engine/rules.ts';
import type { SeenInterface } from './pod-interfaces.ts';

export interface SeenNetwork {
  readonly interfaces: readonly SeenInterface[];
  /** Of the node itself. */
  readonly nodeAddresses: readonly Address[];
}

/**
 * Of the network namespace of the calling thread.
 *
 * @throws {KernelRefusal} also where the kernel cannot tell about other namespaces (before Linux 5.0).
 */
export function readNetwork(): SeenNetwork {
  using socket = new RouteSocket({ isStrict: true });
  return {
    interfaces: pairEnds(socket).flatMap((end) => seenInterface(socket, end) ?? []),
    nodeAddresses: interfaceAddresses(socket).map(textOf),
  };
}

/** Undefined: its other end is gone, or is not Ethernet. */
function seenInterface(socket: RouteSocket, end: PairEnd): SeenInterface | undefined {
  const { peer, ...own } = end;
  try {
    const mac = macAddressesIn(socket, peer.namespaceId).get(peer.index);
    if (mac === undefined) return undefined;
    const all = interfaceAddresses(socket, peer.namespaceId).filter(({ index }) => index === peer.index);
    const addresses = all.map(textOf);
    return { ...own, mac, addresses: new Set(addresses), linkLocal: addresses.filter(isLinkLocal) };
  } catch (error) {
    // Between two requests, the namespace may have gone.
    if (error instanceof KernelRefusal) return undefined;
    throw error;
  }
}

function textOf({ family, address }: InterfaceAddress): Address {
  return addressText(family, BigInt(`0x${address.toString('hex')}`));
}
