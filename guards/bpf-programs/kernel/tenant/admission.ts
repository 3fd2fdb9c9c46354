/**
 * Checks whether a program of a namespaced kind follows the rules: once in the object file, before any of it reaches the kernel, and again
 * in the instructions that the kernel received, before it is attached. The second check does not depend on how the file was parsed.
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
  /** Reserves memory for the maps. @throws {ProgramFailure} `not-allowed` if there is not enough */
  readonly takeRoom: (maps: readonly MapHold[]) => void;
}

/** What is kept about a program, so that it can be checked again if the rules change. */
export interface Admitted extends Uses {
  /** Memory of all its own maps. Only in records of earlier versions; now each map has its own value. */
  readonly mapBytes?: number;
}

/** A map in the kernel that replaces one of an object file. */
export interface TakenOver {
  readonly id: number;
  /** Whether another program uses the map as well. */
  readonly shared: boolean;
}

/**
 * A copy of the object file in which all functions are static, and calls of certain helpers are replaced so that they do nothing. @throws
 * {RampartError} `DECODE`
 */
export function harmless(bytes: Uint8Array, { helpers }: TenantRules): Uint8Array {
  const copy = Uint8Array.from(bytes);
  const file = new ObjectFile(copy);
  dropCalls(file.allCode, (name) => droppedHelpers.has(name) && !helpers.has(name));
  for (const types of file.types) makeStatic(types);
  return copy;
}

/**
 * @param file - The copy made by {@link harmless}.
 * @param section - The program's section.
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
  // Compilers refer to kernel functions by name, and only libbpf replaces names by numbers.
  if (ofKernel) throw numbersRefused();
  return uses;
}

/**
 * Checks all maps of an object file, and reserves memory for them.
 *
 * @returns the memory of each map.
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
 * Checks the instructions that the kernel received.
 *
 * @returns the facts to keep, including those found only in these instructions.
 * @throws {ProgramFailure} `not-allowed`: they differ from what was admitted
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

/** Requires that maps have different names. Call it before any of them is replaced. @throws {ProgramFailure} `not-allowed` */
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

/** Forbids sharing a program array. @throws {ProgramFailure} `not-allowed` */
function checkSharing(takenOver: ReadonlyMap<BpfMap, TakenOver>): void {
  for (const [{ name, type }, { shared }] of takenOver) {
    // libbpf puts programs into it, which would neither be detached nor counted once their own Kubernetes object is deleted.
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
