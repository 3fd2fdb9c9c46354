/**
 * The loaded programs, pinned with their maps. Unchanged programs stay; changed ones are loaded in addition. A program's record describes
 * the running version: a new version takes its place once it is attached.
 */
import { join } from 'node:path';

import { attachPoint } from '../attach-point.ts';
import { type AttachType, type DesiredProgram, type Failure, programTypeOf } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { mapInfo } from '../info.ts';
import { openPin, pin } from '../pins/pin.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import { keyOf, RECORD_VERSION, type ProgramRecord, type Records } from '../records.ts';
import { holdsOf, type MapHold, MapRoom } from '../tenant/map-room.ts';
import { checkUses, type TenantRules } from '../tenant/rules.ts';
import { nameOf } from './existing-maps.ts';
import { kernelFunctionOf, loadKeyOf, unitKeyOf } from './load-key.ts';
import { failedTogether, type LoadedFunction, loadObject, type ProgramRequest } from './load-object.ts';
import { lostContents, mapSources } from './replaced.ts';
import type { LoadedProgram } from './loaded-program.ts';
import { leftBehind, twinOf } from './twins.ts';

interface FailedProgram {
  readonly program: DesiredProgram;
  readonly error: unknown;
}

/** State of one pass for {@link Programs.ensureLoaded}. */
export interface LoadPass {
  /** All desired programs, keyed by id. */
  readonly desired: ReadonlyMap<string, DesiredProgram>;
  /** Ids of the desired programs, and of programs that stay although they are not desired. */
  readonly staying: ReadonlySet<string>;
  /** The programs of this pass that were handled earlier, by id: the version that runs or is about to, or why no version does. */
  readonly settled: ReadonlyMap<string, Failure | ProgramRecord>;
  /** Result of {@link Programs.mapRoom}. */
  readonly room: MapRoom;
}

type Place = Pick<ProgramRecord, 'generation' | 'id' | 'key'>;

/** A program that has to be loaded. */
interface Missing extends ProgramRequest {
  readonly type: AttachType;
  readonly program: DesiredProgram;
  readonly place: Place;
}

export class Programs {
  readonly #pins: Pins;
  readonly #records: Records;
  readonly #tenants: TenantRules;
  readonly #known = new Map<string, ProgramRecord>();
  /** New versions that are loaded but not attached yet. They are not recorded, so a later process loads them again. */
  readonly #next = new Map<string, LoadedProgram>();
  /** Maps of programs for which there was no room, by unit: until there is, their bytecode is not read again. */
  readonly #waiting = new Map<string, { readonly id: string; readonly maps: readonly MapHold[] }>();

  /** Adopts the recorded programs whose pins exist. */
  constructor(pins: Pins, records: Records, tenants: TenantRules) {
    this.#pins = pins;
    this.#records = records;
    this.#tenants = tenants;
    for (const record of records.programs()) {
      using program = openProgram(join(pins.program(record), 'program'), record.programId);
      if (program !== undefined) this.#known.set(record.id, record);
    }
  }

  /** The versions that run. */
  get known(): ReadonlyMap<string, ProgramRecord> {
    return this.#known;
  }

  /** How much memory namespaces have left for maps if only these programs stay. */
  mapRoom(staying: ReadonlySet<string>): MapRoom {
    for (const [key, { id }] of this.#waiting) if (!staying.has(id)) this.#waiting.delete(key);
    return new MapRoom(
      this.#tenants,
      [...this.#known.values()].filter(({ id }) => staying.has(id)),
    );
  }

  /**
   * Loads the programs of a unit that are not yet in the kernel as desired.
   *
   * @param unit - One of the groups of `loadUnits`.
   */
  async ensureLoaded(
    unit: readonly DesiredProgram[],
    pass: LoadPass,
  ): Promise<readonly (FailedProgram | LoadedProgram)[]> {
    const loaded = new Map<string, LoadedProgram>();
    const failed: FailedProgram[] = [];
    let missing: DesiredProgram[] = [];
    for (const program of unit) {
      try {
        const there = this.#stillExists(program, pass);
        if (there !== undefined) {
          this.checkAgain(there.record, pass.room);
          loaded.set(program.id, there);
        } else if (program.blocked === undefined) missing.push(program);
        else throw ProgramFailure.of(program.blocked);
      } catch (error) {
        failed.push({ program, error });
      }
    }
    const [refused] = failed;
    if (refused !== undefined && missing.some(({ allOrNothing }) => allOrNothing)) {
      const error = failedTogether(refused.program, failureOf(refused.error, 'load'));
      failed.push(...missing.map((program) => ({ program, error })));
      missing = [];
    }
    if (missing.length === 0) return [...loaded.values(), ...failed];
    const sources = mapSources(missing, this.#all(), pass.staying);
    const left = [...this.#known.values()].filter(({ id }) => !pass.staying.has(id));
    const lostFrom = loaded.size;
    let bytes: Uint8Array | undefined;
    while (missing.length > 0) {
      const rest: DesiredProgram[] = [];
      const round: DesiredProgram[] = [];
      for (const program of missing) {
        const twin = twinOf(program, [...loaded.values()]);
        const other =
          twin === undefined
            ? leftBehind(program, left, [...loaded.values()]).find((record) => this.#isWhole(record))
            : undefined;
        if (twin !== undefined) loaded.set(program.id, this.#copy(twin.record, program));
        else if (other !== undefined) loaded.set(program.id, this.#copy(other, program, pass.room));
        else if (round.every(({ functionName }) => functionName !== program.functionName))
          round.push(program);
        else rest.push(program);
      }
      missing = rest;
      if (round.length === 0) continue;
      try {
        bytes ??= await this.#bytecode(round, pass);
        const sameLoad = [...loaded.values()].map(({ record }) => record);
        for (const one of this.#load(round, bytes, { ...sources, sameLoad }, pass)) {
          if ('error' in one) failed.push(one);
          else loaded.set(one.program.id, one);
        }
      } catch (error) {
        for (const program of round) failed.push({ program, error });
      }
    }
    const results = [...loaded.values()];
    if (results.length > lostFrom && sources.before.length > 0) this.#reportLost(results, lostFrom, sources);
    return [...results, ...failed];
  }

  async #bytecode([first]: readonly DesiredProgram[], { room }: LoadPass): Promise<Uint8Array> {
    if (first === undefined) throw new TypeError('nothing to load');
    const waiting = this.#waiting.get(unitKeyOf(first));
    if (waiting !== undefined) this.#takeRoom(first, waiting.maps, room);
    try {
      return await first.bytecode();
    } catch (error) {
      throw failureOf(error, 'bytecode', true);
    }
  }

  #takeRoom(program: DesiredProgram, maps: readonly MapHold[], room: MapRoom): void {
    const { id, namespace } = program;
    if (namespace === undefined) return;
    const key = unitKeyOf(program);
    this.#waiting.set(key, { id, maps });
    room.take(id, namespace, maps);
    this.#waiting.delete(key);
  }

  /** Loads programs together, no two of which have the same function. */
  #load(
    round: readonly DesiredProgram[],
    bytes: Uint8Array,
    sources: ReturnType<typeof mapSources> & { readonly sameLoad: readonly ProgramRecord[] },
    pass: LoadPass,
  ): readonly (FailedProgram | LoadedProgram)[] {
    const [first] = round;
    if (first === undefined) return [];
    const { owner: shown, namespace, globals } = first;
    const owner = this.#mapOwner(first, pass);
    const programs = round.map((program): Missing => {
      const { functionName, labelledType, attach } = program;
      const type = programTypeOf(attach);
      const place = this.#newPlace(program.id);
      const kernelFunction = kernelFunctionOf(attach);
      return { functionName, type, labelledType, kernelFunction, program, place };
    });
    const results: (FailedProgram | LoadedProgram)[] = [];
    try {
      const tenants = this.#tenants;
      const takeRoom = (maps: readonly MapHold[]): void => this.#takeRoom(first, maps, pass.room);
      const { programs: functions, failures } = loadObject(
        {
          ...{ shown, bytes, globals, programs },
          admission: namespace === undefined ? undefined : { rules: tenants, takeRoom },
        },
        {
          pins: this.#pins,
          sources: { ...sources, owner },
          directoryOf: ({ place }) => this.#pins.program(place),
          allOrNothing: first.allOrNothing,
        },
      );
      for (const [wanted, made] of functions) {
        this.#records.putInstructions(wanted.place, made.instructions);
        results.push(this.#keep(wanted.program, recordOf(wanted, made, owner), pass.room));
      }
      for (const [{ program }, error] of failures) results.push({ program, error });
      return results;
    } finally {
      const kept = new Set(results.flatMap((one) => ('record' in one ? [one.record.id] : [])));
      for (const { place } of programs)
        if (!kept.has(place.id)) this.#pins.removeProgram({ ...place, generation: String(place.generation) });
    }
  }

  /** Uses a loaded program in another place as well: with its own record and pins. */
  #copy(twin: ProgramRecord, program: DesiredProgram, room?: MapRoom): LoadedProgram {
    const place = this.#newPlace(program.id);
    const [from, to] = [this.#pins.program(twin), this.#pins.program(place)];
    const names = ['program', ...twin.maps.map(({ pin: name }) => join('maps', name))];
    for (const name of names) {
      using object = openPin(join(from, name));
      if (object !== undefined) pin(object.fd, join(to, name));
    }
    this.#records.putInstructions(place, this.#records.instructions(twin));
    return this.#keep(program, { ...twin, ...place, ...shownOf(program), attachKey: '' }, room);
  }

  /** Keeps a new version until it is attached; the running version continues until then. */
  #keep(program: DesiredProgram, record: ProgramRecord, room?: MapRoom): LoadedProgram {
    const { id, namespace } = record;
    if (room !== undefined && namespace !== undefined) room.take(id, namespace, holdsOf(record));
    const previous = this.#known.get(id);
    const loaded: LoadedProgram = { program, record, previous, lost: [] };
    if (previous === undefined) this.remember(record);
    else this.#next.set(id, loaded);
    return loaded;
  }

  /** Adds lost contents to the first of the programs that were loaded together, so that they are reported only once. */
  #reportLost(
    results: LoadedProgram[],
    at: number,
    { before, others }: Pick<ReturnType<typeof mapSources>, 'before' | 'others'>,
  ): void {
    const first = results[at];
    if (first === undefined) return;
    const now = results.map(({ record }) => record);
    const reported = { ...first, lost: lostContents(this.#pins, before, now, others) };
    results[at] = reported;
    if (this.#next.has(reported.record.id)) this.#next.set(reported.record.id, reported);
  }

  /** Checks a running program again, since it may have been loaded under other rules. @throws {ProgramFailure} `not-allowed` */
  checkAgain(record: ProgramRecord, room: MapRoom): void {
    const { id, type, namespace, tenant } = record;
    if (namespace === undefined || tenant === undefined) return;
    checkUses(this.#tenants, type, tenant);
    room.take(id, namespace, holdsOf(record));
  }

  /** Continues a loaded program under another id. */
  handOver(record: ProgramRecord, id: string): void {
    this.#known.delete(record.id);
    this.remember({ ...record, id });
  }

  /** Stores the record of a program as that of the running version. */
  remember(record: ProgramRecord): void {
    this.#records.putProgram(record);
    this.#known.set(record.id, record);
    if (this.#next.get(record.id)?.record.programId === record.programId) this.#next.delete(record.id);
  }

  #all(): readonly ProgramRecord[] {
    return [...this.#known.values(), ...[...this.#next.values()].map(({ record }) => record)];
  }

  /** The program in the kernel, if it is as desired. @throws {ProgramFailure} `map-owner-not-found`, `map-owner-not-loaded` */
  #stillExists(program: DesiredProgram, pass: LoadPass): LoadedProgram | undefined {
    const loadKey = loadKeyOf(program);
    const owner = program.blocked === undefined ? this.#mapOwner(program, pass) : undefined;
    const exists = (record: ProgramRecord): boolean =>
      record.loadKey === loadKey &&
      this.#isWhole(record) &&
      (owner === undefined || sharesMaps(record, owner));
    const known = this.#known.get(program.id);
    if (known !== undefined && exists(known)) {
      const renamed = { ...known, ...shownOf(program) };
      if (JSON.stringify(renamed) !== JSON.stringify(known)) this.remember(renamed);
      return { program, record: renamed, previous: undefined, lost: [] };
    }
    const next = this.#next.get(program.id);
    if (next === undefined || !exists(next.record)) return undefined;
    return { ...next, program, record: { ...next.record, ...shownOf(program) }, previous: known };
  }

  #isWhole(record: ProgramRecord): boolean {
    const directory = this.#pins.program(record);
    using program = openProgram(join(directory, 'program'), record.programId);
    if (program === undefined) return false;
    return record.maps.every(({ pin: name, id }) => {
      using map = openPin(join(directory, 'maps', name));
      return map !== undefined && mapInfo(map.fd).id === id;
    });
  }

  #newPlace(id: string): Place {
    const before = this.#known.get(id);
    const key = before?.key ?? keyOf(id);
    const generations = this.#pins.generations(key).map((generation) => Number(generation) || 0);
    return { id, key, generation: 1 + Math.max(0, before?.generation ?? 0, ...generations) };
  }

  /** The program whose maps it shares. @throws {ProgramFailure} `map-owner-not-found`, `map-owner-not-loaded` */
  #mapOwner(program: DesiredProgram, { desired, settled }: LoadPass): ProgramRecord | undefined {
    if (program.mapOwner === undefined) return undefined;
    const owner = desired.get(program.mapOwner);
    // A tenant must not learn about programs of others.
    if (owner === undefined || owner.namespace !== program.namespace) {
      const where = program.namespace === undefined ? 'cluster-scoped' : `in namespace ${program.namespace}`;
      throw new ProgramFailure(
        'map-owner-not-found',
        `There is no program ${program.mapOwner} to share maps with; it must be on this node and ${where}.`,
        true,
      );
    }
    const found = settled.get(owner.id);
    if (found !== undefined && 'maps' in found) return found;
    const why =
      found === undefined ? ': it is itself waiting for the maps of this program.' : `: ${found.message}`;
    throw new ProgramFailure(
      'map-owner-not-loaded',
      `${owner.owner}, whose maps it shares, is not loaded${why}`,
      true,
    );
  }

  /** Removes unwanted programs, and those left by an interrupted process. */
  sweep(wanted: ReadonlySet<string>, waiting: ReadonlySet<string>): void {
    for (const id of this.#known.keys()) if (!wanted.has(id)) this.#known.delete(id);
    for (const id of this.#next.keys()) if (!waiting.has(id)) this.#next.delete(id);
    const records = this.#all();
    const kept = new Set(records.map(({ key, generation }) => `${key}/${generation}`));
    for (const one of this.#pins.programs())
      if (!kept.has(`${one.key}/${one.generation}`)) this.#pins.removeProgram(one);
    this.#records.keepPrograms(records);
  }
}

/** The fields of a record that are not inputs of loading. */
function shownOf({ owner, name, source, attach, pod, container }: DesiredProgram) {
  return { owner, name, source, attachPoint: attachPoint(attach), pod, container };
}

function recordOf(
  { program, place, type }: Missing,
  { programId, gpl, hasFrags, maps, admitted }: LoadedFunction,
  owner: ProgramRecord | undefined,
): ProgramRecord {
  const { namespace, digest, functionName } = program;
  return {
    version: RECORD_VERSION,
    ...place,
    ...shownOf(program),
    ...{ namespace, digest, functionName, type },
    loadKey: loadKeyOf(program),
    attachKey: '',
    ...{ programId, gpl, hasFrags, maps },
    sharedWith: owner && { id: owner.id, programId: owner.programId },
    tenant: admitted,
    notes: [],
  };
}

/** Whether it still has its owner's maps: if the owner was loaded again, it may have new ones. */
function sharesMaps({ maps }: ProgramRecord, owner: ProgramRecord): boolean {
  return owner.maps.every((theirs) => {
    const own = maps.find((map) => !map.internal && nameOf(map) === nameOf(theirs));
    return theirs.internal || own === undefined || own.id === theirs.id;
  });
}
