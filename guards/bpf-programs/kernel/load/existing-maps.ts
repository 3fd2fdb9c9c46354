/**
 * Maps in the kernel that take the place of an object file's own: maps that several programs share, and maps that a new
 * version of a program takes over.
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

/** Programs with maps that an object file may get instead of its own. */
export interface MapSources {
  /** Whose maps it shares. */
  readonly owner: ProgramRecord | undefined;
  /**
   * From the same version of the same object file: they have the same maps, including those of global
   * variables.
   */
  readonly sameLoad: readonly ProgramRecord[];
  /** In whose maps LIBBPF_PIN_BY_NAME looks. */
  readonly scope: readonly ProgramRecord[];
  /** Which it replaces: their maps are carried over if they have the same shape. */
  readonly before: readonly ProgramRecord[];
  /** Ids of maps of `before` that are not carried over by themselves: others have them too. */
  readonly ofOthers: ReadonlySet<number>;
}

/** A map that replaces one of the object file. */
export interface ChosenMap {
  readonly id: number;
  /** Whether it comes from the program that `mapOwner` names. */
  readonly shared: boolean;
  /** Whether other programs, which stay, have it. */
  readonly ofOthers: boolean;
}

/** An object file's declaration of one of its maps, before it is loaded. */
export interface FileMap {
  readonly map: BpfMap;
  readonly byName: boolean;
  readonly initial: string | undefined;
}

/** Before {@link BpfMap.neverPin} and any replacement, with all variables set. */
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
 * Replaces maps of an object that is not loaded yet. Descriptors are duplicated: nothing has to be kept open.
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

/** libbpf names a section of variables by its object, too, whose name is another one each time. */
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
  // libbpf fills it with programs of this version while the previous version still calls its own.
  if (mapTypeNames[map.type] === 'prog_array') return initial === undefined;
  return !map.internal || (initial !== undefined && initial === kept.initial);
}

/**
 * Values of constants are those of the version; variables are carried over if they begin with the same ones in the same places. libbpf keeps
 * what is in a section that it does not make (bpf_object__create_maps).
 */
export const variableSections = /^\.(bss|data)(\.|$)/;

/**
 * For a section of variables, names and places of the variables and their values before the program runs, digested. For a program array,
 * `filled` if the file says what is in it.
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

/** Whether variables have the values that they began with. */
export function isUnchanged({ initial }: KeptMap, value: Uint8Array): boolean {
  return initial?.split(' ')[1] === digestOf(value);
}

function digestOf(data: Uint8Array | string): string {
  return createHash('sha256').update(data).digest('hex');
}
