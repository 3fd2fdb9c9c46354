/**
 * Whether a program of a namespaced kind keeps to the rules: once from the object file, before any of it reaches the kernel, and once more
 * from the instructions that the kernel got, before it is attached. The second look does not depend on how the file was read.
 */
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import type { BpfMap } from '../../../../lib/ebpf/map.ts';
import type { AttachType } from '../desired.ts';
import { droppedHelpers } from './allowed.ts';
import { demandsOf, dropCalls } from './demands.ts';
import { allowedMapTypes, mapMemoryBytes, mapTypeNames } from './map-memory.ts';
import { ObjectFile } from './object-file.ts';
import { makeStatic } from './static-functions.ts';
import { checkUses, notAllowed, type TenantRules, type Uses } from './rules.ts';

export interface Admission {
  readonly rules: TenantRules;
  /** @throws {ProgramFailure} `not-allowed` */
  readonly takeRoom: (mapBytes: number) => void;
}

/** What is kept of a program, to be compared with other rules later. */
export interface Admitted extends Uses {
  readonly mapBytes: number;
}

/** The maps of an object file. */
interface Maps {
  readonly all: readonly BpfMap[];
  /** Those of them that another program has: the others are going to be made. */
  readonly shared: ReadonlySet<BpfMap>;
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
 * @param bytes - Of {@link harmless}.
 * @param section - Of the program.
 * @throws {RampartError} `DECODE`
 * @throws {ProgramFailure} `not-allowed`
 */
export function admit(
  { rules, takeRoom }: Admission,
  bytes: Uint8Array,
  { section, type }: { readonly section: string; readonly type: AttachType },
  maps: Maps,
): Admitted {
  const file = new ObjectFile(bytes);
  const { calls, ofKernel } = demandsOf(file.code(section));
  const externs = file.externs(section);
  const uses = { calls: [...calls].toSorted(), externs: externs.toSorted() };
  checkUses(rules, type, uses);
  // Compilers name them, and libbpf replaces the names.
  if (ofKernel) throw numbersRefused();
  checkSharing(maps);
  const own = maps.all.filter((map) => !maps.shared.has(map));
  const mapBytes = own.reduce((sum, map) => sum + bytesOf(map), 0);
  takeRoom(mapBytes);
  return { ...uses, mapBytes };
}

/**
 * @returns What to keep: also what only these instructions tell.
 * @throws {ProgramFailure} `not-allowed`: it is not what was admitted
 */
export function checkLoaded(
  { rules }: Admission,
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

/** @throws {ProgramFailure} `not-allowed` */
function checkSharing({ all, shared }: Maps): void {
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
  for (const { name, type } of shared) {
    // libbpf puts programs into it, which nobody stops or counts when their own object is deleted.
    if (mapTypeNames[type] === 'prog_array')
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
