/** The primary interface of a node: the one with its InternalIP, or else the one of its default route. */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';

import type { Node } from '../../../lib/kube/object/object.ts';
import type { PrimaryInterface } from '../engine/node-view.ts';

/** Addresses and routes of this machine. */
export interface Network {
  /** Addresses of interfaces that are up, with the interface's name, in the kernel's order. */
  readonly addresses: readonly { readonly name: string; readonly address: string }[];
  /** The interface of the default route, if there is one. */
  readonly defaultRoute: string | undefined;
}

/**
 * Like bpfman, the first interface that has the InternalIP. A Node may have several InternalIPs: one for each address family, and on a
 * single machine one for each interface. If several interfaces have one, the interface of the default route takes precedence.
 */
export function primaryInterface(
  node: Node | undefined,
  { addresses, defaultRoute }: Network = ownNetwork(),
): PrimaryInterface | undefined {
  const wanted = (node?.status?.addresses ?? [])
    .filter(({ type }) => type === 'InternalIP')
    .map(({ address }) => address);
  const having = wanted.flatMap((address) => addresses.filter((one) => one.address === address));
  const found = having.find(({ name }) => name === defaultRoute) ?? having[0];
  if (found !== undefined) {
    const { name, address } = found;
    return { name, why: `${name} is the primary interface: it has ${address}, an InternalIP of the Node` };
  }
  if (defaultRoute === undefined) return undefined;
  const missing =
    wanted.length === 0
      ? 'the Node has no InternalIP'
      : `no interface that is up has an InternalIP of the Node (${wanted.join(', ')})`;
  return {
    name: defaultRoute,
    why: `${defaultRoute} is the primary interface because it has the default route: ${missing}`,
  };
}

function ownNetwork(): Network {
  return {
    addresses: Object.entries(networkInterfaces()).flatMap(([label, addresses = []]) =>
      // An IPv4 address may have a label that begins with the name of the interface: eth0:1 (ip-address(8)).
      addresses.map(({ address }) => ({ name: label.split(':')[0] ?? label, address })),
    ),
    defaultRoute: ipv4Default(textOf('/proc/net/route')) ?? ipv6Default(textOf('/proc/net/ipv6_route')),
  };
}

/** Flags of `struct rtentry` (include/uapi/linux/route.h): the route is usable, and whether it goes through a gateway. */
const RTF_UP = 0x1;
const RTF_REJECT = 0x200;

/** Fields in `/proc/net/route`: interface, destination, gateway, flags, three counters, metric, mask. */
function ipv4Default(text: string): string | undefined {
  const routes = text
    .split('\n')
    .slice(1)
    .map((line) => line.split(/\s+/));
  return lowest(
    routes.flatMap(([name = '', destination, , flags = '', , , metric = '', mask]) =>
      destination === '00000000' && mask === '00000000' && isUsable(flags)
        ? [{ name, metric: Number(metric) }]
        : [],
    ),
  );
}

/** Fields in `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric, two counters, flags, interface. */
function ipv6Default(text: string): string | undefined {
  const routes = text.split('\n').map((line) => line.trim().split(/\s+/));
  return lowest(
    routes.flatMap(([destination = '', length, , , , metric = '', , , flags = '', name = '']) =>
      /^0{32}$/.test(destination) && length === '00' && isUsable(flags) && name !== 'lo'
        ? [{ name, metric: Number.parseInt(metric, 16) }]
        : [],
    ),
  );
}

function isUsable(flags: string): boolean {
  const bits = Number.parseInt(flags, 16);
  return (bits & RTF_UP) !== 0 && (bits & RTF_REJECT) === 0;
}

function lowest(routes: readonly { readonly name: string; readonly metric: number }[]): string | undefined {
  return routes.toSorted((a, b) => a.metric - b.metric)[0]?.name;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // For example, the kernel has no IPv6.
    return '';
  }
}
