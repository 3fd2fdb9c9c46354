/** All programs that run on the interfaces of a network namespace, whoever attached them. */
import { constants } from 'node:os';

import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { listInterfaces, type ListedInterface } from '../../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { linkInfo, linkTypes, programInfo } from '../info.ts';
import { queryTcx } from '../link/tcx.ts';
import { filters, ingressQdisc } from '../link/traffic-control.ts';
import type { NetworkPlace } from '../place/network-place.ts';
import { type Kept, type ReadOptions, readKept } from './kept.ts';
import { idsOf, openById } from './kernel-ids.ts';

export interface InterfaceProgram {
  readonly interface: string;
  readonly hook: 'netkit' | 'tc' | 'tcx' | 'xdp';
  /** XDP has only ingress; netkit has the two ends of a pair. `root`: a filter of the interface's root qdisc. */
  readonly direction: 'egress' | 'ingress' | 'peer' | 'primary' | 'root' | undefined;
  /** The mode of XDP: in the driver, in the network stack, or in the hardware. */
  readonly mode: 'generic' | 'native' | 'offload' | undefined;
  /** For tc: the program's place among the filters of the hook. */
  readonly filter: TcPlace | undefined;
  readonly programId: number;
  /** At most 15 characters. */
  readonly name: string;
  /** The ID of the link that attaches it; undefined if it was attached by netlink, which stays when the process ends. */
  readonly linkId: number | undefined;
  /** The Kubernetes objects for which Rampart runs it, in order; empty for a program of others. */
  readonly owners: readonly string[];
}

interface TcPlace {
  readonly chain: number;
  readonly priority: number;
  readonly handle: number;
  /** The index of a block that several interfaces share. */
  readonly block: number | undefined;
}

interface Context {
  readonly socket: RouteSocket;
  readonly owners: ReadonlyMap<number, readonly string[]>;
  /** IDs of links, keyed by `INDEX PROGRAM`: the interface's index and the program's ID. */
  readonly xdpLinks: ReadonlyMap<string, number>;
}

/**
 * The programs in the order of the interfaces, and on each interface in the order in which a packet meets them.
 *
 * @param interfaceName - Default: all interfaces.
 * @throws {KernelRefusal}
 */
export function interfacePrograms(
  options: ReadOptions,
  network: NetworkPlace,
  interfaceName?: string,
): readonly InterfaceProgram[] {
  const owners = ownersOfPrograms(readKept(options));
  const xdpLinks = linksOfXdp();
  return network.visit(() => {
    using socket = new RouteSocket();
    return listInterfaces(socket)
      .filter(({ name }) => interfaceName === undefined || name === interfaceName)
      .flatMap((found) => programsOf(found, { socket, owners, xdpLinks }));
  });
}

function programsOf(
  { index, name, kind, xdp }: ListedInterface,
  { socket, owners, xdpLinks }: Context,
): readonly InterfaceProgram[] {
  const found = (
    programId: number,
    rest: Pick<InterfaceProgram, 'direction' | 'hook'> & Partial<InterfaceProgram>,
  ): InterfaceProgram => ({
    ...{ interface: name, mode: undefined, filter: undefined, linkId: undefined },
    ...{ programId, name: nameOf(programId), owners: owners.get(programId) ?? [] },
    ...rest,
  });
  const inOrder = (hook: 'netkit' | 'tcx', direction: Parameters<typeof queryTcx>[1]): InterfaceProgram[] =>
    orderedAt(index, direction).map(({ programId, linkId }) =>
      found(programId, { hook, direction, linkId: linkId === 0 ? undefined : linkId }),
    );
  const classifiers = (direction: 'egress' | 'ingress' | 'root'): InterfaceProgram[] =>
    filtersAt(socket, index, direction).map(({ programId, priority, handle, chainIndex, block }) =>
      found(programId, { hook: 'tc', direction, filter: { chain: chainIndex, priority, handle, block } }),
    );
  const qdisc = ingressQdisc(socket, index);
  return [
    ...xdp.map(({ mode, programId }) =>
      found(programId, {
        hook: 'xdp',
        direction: undefined,
        mode,
        linkId: xdpLinks.get(`${index} ${programId}`),
      }),
    ),
    ...inOrder('tcx', 'ingress'),
    ...(qdisc === undefined ? [] : classifiers('ingress')),
    ...inOrder('tcx', 'egress'),
    // The qdisc `ingress` has no egress: the kernel would return the filters of its ingress.
    ...(qdisc === 'clsact' ? classifiers('egress') : []),
    ...classifiers('root'),
    ...(kind === 'netkit' ? [...inOrder('netkit', 'primary'), ...inOrder('netkit', 'peer')] : []),
  ];
}

function orderedAt(
  index: number,
  direction: Parameters<typeof queryTcx>[1],
): ReturnType<typeof queryTcx>['programs'] {
  try {
    return queryTcx(index, direction).programs;
  } catch (error) {
    // The kernel does not support this hook; or this is the peer of a netkit pair, whose programs only the primary end can list; or the
    // interface has disappeared.
    const { EINVAL, ENXIO, EACCES, ENODEV, ENOENT } = constants.errno;
    if (error instanceof KernelRefusal && [EINVAL, ENXIO, EACCES, ENODEV, ENOENT].includes(error.errno))
      return [];
    throw error;
  }
}

/** The filters of a direction that run an eBPF program. */
function filtersAt(
  socket: RouteSocket,
  index: number,
  direction: Parameters<typeof filters>[2],
): ReturnType<typeof filters> {
  try {
    return filters(socket, index, direction).filter(({ programId }) => programId > 0);
  } catch (error) {
    // The interface has disappeared.
    if (error instanceof KernelRefusal && error.errno === constants.errno.ENODEV) return [];
    throw error;
  }
}

function ownersOfPrograms({ programs, chains }: Kept): ReadonlyMap<number, readonly string[]> {
  const owners = new Map<number, readonly string[]>();
  for (const { programId, owner } of programs.values()) owners.set(programId, [owner]);
  for (const { programId, members } of chains)
    owners.set(
      programId,
      members.map(({ id }) => programs.get(id)?.owner ?? id),
    );
  return owners;
}

/** Finds the links of XDP programs. The kernel does not report the namespace of a link, but index and program are enough to identify it. */
function linksOfXdp(): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const id of idsOf('link')) {
    using link = openById('link', id);
    const info = link && linkInfo(link.fd);
    if (info?.type === linkTypes.xdp) found.set(`${info.interfaceIndex} ${info.programId}`, id);
  }
  return found;
}

function nameOf(programId: number): string {
  using program = openById('program', programId);
  return program === undefined ? '' : programInfo(program.fd).name;
}
