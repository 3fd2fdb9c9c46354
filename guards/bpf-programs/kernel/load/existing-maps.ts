/**
 * Maps in the kernel that replace those of an object file: maps that several programs share, and maps that a new version of a program takes
 * over.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import type { BpfMap } from '../../../../lib/ebpf/map.ts';
import type { BpfObject } from '../../../../lib/ebpf/object.ts';
import { Btf } from '../btf/btf.ts';
import { ProgramFailure } from '../failure.ts';
import { mapInfo } from '../info.ts';
import { openPin } from '../pins/pin.ts';
import type { Pins } from '../pins/pins.ts';
import type { KeptMap, ProgramRecord } from '../records.ts';
import { mapTypeNames } from '../type-names.ts';
import { shapeDifferences } from './map-shape.ts';

/** Programs whose maps an object file may use instead of its own. */
export interface MapSources {
  /** The program whose maps it shares. */
  readonly owner: ProgramRecord | undefined;
  /** Programs from the same version of the same object file: they have the same maps, including those of global variables. */
  readonly sameLoad: readonly ProgramRecord[];
  /** Programs among whose maps LIBBPF_PIN_BY_NAME looks for one with the same name. */
  readonly scope: readonly ProgramRecord[];
  /** Programs that it replaces: their maps are carried over if they have the same shape. */
  readonly before: readonly ProgramRecord[];
  /** IDs of maps of `before` that other programs use as well: these are not carried over just because they were used before. */
  readonly ofOthers: ReadonlySet<number>;
}

/** A map that replaces one of the object file. */
export interface ChosenMap {
  readonly id: number;
  /** Whether it comes from the program that `mapOwner` names. */
  readonly shared: boolean;
  /** Whether it belongs to programs outside of this load, which stay. */
  readonly ofOthers: boolean;
}

/** An object file's declaration of one of its maps, before it is loaded. */
export interface FileMap {
  readonly map: BpfMap;
  readonly byName: boolean;
  readonly initial: string | undefined;
}

/** Call it before {@link BpfMap.neverPin} and any replacement, after all variables are set. */
export function mapsOfFile(object: BpfObject): readonly FileMap[] {
  const bytes = object.types();
  const types = bytes && new Btf(bytes);
  return object.maps().map((map) => ({
    map,
    byName: !map.internal && map.pinnedByName,
    initial: types && initialOf(object, map, types),
  }));
}

/**
 * Replaces maps of an eBPF object that is not loaded yet. Descriptors are duplicated: the caller need not keep anything open.
 *
 * @param shown - The owner of the object file, for messages.
 * @throws {ProgramFailure} `load`: a map that has to be shared has another shape.
 */
export function chooseMaps(
  pins: Pins,
  shown: string,
  files: readonly FileMap[],
  sources: MapSources,
): ReadonlyMap<BpfMap, ChosenMap> {
  const chosen = new Map<BpfMap, ChosenMap>();
  for (const file of files) {
    const found = choose(pins, shown, file, sources);
    if (found !== undefined) chosen.set(file.map, found);
  }
  return chosen;
}

interface Candidate {
  readonly record: ProgramRecord;
  readonly kept: KeptMap;
}

function choose(pins: Pins, shown: string, file: FileMap, sources: MapSources): ChosenMap | undefined {
  const { map, byName } = file;
  const { owner, sameLoad, scope, before, ofOthers } = sources;
  const required: readonly (readonly [Candidate | undefined, boolean])[] = [
    [map.internal || owner === undefined ? undefined : candidate(file, [owner]), true],
    [candidate(file, sameLoad), false],
    [byName ? candidate(file, scope, (kept) => kept.byName === true) : undefined, false],
  ];
  for (const [found, shared] of required) {
    using there = found && open(pins, found);
    if (found === undefined || there === undefined) continue;
    const info = mapInfo(there.fd);
    const differences = shapeDifferences(map, info);
    if (differences.length > 0)
      throw new ProgramFailure(
        'load',
        `The map ${map.name} of ${shown} cannot be shared with ${found.record.owner}: ${differences.join('; ')}. Declare it identically in both programs, or rename it.`,
      );
    map.reuse(there.fd);
    return { id: info.id, shared, ofOthers: !sameLoad.includes(found.record) };
  }
  const found = candidate(file, before, ({ id }) => !ofOthers.has(id));
  using there = found && open(pins, found);
  if (found === undefined || there === undefined || !canGoOn(file, found, there)) return undefined;
  map.reuse(there.fd);
  return { id: found.kept.id, shared: false, ofOthers: false };
}

function candidate(
  { map }: FileMap,
  records: readonly ProgramRecord[],
  fits: (kept: KeptMap) => boolean = () => true,
): Candidate | undefined {
  for (const record of records) {
    const kept = record.maps.find((one) => nameOf(one) === nameOf(map) && fits(one));
    if (kept !== undefined) return { record, kept };
  }
  return undefined;
}

/** The name of a map without the part that changes with each load: libbpf prefixes sections of variables with the eBPF object's name. */
export function nameOf({ name, internal }: Pick<KeptMap, 'internal' | 'name'>): string {
  return internal ? name.slice(name.indexOf('.')) : name;
}

function open(pins: Pins, { record, kept }: Candidate): Descriptor | undefined {
  const there = openPin(join(pins.program(record), 'maps', kept.pin));
  if (there === undefined || mapInfo(there.fd).id === kept.id) return there;
  there[Symbol.dispose]();
  return undefined;
}

function canGoOn({ map, initial }: FileMap, { kept }: Candidate, there: Descriptor): boolean {
  if (shapeDifferences(map, mapInfo(there.fd)).length > 0) return false;
  // The object file fills this map with programs of its own version, while the previous version still calls those that are in it.
  if (mapTypeNames[map.type] === 'prog_array') return initial === undefined;
  return !map.internal || (initial !== undefined && initial === kept.initial);
}

/**
 * Sections of variables, which are carried over if they start with the same variables and values in the same places. Constants are not:
 * their values belong to the version. libbpf keeps the contents of a section's map that it does not create itself
 * (bpf_object__create_maps).
 */
export const variableSections = /^\.(bss|data)(\.|$)/;

/**
 * For a section of variables: a digest of the variables' names, places and initial values. For a program array: `filled` if the file
 * defines its contents.
 */
function initialOf(object: BpfObject, map: BpfMap, types: Btf): string | undefined {
  if (!map.internal)
    return mapTypeNames[map.type] === 'prog_array' && types.hasInitialValues(map.name) ? 'filled' : undefined;
  const section = nameOf(map);
  if (!variableSections.test(section)) return undefined;
  const places = [...types.variables()]
    .filter(([, variable]) => variable.section === section)
    .map(([name, { offset, sizeBytes }]) => [name, offset, sizeBytes]);
  return `${digestOf(JSON.stringify(places))} ${digestOf(object.initialValue(section))}`;
}

/** Whether all variables still have their initial values. */
export function isUnchanged({ initial }: KeptMap, value: Uint8Array): boolean {
  return initial?.split(' ')[1] === digestOf(value);
}

function digestOf(data: Uint8Array | string): string {
  return createHash('sha256').update(data).digest('hex');
}
