/** Network interfaces (RTM_GETLINK). */
import { constants } from 'node:os';

import { KernelRefusal } from '../ebpf/refusal.ts';
import { attribute, attributesOf, textBytes, textOf } from './message.ts';
import type { RouteSocket } from './route.ts';

const RTM_GETLINK = 18;
const IFLA_IFNAME = 3;
const IFLA_LINKINFO = 18;
const IFLA_INFO_KIND = 1;
const IFLA_XDP = 43;
/** IFLA_XDP_*_PROG_ID of include/uapi/linux/if_link.h: in the driver, in the network stack, in the hardware. */
const xdpModes = [
  [5, 'native'],
  [6, 'generic'],
  [7, 'offload'],
] as const;
/** struct ifinfomsg. */
const IFINFO_BYTES = 16;
/** IFNAMSIZ with the NUL. */
const NAME_BYTES = 16;

interface NetworkInterface {
  readonly index: number;
  readonly name: string;
}

export interface ListedInterface extends NetworkInterface {
  /** `veth`, `bridge`; '' for a hardware interface. */
  readonly kind: string;
  /** At most one in each mode. */
  readonly xdp: readonly { readonly mode: 'generic' | 'native' | 'offload'; readonly programId: number }[];
}

/** The interfaces in the socket's network namespace. @throws {KernelRefusal} */
export function listInterfaces(socket: RouteSocket): readonly ListedInterface[] {
  const messages = socket.dump('cannot list the interfaces', RTM_GETLINK, Buffer.alloc(IFINFO_BYTES));
  return messages.map(({ body }) => {
    const found = attributesOf(body.subarray(IFINFO_BYTES));
    const inner = (type: number): Map<number, Buffer> => attributesOf(found.get(type) ?? Buffer.alloc(0));
    const xdp = inner(IFLA_XDP);
    return {
      index: body.readInt32LE(4),
      name: textOf(found.get(IFLA_IFNAME)),
      kind: textOf(inner(IFLA_LINKINFO).get(IFLA_INFO_KIND)),
      xdp: xdpModes.flatMap(([type, mode]) => {
        const programId = xdp.get(type)?.readUInt32LE(0);
        return programId === undefined ? [] : [{ mode, programId }];
      }),
    };
  });
}

/**
 * The interface of this name in the socket's network namespace; undefined if it does not exist.
 *
 * @throws {KernelRefusal}
 */
export function findInterface(socket: RouteSocket, name: string): NetworkInterface | undefined {
  if (name === '' || Buffer.byteLength(name) >= NAME_BYTES) return undefined;
  const parts = [Buffer.alloc(IFINFO_BYTES), attribute(IFLA_IFNAME, textBytes(name))];
  try {
    const [message] = socket.ask(`cannot look up the interface ${name}`, RTM_GETLINK, 0, ...parts);
    if (message === undefined) return undefined;
    const found = attributesOf(message.body.subarray(IFINFO_BYTES));
    return { index: message.body.readInt32LE(4), name: textOf(found.get(IFLA_IFNAME)) };
  } catch (error) {
    if (error instanceof KernelRefusal && error.errno === constants.errno.ENODEV) return undefined;
    throw error;
  }
}

/** The names of all interfaces in the socket's network namespace. */
export function interfaceNames(socket: RouteSocket): string[] {
  return socket
    .dump('cannot list the interfaces', RTM_GETLINK, Buffer.alloc(IFINFO_BYTES))
    .map(({ body }) => textOf(attributesOf(body.subarray(IFINFO_BYTES)).get(IFLA_IFNAME)));
}

/** The names of bridges in the socket's network namespace. @throws {KernelRefusal} */
export function bridgesOf(socket: RouteSocket): string[] {
  return listInterfaces(socket).flatMap(({ name, kind }) => (kind === 'bridge' ? [name] : []));
}
