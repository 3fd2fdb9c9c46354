/**
 * Traffic control: the clsact qdisc and eBPF filters on it (rtnetlink(7), tc-bpf(8)). It stays without any process.
 */
import { constants } from 'node:os';

import type { Descriptor } from '../../../../shared/ebpf/bpf-call.ts';
import { KernelRefusal } from '../../../../shared/ebpf/refusal.ts';
import {
  attributes,
  readAttributes,
  requestFlags,
  type RouteSocket,
  text,
  textOf,
  u32,
} from '../../../../shared/netlink/route.ts';

type FilterDirection = 'egress' | 'ingress';

/** One filter's place: `replace` of the same place is atomic. */
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
  /** Of an eBPF filter: its name, and its program's id. */
  readonly name: string;
  readonly programId: number;
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
const TCA_BPF = { fd: 6, name: 7, flags: 8, id: 11 } as const;
const TCA_BPF_FLAG_ACT_DIRECT = 1;
const TC_H_CLSACT = 0xfffffff1;
const CLSACT_HANDLE = 0xffff0000;
const parents = { ingress: 0xfffffff2, egress: 0xfffffff3 } as const;
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

const infoOf = (priority: number): number => ((priority << 16) | ALL_PROTOCOLS) >>> 0;

/**
 * The kind of the qdisc at the place of clsact: `clsact`, or `ingress`, which has no egress: the kernel would put an egress
 * filter on its ingress. Undefined where there is none.
 *
 * @throws {KernelRefusal}
 */
export function ingressQdisc(socket: RouteSocket, interfaceIndex: number): string | undefined {
  const body = tcmsg(interfaceIndex, 0, 0);
  for (const message of socket.dump(
    `cannot list the qdiscs of interface ${interfaceIndex}`,
    RTM.getQdisc,
    body,
  )) {
    if (message.body.readInt32LE(4) !== interfaceIndex || message.body.readUInt32LE(12) !== TC_H_CLSACT)
      continue;
    return textOf(readAttributes(message.body, TCMSG_BYTES).get(TCA_KIND));
  }
  return undefined;
}

/** @throws {KernelRefusal} EEXIST: there is one, or an ingress qdisc. */
export function addClsact(socket: RouteSocket, interfaceIndex: number): void {
  const body = Buffer.concat([
    tcmsg(interfaceIndex, CLSACT_HANDLE, TC_H_CLSACT),
    attributes([[TCA_KIND, text('clsact')]]),
  ]);
  const flags = requestFlags.create | requestFlags.exclusive;
  socket.ask(`cannot add a clsact qdisc to interface ${interfaceIndex}`, RTM.newQdisc, flags, body);
}

/** Takes the qdisc away with all its filters. @throws {KernelRefusal} */
export function deleteClsact(socket: RouteSocket, interfaceIndex: number): void {
  const body = tcmsg(interfaceIndex, CLSACT_HANDLE, TC_H_CLSACT);
  socket.ask(`cannot delete the clsact qdisc of interface ${interfaceIndex}`, RTM.delQdisc, 0, body);
}

/** The filters of one direction, in the order they run. @throws {KernelRefusal} */
export function filters(
  socket: RouteSocket,
  interfaceIndex: number,
  direction: FilterDirection,
): readonly Filter[] {
  const body = tcmsg(interfaceIndex, 0, parents[direction]);
  const found: Filter[] = [];
  for (const message of socket.dump(
    `cannot list the filters of interface ${interfaceIndex}`,
    RTM.getFilter,
    body,
  )) {
    const attribute = readAttributes(message.body, TCMSG_BYTES);
    const handle = message.body.readUInt32LE(8);
    // The chain of a priority is told before its filters, with the handle 0.
    if (handle === 0) continue;
    const kind = textOf(attribute.get(TCA_KIND));
    const options = readAttributes(attribute.get(TCA_OPTIONS) ?? Buffer.alloc(0));
    const eBpf = kind === 'bpf';
    found.push({
      priority: message.body.readUInt32LE(16) >>> 16,
      handle,
      kind,
      name: eBpf ? textOf(options.get(TCA_BPF.name)) : '',
      programId: eBpf ? (options.get(TCA_BPF.id)?.readUInt32LE(0) ?? 0) : 0,
    });
  }
  return found;
}

/**
 * Puts a program at a place, in direct-action mode. With `replace` the one that is there goes in the same step: each packet sees
 * one of them.
 *
 * @throws {KernelRefusal} EEXIST: without `replace`, something is there.
 */
export function setFilter(
  socket: RouteSocket,
  place: FilterPlace,
  program: Descriptor,
  name: string,
  { replace }: { readonly replace: boolean },
): void {
  const options = attributes([
    [TCA_BPF.fd, u32(program.fd)],
    [TCA_BPF.name, text(name)],
    [TCA_BPF.flags, u32(TCA_BPF_FLAG_ACT_DIRECT)],
  ]);
  const body = Buffer.concat([
    tcmsg(place.interfaceIndex, place.handle, parents[place.direction], infoOf(place.priority)),
    attributes([
      [TCA_KIND, text('bpf')],
      [TCA_OPTIONS, options],
    ]),
  ]);
  const flags = requestFlags.create | (replace ? requestFlags.replace : requestFlags.exclusive);
  socket.ask(
    `cannot set the ${place.direction} filter of interface ${place.interfaceIndex}`,
    RTM.newFilter,
    flags,
    body,
  );
}

/** False where there is none. @throws {KernelRefusal} */
export function deleteFilter(socket: RouteSocket, place: FilterPlace): boolean {
  const body = Buffer.concat([
    tcmsg(place.interfaceIndex, place.handle, parents[place.direction], infoOf(place.priority)),
    attributes([[TCA_KIND, text('bpf')]]),
  ]);
  try {
    socket.ask(
      `cannot delete the ${place.direction} filter of interface ${place.interfaceIndex}`,
      RTM.delFilter,
      0,
      body,
    );
    return true;
  } catch (error) {
    // EINVAL: the qdisc is gone; ENODEV: the interface.
    const { ENOENT, EINVAL, ENODEV } = constants.errno;
    if (error instanceof KernelRefusal && [ENOENT, EINVAL, ENODEV].includes(error.errno)) return false;
    throw error;
  }
}
