/** Traffic control: the clsact qdisc and its eBPF filters (rtnetlink(7), tc-bpf(8)). They stay when this process ends. */
import { constants } from 'node:os';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import {
  attribute,
  attributesOf,
  hostBytes32,
  messageFlags,
  textBytes,
  textOf,
} from '../../../../lib/netlink/message.ts';
import type { RouteSocket } from '../../../../lib/netlink/route.ts';

type FilterDirection = 'egress' | 'ingress';

/** The place of one filter: replacing the filter at a place is atomic. */
export interface FilterPlace {
  readonly interfaceIndex: number;
  readonly direction: FilterDirection;
  /** 1 to 65535, lowest first. */
  readonly priority: number;
  readonly handle: number;
}

export interface Filter {
  readonly priority: number;
  readonly handle: number;
  /** `bpf`, `flower`, ... */
  readonly kind: string;
  /** Name of an eBPF filter, and the ID of its program. */
  readonly name: string;
  readonly programId: number;
  /** Filters in chains other than 0 run only if another filter jumps there. */
  readonly chainIndex: number;
  /** The index of a block that several interfaces share; undefined for a filter of the interface alone. */
  readonly block: number | undefined;
}

const RTM = {
  newQdisc: 36,
  delQdisc: 37,
  getQdisc: 38,
  newFilter: 44,
  delFilter: 45,
  getFilter: 46,
} as const;
/** struct tcmsg. */
const TCMSG_BYTES = 20;
const TCA_KIND = 1;
const TCA_OPTIONS = 2;
const TCA_CHAIN = 11;
/** Stands for an interface in requests about a shared block. */
const TCM_IFINDEX_MAGIC_BLOCK = -1;
const TCA_BPF = { fd: 6, name: 7, flags: 8, id: 11 } as const;
const TCA_BPF_FLAG_ACT_DIRECT = 1;
const TC_H_CLSACT = 0xfffffff1;
const CLSACT_HANDLE = 0xffff0000;
/** `root`: the filters of the root qdisc, if it is classful. */
const parents = { ingress: 0xfffffff2, egress: 0xfffffff3, root: 0 } as const;
/** ETH_P_ALL in network byte order. */
const ALL_PROTOCOLS = 0x0300;

function tcmsg(interfaceIndex: number, handle: number, parent: number, info = 0): Buffer {
  const bytes = Buffer.alloc(TCMSG_BYTES);
  bytes.writeInt32LE(interfaceIndex, 4);
  bytes.writeUInt32LE(handle >>> 0, 8);
  bytes.writeUInt32LE(parent >>> 0, 12);
  bytes.writeUInt32LE(info >>> 0, 16);
  return bytes;
}

/** The attributes of an eBPF filter. */
function partsOf({ interfaceIndex, direction, priority, handle }: FilterPlace): Buffer[] {
  const info = (priority << 16) | ALL_PROTOCOLS;
  return [tcmsg(interfaceIndex, handle, parents[direction], info), attribute(TCA_KIND, textBytes('bpf'))];
}

/**
 * The kind of the qdisc in clsact's place: `clsact`, or `ingress`. The latter has no egress: the kernel would put an egress filter on its
 * ingress. Undefined without either qdisc.
 *
 * @throws {KernelRefusal}
 */
export function ingressQdisc(socket: RouteSocket, interfaceIndex: number): string | undefined {
  const body = tcmsg(interfaceIndex, 0, 0);
  const what = `cannot list the qdiscs of interface ${interfaceIndex}`;
  const found = socket
    .dump(what, RTM.getQdisc, body)
    .find((one) => one.body.readInt32LE(4) === interfaceIndex && one.body.readUInt32LE(12) === TC_H_CLSACT);
  return found && textOf(attributesOf(found.body.subarray(TCMSG_BYTES)).get(TCA_KIND));
}

/** @throws {KernelRefusal} EEXIST: there is already a clsact or ingress qdisc. */
export function addClsact(socket: RouteSocket, interfaceIndex: number): void {
  const parts = [tcmsg(interfaceIndex, CLSACT_HANDLE, TC_H_CLSACT), attribute(TCA_KIND, textBytes('clsact'))];
  const flags = messageFlags.CREATE | messageFlags.EXCL;
  socket.ask(`cannot add a clsact qdisc to interface ${interfaceIndex}`, RTM.newQdisc, flags, ...parts);
}

/** Removes the qdisc with all its filters. @throws {KernelRefusal} */
export function deleteClsact(socket: RouteSocket, interfaceIndex: number): void {
  const body = tcmsg(interfaceIndex, CLSACT_HANDLE, TC_H_CLSACT);
  socket.ask(`cannot delete the clsact qdisc of interface ${interfaceIndex}`, RTM.delQdisc, 0, body);
}

/** The filters of one direction, by chain, in the order in which they run. @throws {KernelRefusal} */
export function filters(
  socket: RouteSocket,
  interfaceIndex: number,
  direction: FilterDirection | 'root',
): readonly Filter[] {
  const body = tcmsg(interfaceIndex, 0, parents[direction]);
  const found: Filter[] = [];
  const what = `cannot list the filters of interface ${interfaceIndex}`;
  for (const message of socket.dump(what, RTM.getFilter, body)) {
    const attributes = attributesOf(message.body.subarray(TCMSG_BYTES));
    const handle = message.body.readUInt32LE(8);
    // An entry with handle 0 is not a filter: the kernel lists one for each priority, before its filters.
    if (handle === 0) continue;
    const kind = textOf(attributes.get(TCA_KIND));
    const options = attributesOf(attributes.get(TCA_OPTIONS) ?? Buffer.alloc(0));
    const eBpf = kind === 'bpf';
    found.push({
      priority: message.body.readUInt32LE(16) >>> 16,
      handle,
      kind,
      name: eBpf ? textOf(options.get(TCA_BPF.name)) : '',
      programId: eBpf ? (options.get(TCA_BPF.id)?.readUInt32LE(0) ?? 0) : 0,
      chainIndex: attributes.get(TCA_CHAIN)?.readUInt32LE(0) ?? 0,
      // In a filter of a shared block, this field of struct tcmsg has the block instead of the parent.
      block:
        message.body.readInt32LE(4) === TCM_IFINDEX_MAGIC_BLOCK ? message.body.readUInt32LE(12) : undefined,
    });
  }
  return found;
}

/**
 * Attaches a program at a place, in direct-action mode. With `replace`, an existing filter is replaced in one step: each packet sees one of
 * the two.
 *
 * @throws {KernelRefusal} EEXIST: the place is in use, and `replace` is not set.
 */
export function setFilter(
  socket: RouteSocket,
  place: FilterPlace,
  program: Descriptor,
  name: string,
  { replace }: { readonly replace: boolean },
): void {
  const options = Buffer.concat([
    attribute(TCA_BPF.fd, hostBytes32(program.fd)),
    attribute(TCA_BPF.name, textBytes(name)),
    attribute(TCA_BPF.flags, hostBytes32(TCA_BPF_FLAG_ACT_DIRECT)),
  ]);
  const what = `cannot set the ${place.direction} filter of interface ${place.interfaceIndex}`;
  const flags = messageFlags.CREATE | (replace ? messageFlags.REPLACE : messageFlags.EXCL);
  socket.ask(what, RTM.newFilter, flags, ...partsOf(place), attribute(TCA_OPTIONS, options));
}

/**
 * @returns false if the filter does not exist.
 * @throws {KernelRefusal}
 */
export function deleteFilter(socket: RouteSocket, place: FilterPlace): boolean {
  const what = `cannot delete the ${place.direction} filter of interface ${place.interfaceIndex}`;
  try {
    socket.ask(what, RTM.delFilter, 0, ...partsOf(place));
    return true;
  } catch (error) {
    // EINVAL: the qdisc is gone; ENODEV: the interface is gone.
    const { ENOENT, EINVAL, ENODEV } = constants.errno;
    if (error instanceof KernelRefusal && [ENOENT, EINVAL, ENODEV].includes(error.errno)) return false;
    throw error;
  }
}
