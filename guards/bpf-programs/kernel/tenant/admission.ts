/**
 * Whether a program of a namespaced kind keeps to the rules: once from the object file, before any of it reaches the kernel, and once more
 * from the instructions that the kernel got, before it is attached. The second look does not depend on how the file was read.
 */
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import type { BpfMap } from '../../../../lib/ebpf/map.ts';
import type { AttachType } from '../desired.ts';
import { droppedHelpers } from './allowed.ts';
import { demandsOf, dropCalls } from './demands.ts';
import { mapTypeNames } from '../type-names.ts';
import { allowedMapTypes, mapMemoryBytes } from './map-memory.ts';
import type { MapHold } from './map-room.ts';
import { ObjectFile } from './object-file.ts';
import { makeStatic } from './static-functions.ts';
import { checkUses, notAllowed, type TenantRules, type Uses } from './rules.ts';

export interface Admission {
  readonly rules: TenantRules;
  /** @throws {ProgramFailure} `not-allowed` */
  readonly takeRoom: (maps: readonly MapHold[]) => void;
}

/** The facts kept about a program, for a later comparison with other rules. */
export interface Admitted extends Uses {
  /** Memory of all its own maps. Only in the records of earlier versions: now each map has its own. */
  readonly mapBytes?: number;
}

/** A map in the kernel that takes the place of one of an object file. */
export interface TakenOver {
  readonly id: number;
  /** Whether another program has the map, too. */
  readonly shared: boolean;
}

/** A copy of the object file with static functions only, and without the calls that may do nothing. @throws {RampartError} `DECODE` */
export function harmless(bytes: Uint8Array, { helpers }: TenantRules): Uint8Array {
  const copy = Uint8Array.from(bytes);
  const file = new ObjectFile(copy);
  dropCalls(file.allCode, (name) => droppedHelpers.has(name) && !helpers.has(name));
  for (const types of file.types) makeStatic(types);
  return copy;
}

/**
 * @param file - Of {@link harmless}.
 * @param section - Of the program.
 * @throws {RampartError} `DECODE`
 * @throws {ProgramFailure} `not-allowed`
 */
export function admitProgram(
  { rules }: Admission,
  file: ObjectFile,
  { section, type }: { readonly section: string; readonly type: AttachType },
): Admitted {
  const { calls, ofKernel } = demandsOf(file.code(section));
  const externs = file.externs(section);
  const uses = { calls: [...calls].toSorted(), externs: externs.toSorted() };
  checkUses(rules, type, uses);
  // Compilers name them, and libbpf replaces the names.
  if (ofKernel) throw numbersRefused();
  return uses;
}

/**
 * All maps of an object file.
 *
 * @returns the memory of each.
 * @throws {ProgramFailure} `not-allowed`
 */
export function admitMaps(
  { takeRoom }: Admission,
  all: readonly BpfMap[],
  takenOver: ReadonlyMap<BpfMap, TakenOver>,
): ReadonlyMap<BpfMap, number> {
  checkSharing(takenOver);
  const bytes = new Map(all.map((map) => [map, bytesOf(map)]));
  takeRoom(
    [...bytes].map(([map, size]) => {
      const { id, shared = false } = takenOver.get(map) ?? {};
      return { key: id ?? map.name, bytes: size, shared };
    }),
  );
  return bytes;
}

/**
 * @returns the facts to keep, including those found only in these instructions.
 * @throws {ProgramFailure} `not-allowed`: it differs from what was admitted
 */
export function checkLoaded(
  { rules }: Pick<Admission, 'rules'>,
  admitted: Admitted,
  type: AttachType,
  instructions: Instructions,
  ownMaps: ReadonlySet<number>,
): Admitted {
  const { externs } = admitted;
  const { calls, ofKernel, maps } = demandsOf([instructions.bytes]);
  checkUses(rules, type, { calls: [...calls], externs });
  if (ofKernel && externs.length === 0) throw numbersRefused();
  if (!maps.isSubsetOf(ownMaps))
    throw notAllowed(
      'map_not_own',
      'The program uses a map that is not in its object file',
      'Compile it from source that declares its maps.',
    );
  return { ...admitted, calls: [...calls.union(new Set(admitted.calls))].toSorted() };
}

function numbersRefused(): Error {
  return notAllowed(
    'helper_not_allowed',
    'The program uses a function or variable of the kernel by its number',
    'Declare it by name (extern ... __ksym), and ask the administrator of the cluster to start the agents with --bpf-tenant-helpers and that name.',
  );
}

/** Before any of them takes the place of another one. @throws {ProgramFailure} `not-allowed` */
export function checkNames(all: readonly BpfMap[]): void {
  const names = new Set<string>();
  for (const { name, internal } of all) {
    if (internal) continue;
    if (names.has(name))
      throw notAllowed(
        'map_not_own',
        `The object file has two maps named ${name}`,
        'Give each map a name of its own: maps are shared by name.',
      );
    names.add(name);
  }
}

/** @throws {ProgramFailure} `not-allowed` */
function checkSharing(takenOver: ReadonlyMap<BpfMap, TakenOver>): void {
  for (const [{ name, type }, { shared }] of takenOver) {
    // libbpf puts programs into it, which are neither stopped nor counted when their own object is deleted.
    if (shared && mapTypeNames[type] === 'prog_array')
      throw notAllowed(
        'map_type_not_allowed',
        `The map ${name} has type prog_array, which programs of namespaced kinds may not share`,
        'Rename it, so that each program has its own, or use a cluster-scoped kind.',
      );
  }
}

function bytesOf(map: BpfMap): number {
  const bytes = mapMemoryBytes(map);
  if (bytes !== undefined) return bytes;
  const name = mapTypeNames[map.type] ?? `number ${map.type}`;
  throw notAllowed(
    'map_type_not_allowed',
    `The map ${map.name} has type ${name}, which programs of namespaced kinds may not have`,
    `Use one of ${allowedMapTypes.join(', ')}, or a cluster-scoped kind.`,
  );
}
