/** Network interfaces (RTM_GETLINK). */
import { constants } from 'node:os';

import { KernelRefusal } from '../ebpf/refusal.ts';
import { attribute, attributesOf, textBytes, textOf } from './message.ts';
import type { RouteSocket } from './route.ts';

const RTM_GETLINK = 18;
const IFLA_IFNAME = 3;
const IFLA_LINKINFO = 18;
const IFLA_INFO_KIND = 1;
/** struct ifinfomsg. */
const IFINFO_BYTES = 16;
/** IFNAMSIZ with the NUL. */
const NAME_BYTES = 16;

interface NetworkInterface {
  readonly index: number;
  readonly name: string;
}

/** In the socket's network namespace; undefined where there is none. @throws {KernelRefusal} */
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

/** Their names, in the socket's network namespace. @throws {KernelRefusal} */
export function bridgesOf(socket: RouteSocket): string[] {
  const messages = socket.dump('cannot list the interfaces', RTM_GETLINK, Buffer.alloc(IFINFO_BYTES));
  return messages.flatMap(({ body }) => {
    const found = attributesOf(body.subarray(IFINFO_BYTES));
    const kind = attributesOf(found.get(IFLA_LINKINFO) ?? Buffer.alloc(0)).get(IFLA_INFO_KIND);
    return textOf(kind) === 'bridge' ? [textOf(found.get(IFLA_IFNAME))] : [];
  });
}
