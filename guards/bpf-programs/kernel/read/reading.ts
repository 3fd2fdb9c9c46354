/**
 * The state of the kernel, for commands: read from pins and records, without disturbing a running agent.
 */
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { Btf } from '../btf/btf.ts';
import { type JsonValue, valueOf } from '../btf/btf-value.ts';
import { btfById, enableStatistics, mapInfo, programInfo } from '../info.ts';
import { entriesOf, isPerCpu, readEntry } from './map-entries.ts';
import { openPin } from '../pins/pin.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { Direction, RunningProgram } from '../desired.ts';
import { openProgram, Pins } from '../pins/pins.ts';
import {
  type ChainRecord,
  type KeptMember,
  type ProgramRecord,
  Records,
  runningProgram,
} from '../records.ts';

/** Where a host keeps its state: as passed to {@link openProgramHost}. */
export interface ReadOptions {
  readonly bpffs: string;
  readonly name: string;
  readonly stateDirectory: string;
}

/** One hook with its chain, in the order it runs. */
export interface ChainView {
  readonly kind: 'tc' | 'xdp';
  readonly interface: string;
  readonly direction: Direction | undefined;
  /** The inode of the network namespace, decimal, where it is not the node's own. */
  readonly container: string | undefined;
  /** Of the composed program. */
  readonly programId: number;
  readonly notes: readonly string[];
  readonly members: readonly ChainMember[];
}

export interface ChainMember {
  readonly id: string;
  readonly owner: string;
  readonly functionName: string;
  readonly programId: number;
  readonly priority: number;
  /** Names of return codes after which the next one runs: `pass`, `drop`; `pipe`. */
  readonly proceedOn: readonly string[];
  /** How often it has run since it joined the chain. */
  readonly runs: bigint;
}

export interface ProgramStatistics {
  readonly program: RunningProgram;
  /** Of a member of a chain, since it joined; otherwise while the kernel's statistics were enabled. */
  readonly runs: bigint;
  /** Undefined for a member of a chain, whose time is that of the chain. */
  readonly runTimeNs: bigint | undefined;
}

export interface ChainStatistics {
  readonly chain: ChainView;
  readonly runs: bigint;
  readonly runTimeNs: bigint;
}

export interface MapDump {
  readonly name: string;
  readonly id: number;
  readonly entries: readonly { readonly key: JsonValue; readonly value: JsonValue }[];
  /** There are more than requested. */
  readonly truncated: boolean;
}

/** enum xdp_action of include/uapi/linux/bpf.h, by its numbers. */
const xdpActions = ['aborted', 'drop', 'pass', 'tx', 'redirect'];
/** TC_ACT_* of include/uapi/linux/pkt_cls.h, from -1 on. */
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

/** Names of the bits of a mask; a bit without a name is a number. The last one is the dispatcher's own, as upstream. */
export function actionNames(kind: 'tc' | 'xdp', proceedOn: number): readonly string[] {
  const names = kind === 'xdp' ? xdpActions : tcActions;
  return Array.from({ length: 32 }, (_, bit) => bit)
    .filter((bit) => ((proceedOn >>> bit) & 1) === 1)
    .map((bit) =>
      bit === 31 ? 'dispatcher_return' : (names[bit] ?? String(kind === 'xdp' ? bit : bit - 1)),
    );
}

/** The loaded programs, in the order of their ids. */
export function readPrograms(options: ReadOptions): readonly RunningProgram[] {
  return withRecords(options, ({ programs }) =>
    [...programs.values()].map(runningProgram).toSorted((a, b) => (a.id < b.id ? -1 : 1)),
  );
}

/** The chains on an interface, XDP first; on all interfaces without a name. */
export function readChain(options: ReadOptions, interfaceName?: string): readonly ChainView[] {
  return withRecords(options, (kept) =>
    kept.chains
      .filter((chain) => interfaceName === undefined || chain.interface === interfaceName)
      .toSorted((a, b) => (a.kind === b.kind ? 0 : a.kind === 'xdp' ? -1 : 1))
      .map((chain) => chainView(kept, chain)),
  );
}

/**
 * Runs of every program, and time if the kernel counts it: it does so during `during`, at a few ns per run.
 *
 * @throws {KernelRefusal} EPERM: enabling statistics requires CAP_SYS_ADMIN.
 */
export async function readStats(
  options: ReadOptions,
  during: () => Promise<void> = () => Promise.resolve(),
): Promise<{ readonly programs: readonly ProgramStatistics[]; readonly chains: readonly ChainStatistics[] }> {
  using _statistics = enableStatistics();
  await during();
  return withRecords(options, (kept) => {
    const chains = kept.chains.map((chain): ChainStatistics => {
      using program = openProgram(join(kept.pins.chain(chain.key), 'program'), chain.programId);
      return { chain: chainView(kept, chain), ...countsOf(program) };
    });
    const members = new Map(
      chains.flatMap(({ chain }) => chain.members.map((member) => [member.id, member])),
    );
    const programs = [...kept.programs.values()].map((record): ProgramStatistics => {
      const program = runningProgram(record);
      const member = members.get(record.id);
      if (member !== undefined) return { program, runs: member.runs, runTimeNs: undefined };
      using gated = openPin(join(kept.pins.program(record), 'gated'));
      using own = gated === undefined ? openPin(join(kept.pins.program(record), 'program')) : undefined;
      return { program, ...countsOf(gated ?? own) };
    });
    return { programs, chains };
  });
}

function countsOf(program: Descriptor | undefined): { readonly runs: bigint; readonly runTimeNs: bigint } {
  const { runs, runTimeNs } = program === undefined ? { runs: 0n, runTimeNs: 0n } : programInfo(program.fd);
  return { runs, runTimeNs };
}

/**
 * A map of a program, decoded by BTF if the map has it; otherwise keys and values are hexadecimal.
 *
 * @param program - Its id here, the kernel's id, or its owner.
 * @param mapName - As in C.
 * @throws {RampartError} `NOT_FOUND`; `UNSUPPORTED` for a map without readable entries.
 */
export function dumpMap(
  options: ReadOptions,
  program: string,
  mapName: string,
  mostEntries = 10_000,
): MapDump {
  return withRecords(options, ({ pins, programs }) => {
    const record = [...programs.values()].find(
      ({ id, owner, programId }) => id === program || owner === program || String(programId) === program,
    );
    if (record === undefined) throw notFound(`there is no program ${program}`, 'rampart bpf list shows them');
    const kept = record.maps.find(
      ({ name, pin }) =>
        name === mapName || pin === mapName || name.endsWith(`.${mapName.replace(/^\./, '')}`),
    );
    using map = kept && openPin(join(pins.program(record), 'maps', kept.pin));
    if (map === undefined) {
      const names = record.maps.map(({ name }) => name).join(', ');
      throw notFound(`${record.owner} has no map ${mapName}`, `It has: ${names || 'none'}`);
    }
    const info = mapInfo(map.fd);
    const btf = info.btfId === 0 ? undefined : new Btf(btfById(info.btfId));
    const show = (typeId: number, bytes: Buffer): JsonValue =>
      btf === undefined || typeId === 0 ? bytes.toString('hex') : valueOf(btf, typeId, bytes);
    const entries: { key: JsonValue; value: JsonValue }[] = [];
    let truncated = false;
    for (const { key, values } of entriesOf(map.fd, info)) {
      if (entries.length === mostEntries) {
        truncated = true;
        break;
      }
      const shown = values.map((value) => show(info.btfValueTypeId, value));
      entries.push({
        key: keyOf(show, info.btfKeyTypeId, key),
        value: isPerCpu(info) ? shown : (shown[0] ?? null),
      });
    }
    return { name: kept?.name ?? mapName, id: info.id, entries, truncated };
  });
}

/** Data sections have no type of their key, which is 0. */
function keyOf(show: (typeId: number, bytes: Buffer) => JsonValue, typeId: number, key: Buffer): JsonValue {
  return typeId === 0 && key.length === 4 ? key.readUInt32LE(0) : show(typeId, key);
}

interface Kept {
  readonly pins: Pins;
  readonly programs: ReadonlyMap<string, ProgramRecord>;
  readonly chains: readonly ChainRecord[];
}

/** A change by a running agent is seen either entirely or not at all. */
function withRecords<T>({ bpffs, name, stateDirectory }: ReadOptions, work: (kept: Kept) => T): T {
  const records = new Records(stateDirectory);
  const pins = new Pins(join(bpffs, name));
  const programs = records.programs().filter((record) => {
    using program = openProgram(join(pins.program(record), 'program'), record.programId);
    return program !== undefined;
  });
  return work({
    pins,
    programs: new Map(programs.map((record) => [record.id, record])),
    chains: records.chains(),
  });
}

function chainView({ pins, programs }: Kept, chain: ChainRecord): ChainView {
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
    })),
  };
}

function notFound(what: string, next: string): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, { what, next });
}
