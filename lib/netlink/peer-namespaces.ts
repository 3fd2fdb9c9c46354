/**
 * The other ends of virtual Ethernet pairs, in their network namespaces. The kernel is asked about a namespace by its ID in this one
 * (netnsid), without entering it (Linux 5.0; CAP_NET_ADMIN in the user namespace that owns it).
 */
import { attribute, attributesOf, hostBytes32, type NetlinkMessage, textOf } from './message.ts';
import type { RouteSocket } from './route.ts';

const RTM_NEWLINK = 16;
const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
const RTM_NEWADDR = 20;
const RTM_DELADDR = 21;
const RTM_GETADDR = 22;
const IFLA = { ADDRESS: 1, IFNAME: 3, LINK: 5, MASTER: 10, LINK_NETNSID: 37, TARGET_NETNSID: 46 } as const;
const IFA = { ADDRESS: 1, LOCAL: 2, TARGET_NETNSID: 10 } as const;
/** struct ifinfomsg, struct ifaddrmsg. */
const IFINFO_BYTES = 16;
const IFADDR_BYTES = 8;
/** Offset of the interface's index in struct ifinfomsg. */
const INDEX_OFFSET = 4;
const AF_UNSPEC = 0;
const AF_INET = 2;
const MAC_BYTES = 6;

/** An interface whose other end is in another network namespace. */
export interface PairEnd {
  readonly index: number;
  readonly name: string;
  /** Whether it is a port of a bridge. */
  readonly isBridged: boolean;
  /** The other end: the ID of its namespace, and its index there. */
  readonly peer: { readonly namespaceId: number; readonly index: number };
}

export interface InterfaceAddress {
  /** Index of the interface. */
  readonly index: number;
  readonly family: 4 | 6;
  /** 4 or 16 bytes. */
  readonly address: Buffer;
}

/** @throws {KernelRefusal} */
export function pairEnds(socket: RouteSocket): PairEnd[] {
  const messages = socket.dump('cannot list the interfaces', RTM_GETLINK, Buffer.alloc(IFINFO_BYTES));
  return messages.flatMap(({ body }) => pairEndOf(body) ?? []);
}

function pairEndOf(body: Buffer): PairEnd | undefined {
  const found = attributesOf(body.subarray(IFINFO_BYTES));
  const [peerIndex, namespaceId] = [found.get(IFLA.LINK), found.get(IFLA.LINK_NETNSID)];
  if (peerIndex === undefined || namespaceId === undefined) return undefined;
  return {
    index: body.readInt32LE(INDEX_OFFSET),
    name: textOf(found.get(IFLA.IFNAME)),
    isBridged: found.has(IFLA.MASTER),
    peer: { namespaceId: namespaceId.readInt32LE(0), index: peerIndex.readInt32LE(0) },
  };
}

/** An event about a network namespace, as reported by the kernel. */
export type NetworkEvent =
  /**
   * `end`: the interface exists, and its other end is in another network namespace. Undefined: it is gone, or
   * it is not a pair.
   */
  | { readonly kind: 'interface'; readonly index: number; readonly end: PairEnd | undefined }
  | { readonly kind: 'address' };

/** For {@link networkEvent}: RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR. */
export const networkGroups: readonly number[] = [1, 5, 9];

/** Undefined for other messages. Events of the other ends are not reported. */
export function networkEvent({ type, body }: NetlinkMessage): NetworkEvent | undefined {
  if (type === RTM_NEWADDR || type === RTM_DELADDR) return { kind: 'address' };
  // Messages of another family are about ports of a bridge that come or go: their interfaces stay.
  if ((type !== RTM_NEWLINK && type !== RTM_DELLINK) || body[0] !== AF_UNSPEC) return undefined;
  const index = body.readInt32LE(INDEX_OFFSET);
  return { kind: 'interface', index, end: type === RTM_NEWLINK ? pairEndOf(body) : undefined };
}

/**
 * The MAC addresses of a namespace's Ethernet interfaces, keyed by the index of the interface.
 *
 * @throws {KernelRefusal} also if the namespace is gone.
 */
export function macAddressesIn(socket: RouteSocket, namespaceId: number): Map<number, string> {
  const body = [Buffer.alloc(IFINFO_BYTES), attribute(IFLA.TARGET_NETNSID, hostBytes32(namespaceId))];
  const what = `cannot list the interfaces of network namespace ${namespaceId}`;
  return new Map(
    socket.dump(what, RTM_GETLINK, Buffer.concat(body)).flatMap((message): [number, string][] => {
      const mac = attributesOf(message.body.subarray(IFINFO_BYTES)).get(IFLA.ADDRESS);
      if (mac?.length !== MAC_BYTES) return [];
      return [[message.body.readInt32LE(INDEX_OFFSET), mac.toString('hex').replaceAll(/..(?!$)/g, '$&:')]];
    }),
  );
}

/**
 * @param namespaceId - Undefined: the socket's own namespace. For another one, the socket must be strict.
 * @throws {KernelRefusal} also if the namespace is gone.
 */
export function interfaceAddresses(socket: RouteSocket, namespaceId?: number): InterfaceAddress[] {
  const body = [
    Buffer.alloc(IFADDR_BYTES),
    ...(namespaceId === undefined ? [] : [attribute(IFA.TARGET_NETNSID, hostBytes32(namespaceId))]),
  ];
  const what = 'cannot list the addresses of a network namespace';
  return socket.dump(what, RTM_GETADDR, Buffer.concat(body)).flatMap((message) => {
    const found = attributesOf(message.body.subarray(IFADDR_BYTES));
    // For a point-to-point interface, ADDRESS is the other end's.
    const address = found.get(IFA.LOCAL) ?? found.get(IFA.ADDRESS);
    if (address === undefined) return [];
    const family = message.body[0] === AF_INET ? 4 : 6;
    return [{ index: message.body.readInt32LE(4), family, address: Buffer.from(address) }];
  });
}
