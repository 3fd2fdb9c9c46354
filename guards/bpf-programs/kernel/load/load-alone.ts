/**
 * Loads one program of an object file on its own: under its own licence, with its own verifier log, maps and id. Members of chains
 * are also loaded alone first; a composition takes their instructions from here.
 */
import { join } from 'node:path';

import { type Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { setGlobals } from '../btf/globals.ts';
import { mapInfo, programInfo } from '../info.ts';
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import type { FixedBuffer } from '../../../../lib/ebpf/libc.ts';
import type { BpfMap } from '../../../../lib/ebpf/map.ts';
import { BpfObject, type BpfProgram } from '../../../../lib/ebpf/object.ts';
import { pin } from '../pins/pin.ts';
import type { AttachType } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { programTypes } from './program-types.ts';
import type { KeptMap } from '../records.ts';
import { type Admission, admit, type Admitted, checkLoaded, harmless } from '../tenant/admission.ts';

export interface LoadRequest {
  /** For messages: the owner. */
  readonly shown: string;
  readonly bytes: Uint8Array;
  readonly functionName: string;
  readonly type: AttachType;
  /** Of fentry and fexit. */
  readonly kernelFunction: string | undefined;
  readonly globals: Readonly<Record<string, Uint8Array>>;
  /** Undefined: cluster-scoped, which may do everything. */
  readonly admission: Admission | undefined;
}

/** A map of another program that replaces the program's own map of the same name. */
export interface SharedMap {
  readonly name: string;
  readonly owner: string;
  readonly map: Descriptor;
}

export interface LoadedAlone {
  readonly programId: number;
  readonly gpl: boolean;
  readonly hasFrags: boolean;
  /** With maps by their index in `maps`. */
  readonly instructions: Instructions;
  readonly maps: readonly KeptMap[];
  readonly admitted: Admitted | undefined;
}

/**
 * Opens the object file with only that program to be loaded, and its variables set. The caller disposes the object.
 *
 * @throws {ProgramFailure} `bytecode`, `load`.
 */
function openAlone(request: LoadRequest): {
  readonly object: BpfObject;
  readonly program: BpfProgram;
  readonly bytes: Uint8Array;
} {
  const { admission } = request;
  const bytes =
    admission === undefined
      ? request.bytes
      : failing('bytecode', () => harmless(request.bytes, admission.rules));
  const object = failing('bytecode', () => BpfObject.open(bytes, request.shown));
  try {
    const program = chosen(object, request.functionName);
    const { type, expectedAttachType } = programTypes[request.type];
    program.setType(type, expectedAttachType);
    const { kernelFunction } = request;
    if (kernelFunction !== undefined) failing('load', () => program.setAttachTarget(kernelFunction));
    failing('load', () => setGlobals(object, request.globals));
    for (const map of object.maps()) map.neverPin();
    return { object, program, bytes };
  } catch (error) {
    object[Symbol.dispose]();
    throw error;
  }
}

/**
 * Loads the program and pins it below a directory: `program`, and its maps in `maps/`.
 *
 * @param directory - In a bpffs; it does not exist yet.
 * @throws {ProgramFailure} `bytecode`, `not-allowed`, `load` with the verifier's last lines. Pins may be left behind then.
 */
export function loadAlone(
  request: LoadRequest,
  shared: readonly SharedMap[],
  directory: string,
): LoadedAlone {
  const { object, program, bytes } = openAlone(request);
  using _object = object;
  const { admission, type } = request;
  const maps = object.maps();
  const reused = share(request.shown, maps, shared);
  const ofFile =
    admission &&
    failing('bytecode', () =>
      admit(admission, bytes, { section: program.section, type }, { all: maps, shared: reused }),
    );
  failing('load', () => object.load());
  return failing('load', () => {
    const instructions = program.instructions();
    const ownMaps = new Set(maps.map(({ fd }) => fd));
    const admitted = admission && ofFile && checkLoaded(admission, ofFile, type, instructions, ownMaps);
    const { kept, places } = keep(maps, instructions, directory);
    for (const { index, immediate } of instructions.copy().mapReferences())
      instructions.setImmediate(index, places.get(immediate) ?? -1);
    pin(program.fd, join(directory, 'program'));
    const info = programInfo(program.fd);
    return {
      programId: info.id,
      gpl: info.gplCompatible,
      hasFrags: program.section.startsWith('xdp.frags'),
      instructions,
      maps: kept,
      admitted,
    };
  });
}

/**
 * Loads it and unloads it again.
 *
 * @param log - For the verifier's statistics. For a rejected program it contains no reason then: load that again without it.
 * @throws {ProgramFailure} `bytecode`, `load`.
 */
export function tryAlone(request: LoadRequest, log?: FixedBuffer): { readonly verifiedInstructions: number } {
  const { object, program } = openAlone(request);
  using _object = object;
  // BPF_LOG_STATS.
  if (log !== undefined) program.logTo(log, 4);
  failing('load', () => object.load());
  return programInfo(program.fd);
}

function failing<T>(reason: 'bytecode' | 'load', work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw failureOf(error, reason);
  }
}

function chosen(object: BpfObject, functionName: string): BpfProgram {
  const programs = object.programs();
  const found = programs.find(({ name }) => name === functionName);
  // Static functions may share a name: only one of them is loaded.
  for (const program of programs) if (program !== found) program.autoload = false;
  if (found !== undefined) return found;
  const names = programs.map(({ name }) => name).join(', ');
  throw new ProgramFailure(
    'bytecode',
    `The bytecode has no program ${functionName}. Name one of its programs: ${names || 'it has none'}.`,
  );
}

/** libbpf accepts a map of any shape; then a program would read beyond its values. Returns those that are shared. */
function share(shown: string, maps: readonly BpfMap[], shared: readonly SharedMap[]): ReadonlySet<BpfMap> {
  const reused = new Set<BpfMap>();
  for (const { name, owner, map: theirs } of shared) {
    const ours = maps.find((map) => map.name === name && !map.internal);
    if (ours === undefined) continue;
    const info = mapInfo(theirs.fd);
    const differences = [
      ['type', ours.type, info.type],
      ['key size', ours.keySizeBytes, info.keySizeBytes],
      ['value size', ours.valueSizeBytes, info.valueSizeBytes],
      ['number of entries', ours.maxEntries, info.maxEntries],
      ['flags', ours.flags, info.flags],
    ].filter(([, mine, their]) => mine !== their);
    if (differences.length > 0) {
      const list = differences
        .map(([what, mine, their]) => `${what} ${mine} here, ${their} there`)
        .join('; ');
      throw new ProgramFailure(
        'load',
        `The map ${name} of ${shown} cannot be shared with ${owner}: ${list}. Declare it identically in both programs, or rename it.`,
      );
    }
    failing('load', () => ours.reuse(theirs.fd));
    reused.add(ours);
  }
  return reused;
}

/** Pins the maps that are used or may be shared. */
function keep(
  maps: readonly BpfMap[],
  instructions: Instructions,
  directory: string,
): { readonly kept: readonly KeptMap[]; readonly places: ReadonlyMap<number, number> } {
  const used = new Set(Array.from(instructions.mapReferences(), ({ immediate }) => immediate));
  const places = new Map<number, number>();
  const kept: KeptMap[] = [];
  for (const map of maps) {
    const { fd, name, internal } = map;
    if (fd < 0 || (internal && !used.has(fd))) continue;
    // The name comes from the object file, which may be a stranger's; no name in C contains a hyphen.
    const pinName = internal ? `data-${kept.length}` : /^\w+$/.test(name) ? name : `map-${kept.length}`;
    pin(fd, join(directory, 'maps', pinName));
    places.set(fd, kept.length);
    kept.push({ name, internal, id: mapInfo(fd).id, pin: pinName });
  }
  return { kept, places };
}
