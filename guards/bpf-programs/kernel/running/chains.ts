/** The hooks of interfaces, with the programs that run there in their order. */
import { join } from 'node:path';

import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import type { Direction } from '../desired.ts';
import { linkInfo, mapInfo, programInfo } from '../info.ts';
import { queryTcx } from '../link/tcx.ts';
import { openPin } from '../pins/pin.ts';
import { NetworkPlace } from '../place/network-place.ts';
import type { ChainRecord, KeptMember, ProgramRecord } from '../records.ts';
import { type Kept, type ReadOptions, readKept } from './kept.ts';
import { openById } from './kernel-ids.ts';
import { readEntry } from './map-entries.ts';

/** One hook, with its programs in the order in which they run. */
export interface ChainView {
  readonly kind: 'tc' | 'tcx' | 'xdp';
  readonly interface: string;
  readonly direction: Direction | undefined;
  /** The inode of the network namespace in decimal; undefined for the node's own. */
  readonly container: string | undefined;
  /** `NAMESPACE/NAME` of the pod that the namespace belongs to, if any. */
  readonly pod: string | undefined;
  /** The kernel's ID of the composed program; undefined for TCX, which has none. */
  readonly programId: number | undefined;
  readonly notes: readonly string[];
  readonly members: readonly ChainMember[];
}

export interface ChainMember {
  /** Undefined for a TCX program that is not Rampart's, as are its owner and priority. */
  readonly id: string | undefined;
  readonly owner: string | undefined;
  readonly functionName: string;
  readonly programId: number;
  readonly priority: number | undefined;
  /** Names of the return codes after which the next program runs: `pass`, `drop`; `pipe`; for TCX, `next`. */
  readonly proceedOn: readonly string[];
  /** How often it has run since it joined the chain; undefined for TCX, whose runs are not counted. */
  readonly runs: bigint | undefined;
  /** Notes for the user. */
  readonly notes: readonly string[];
}

/** enum xdp_action of include/uapi/linux/bpf.h, in numerical order. */
const xdpActions = ['aborted', 'drop', 'pass', 'tx', 'redirect'];
/** TC_ACT_* of include/uapi/linux/pkt_cls.h, starting from -1. */
const tcActions = [
  'unspec',
  'ok',
  'reclassify',
  'shot',
  'pipe',
  'stolen',
  'queued',
  'repeat',
  'redirect',
  'trap',
];

/**
 * The names of the bits in a mask; a bit without a name is shown as a number. The last bit is the dispatcher's own return code, as
 * upstream.
 */
export function actionNames(kind: 'tc' | 'xdp', proceedOn: number): readonly string[] {
  const names = kind === 'xdp' ? xdpActions : tcActions;
  return Array.from({ length: 32 }, (_, bit) => bit)
    .filter((bit) => ((proceedOn >>> bit) & 1) === 1)
    .map((bit) =>
      bit === 31 ? 'dispatcher_return' : (names[bit] ?? String(kind === 'xdp' ? bit : bit - 1)),
    );
}

/** The order in which an incoming packet passes them. */
const hookOrder: readonly ChainView['kind'][] = ['xdp', 'tcx', 'tc'];

/** The hooks of an interface in which programs of Rampart run; without a name, those of all interfaces. */
export function readChain(options: ReadOptions, interfaceName?: string): readonly ChainView[] {
  const kept = readKept(options);
  return [...kept.chains.map((chain) => chainView(kept, chain)), ...tcxViews(kept)]
    .filter((view) => interfaceName === undefined || view.interface === interfaceName)
    .toSorted((a, b) => hookOrder.indexOf(a.kind) - hookOrder.indexOf(b.kind));
}

export function chainView({ pins, programs }: Kept, chain: ChainRecord): ChainView {
  using map = openPin(join(pins.chain(chain.key), 'runs'));
  const runs = map && readEntry(map.fd, mapInfo(map.fd), new Uint8Array(4));
  const runsOf = ({ slot }: KeptMember): bigint =>
    (runs?.values ?? []).reduce(
      (sum, value) => sum + (slot * 8 + 8 <= value.length ? value.readBigUInt64LE(slot * 8) : 0n),
      0n,
    );
  return {
    kind: chain.kind,
    interface: chain.interface,
    direction: chain.direction,
    container: chain.inContainer ? chain.namespaceInode : undefined,
    pod: chain.members.map(({ id }) => programs.get(id)?.pod).find((pod) => pod !== undefined),
    programId: chain.programId,
    notes: chain.notes,
    members: chain.members.map((member) => ({
      id: member.id,
      owner: programs.get(member.id)?.owner ?? member.id,
      functionName: programs.get(member.id)?.functionName ?? '',
      programId: member.programId,
      priority: member.priority,
      proceedOn: actionNames(chain.kind, member.proceedOn),
      runs: runsOf(member),
      notes: programs.get(member.id)?.notes ?? [],
    })),
  };
}

interface TcxHook {
  readonly interface: string;
  readonly direction: Direction;
  readonly inode: string;
  /** Keyed by the ID of the link. */
  readonly links: Map<number, ProgramRecord>;
  index: number;
}

/** The TCX hooks in which programs of Rampart run, including programs of others there. */
export function tcxViews({ pins, programs }: Kept): readonly ChainView[] {
  const hooks = new Map<string, TcxHook>();
  for (const record of programs.values()) {
    // The format in which tcx-hooks.ts writes the key.
    const [, name, direction, inode] = /^tcx (\S+) (ingress|egress) (\d+)$/.exec(record.attachKey) ?? [];
    if (name === undefined || direction === undefined || inode === undefined) continue;
    using link = openPin(join(pins.program(record), 'link'));
    if (link === undefined) continue;
    const info = linkInfo(link.fd);
    const hook = hooks.get(record.attachKey) ?? {
      ...{ interface: name, direction: direction as Direction, inode },
      ...{ links: new Map<number, ProgramRecord>(), index: 0 },
    };
    hook.links.set(info.id, record);
    // The link reports 0 once the interface is gone.
    hook.index = Math.max(hook.index, info.interfaceIndex);
    hooks.set(record.attachKey, hook);
  }
  return [...hooks.values()].flatMap((hook) => tcxView(hook) ?? []);
}

function tcxView({ interface: name, direction, inode, links, index }: TcxHook): ChainView | undefined {
  using network = index === 0 ? undefined : NetworkPlace.find(BigInt(inode));
  if (network === undefined) return undefined;
  let found: ReturnType<typeof queryTcx>;
  try {
    found = network.visit(() => queryTcx(index, direction));
  } catch (error) {
    // The interface has just disappeared.
    if (error instanceof KernelRefusal) return undefined;
    throw error;
  }
  return {
    ...{ kind: 'tcx', interface: name, direction, programId: undefined, notes: [] },
    container: network.inContainer ? inode : undefined,
    pod: [...links.values()].find(({ pod }) => pod !== undefined)?.pod,
    members: found.programs.map(({ programId, linkId }): ChainMember => {
      const record = links.get(linkId);
      return {
        ...{ id: record?.id, owner: record?.owner, programId, priority: record?.priority },
        functionName: record?.functionName ?? programName(programId),
        proceedOn: ['next'],
        runs: undefined,
        notes: record?.notes ?? [],
      };
    }),
  };
}

/** The name in the kernel: at most 15 characters. */
function programName(id: number): string {
  using program = openById('program', id);
  return program === undefined ? '' : programInfo(program.fd).name;
}
