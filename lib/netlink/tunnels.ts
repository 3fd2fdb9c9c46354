/** Tunnels (packets within packets) that end on a node, found by the interfaces that are up (RTM_GETLINK). */
import { attributesOf, textOf } from './message.ts';
import type { RouteSocket } from './route.ts';

const RTM_GETLINK = 18;
const IFLA_LINKINFO = 18;
const IFLA_INFO = { KIND: 1, DATA: 2 } as const;
/** struct ifinfomsg. */
const IFINFO_BYTES = 16;
const FLAGS_OFFSET = 8;
const IFF_UP = 1;
/** Keyed by kind: the attribute with the UDP port, in network order (include/uapi/linux/if_link.h: IFLA_VXLAN_PORT, IFLA_GENEVE_PORT). */
const portAttributes: Readonly<Record<string, number>> = { vxlan: 15, geneve: 5 };
/** IP protocol numbers (IANA), keyed by kind of interface. */
const protocolsOfKind: Readonly<Record<string, readonly number[]>> = {
  ipip: [4],
  sit: [4, 41],
  ip6tnl: [4, 41],
  ...Object.fromEntries(
    ['gre', 'gretap', 'erspan', 'ip6gre', 'ip6gretap', 'ip6erspan'].map((kind) => [kind, [47]]),
  ),
};

/** What identifies packets that end in a tunnel of this node; both lists are sorted. */
export interface Tunnels {
  readonly udpPorts: readonly number[];
  readonly protocols: readonly number[];
}

export const noTunnels: Tunnels = { udpPorts: [], protocols: [] };

/** The tunnels of the socket's network namespace, except encrypted ones. @throws {KernelRefusal} */
export function tunnelsOf(socket: RouteSocket): Tunnels {
  const udpPorts = new Set<number>();
  const protocols = new Set<number>();
  const messages = socket.dump('cannot list the interfaces', RTM_GETLINK, Buffer.alloc(IFINFO_BYTES));
  for (const { body } of messages) {
    if ((body.readUInt32LE(FLAGS_OFFSET) & IFF_UP) === 0) continue;
    const info = attributesOf(body.subarray(IFINFO_BYTES)).get(IFLA_LINKINFO);
    if (info === undefined) continue;
    const found = attributesOf(info);
    const kind = textOf(found.get(IFLA_INFO.KIND));
    for (const protocol of protocolsOfKind[kind] ?? []) protocols.add(protocol);
    const attribute = portAttributes[kind];
    if (attribute === undefined) continue;
    const port = attributesOf(found.get(IFLA_INFO.DATA) ?? Buffer.alloc(0)).get(attribute);
    if (port !== undefined) udpPorts.add(port.readUInt16BE(0));
  }
  const sorted = (numbers: ReadonlySet<number>): number[] => [...numbers].sort((a, b) => a - b);
  return { udpPorts: sorted(udpPorts), protocols: sorted(protocols) };
}
