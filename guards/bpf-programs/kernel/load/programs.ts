/**
 * The loaded programs, each loaded alone and pinned with its maps; unchanged ones stay, changed ones are loaded beside them.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { openPin } from '../pins/pin.ts';
import { attachPoint } from '../attach-point.ts';
import type { Attach, DesiredProgram, Outcome } from '../desired.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { loadAlone, type SharedMap } from './load-alone.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import { keyOf, RECORD_VERSION, type ProgramRecord, type Records } from '../records.ts';
import { MapRoom } from '../tenant/map-room.ts';
import { checkUses, type TenantRules } from '../tenant/rules.ts';

/** A program that is desired and loaded. */
export interface LoadedProgram {
  readonly program: DesiredProgram;
  readonly record: ProgramRecord;
  /** The program that it replaces: still attached, until the sweep. */
  readonly previous: ProgramRecord | undefined;
}

export class Programs {
  readonly #pins: Pins;
  readonly #records: Records;
  readonly #tenants: TenantRules;
  readonly #known = new Map<string, ProgramRecord>();
  /** Memory for maps, by id, of programs that had no room: until there is some, their bytecode is not read again. */
  readonly #waiting = new Map<string, { readonly loadKey: string; readonly mapBytes: number }>();

  /** Adopts those whose pins exist. */
  constructor(pins: Pins, records: Records, tenants: TenantRules) {
    this.#pins = pins;
    this.#records = records;
    this.#tenants = tenants;
    for (const record of records.programs()) {
      using program = openProgram(join(pins.program(record), 'program'), record.programId);
      if (program !== undefined) this.#known.set(record.id, record);
    }
  }

  get known(): ReadonlyMap<string, ProgramRecord> {
    return this.#known;
  }

  /** What namespaces have left for maps when only these stay. */
  mapRoom(desired: ReadonlyMap<string, DesiredProgram>): MapRoom {
    for (const id of this.#waiting.keys()) if (!desired.has(id)) this.#waiting.delete(id);
    return new MapRoom(
      this.#tenants,
      [...this.#known.values()].filter(({ id }) => desired.has(id)),
    );
  }

  /**
   * Loads it unless it is already in the kernel as desired.
   *
   * @param outcomes - Of those before it.
   * @param room - Of {@link mapRoom}.
   * @throws {ProgramFailure}
   */
  async ensureLoaded(
    program: DesiredProgram,
    desired: ReadonlyMap<string, DesiredProgram>,
    outcomes: ReadonlyMap<string, Outcome>,
    room: MapRoom,
  ): Promise<LoadedProgram> {
    const before = this.#known.get(program.id);
    const owner = this.#mapOwner(program, desired, outcomes);
    const loadKey = loadKeyOf(program);
    const current = this.#stillThere(before, loadKey, owner);
    const tenants = this.#tenants;
    if (current !== undefined) {
      this.checkAgain(current, room);
      const renamed = {
        ...current,
        owner: program.owner,
        name: program.name,
        attachPoint: attachPoint(program.attach),
      };
      if (JSON.stringify(renamed) === JSON.stringify(current))
        return { program, record: current, previous: undefined };
      this.remember(renamed);
      return { program, record: renamed, previous: undefined };
    }
    const takeRoom = (mapBytes: number): void => {
      if (program.namespace === undefined) return;
      this.#waiting.set(program.id, { loadKey, mapBytes });
      room.take(program.id, program.namespace, mapBytes);
      this.#waiting.delete(program.id);
    };
    const waiting = this.#waiting.get(program.id);
    if (waiting?.loadKey === loadKey) takeRoom(waiting.mapBytes);
    let bytes: Uint8Array;
    try {
      bytes = await program.bytecode();
    } catch (error) {
      throw failureOf(error, 'bytecode', true);
    }
    const { attach, owner: shown, name, namespace, digest, functionName, globals } = program;
    const key = before?.key ?? keyOf(program.id);
    const generation = 1 + Math.max(0, before?.generation ?? 0, ...this.#generations(key));
    const place = { id: program.id, key, generation };
    const shared = this.#sharedMaps(owner);
    try {
      const alone = loadAlone(
        {
          ...{ shown, bytes, functionName, globals },
          type: attach.type,
          kernelFunction: kernelFunctionOf(attach),
          admission: namespace === undefined ? undefined : { rules: tenants, takeRoom },
        },
        shared,
        this.#pins.program(place),
      );
      const record: ProgramRecord = {
        version: RECORD_VERSION,
        ...place,
        owner: shown,
        ...{ name, namespace, digest, functionName, loadKey },
        type: attach.type,
        attachKey: '',
        attachPoint: attachPoint(attach),
        programId: alone.programId,
        gpl: alone.gpl,
        hasFrags: alone.hasFrags,
        sharedWith: owner && { id: owner.id, programId: owner.programId },
        maps: alone.maps,
        tenant: alone.admitted,
        notes: [],
      };
      this.remember(record, alone.instructions);
      return { program, record, previous: before };
    } catch (error) {
      this.#pins.removeProgram({ key, generation: String(generation) });
      throw error;
    } finally {
      for (const { map } of shared) map[Symbol.dispose]();
    }
  }

  /** It may have been loaded by other rules. @throws {ProgramFailure} `not-allowed` */
  checkAgain({ id, type, namespace, tenant }: ProgramRecord, room: MapRoom): void {
    if (namespace === undefined || tenant === undefined) return;
    checkUses(this.#tenants, type, tenant);
    room.take(id, namespace, tenant.mapBytes);
  }

  /** What was loaded for one id continues for another one. */
  handOver(record: ProgramRecord, id: string): void {
    this.#known.delete(record.id);
    this.remember({ ...record, id });
  }

  /** Stores the record of a program. */
  remember(record: ProgramRecord, instructions?: Parameters<Records['putProgram']>[1]): void {
    this.#records.putProgram(record, instructions);
    this.#known.set(record.id, record);
  }

  /** The program in the kernel, if it is the desired one. */
  #stillThere(
    record: ProgramRecord | undefined,
    loadKey: string,
    owner: ProgramRecord | undefined,
  ): ProgramRecord | undefined {
    if (record?.loadKey !== loadKey || record.sharedWith?.programId !== owner?.programId) return undefined;
    using program = openProgram(join(this.#pins.program(record), 'program'), record.programId);
    if (program === undefined) return undefined;
    for (const { pin } of record.maps) {
      using map = openPin(join(this.#pins.program(record), 'maps', pin));
      if (map === undefined) return undefined;
    }
    return record;
  }

  #generations(key: string): readonly number[] {
    return this.#pins
      .programs()
      .filter((one) => one.key === key)
      .map(({ generation }) => Number(generation) || 0);
  }

  /** The program whose maps it shares. @throws {ProgramFailure} `map-owner-not-found`, `map-owner-not-loaded` */
  #mapOwner(
    program: DesiredProgram,
    desired: ReadonlyMap<string, DesiredProgram>,
    outcomes: ReadonlyMap<string, Outcome>,
  ): ProgramRecord | undefined {
    if (program.mapOwner === undefined) return undefined;
    const owner = desired.get(program.mapOwner);
    // A tenant is not told of another one's programs.
    if (owner === undefined || owner.namespace !== program.namespace) {
      const where = program.namespace === undefined ? 'cluster-scoped' : `in namespace ${program.namespace}`;
      throw new ProgramFailure(
        'map-owner-not-found',
        `There is no program ${program.mapOwner} to share maps with; it must be on this node and ${where}.`,
        true,
      );
    }
    const record = this.#known.get(owner.id);
    const outcome = outcomes.get(owner.id);
    if (outcome?.state !== 'failed' && record?.loadKey === loadKeyOf(owner)) return record;
    const why =
      outcome?.state === 'failed'
        ? `: ${outcome.message}`
        : ': it is itself waiting for the maps of this program.';
    throw new ProgramFailure(
      'map-owner-not-loaded',
      `${owner.owner}, whose maps it shares, is not loaded${why}`,
      true,
    );
  }

  #sharedMaps(owner: ProgramRecord | undefined): readonly SharedMap[] {
    if (owner === undefined) return [];
    return owner.maps.flatMap(({ name, internal, pin }) => {
      if (internal) return [];
      const map = openPin(join(this.#pins.program(owner), 'maps', pin));
      return map === undefined ? [] : [{ name, owner: owner.owner, map }];
    });
  }

  /** Removes those that nobody requests any more, and what an interrupted process left behind. */
  sweep(wanted: ReadonlySet<string>): void {
    for (const { id } of this.#known.values()) if (!wanted.has(id)) this.#known.delete(id);
    const kept = new Set<string>();
    for (const { key, generation } of this.#known.values()) kept.add(`${key}/${generation}`);
    for (const one of this.#pins.programs())
      if (!kept.has(`${one.key}/${one.generation}`)) this.#pins.removeProgram(one);
    this.#records.keepPrograms(this.#known);
  }
}

/** Everything that a program in the kernel was made from. Another priority or attach point needs no new program. */
export function loadKeyOf({ attach, digest, functionName, globals, mapOwner }: DesiredProgram): string {
  const kernelFunction = kernelFunctionOf(attach) ?? '';
  const values = Object.keys(globals)
    .toSorted()
    .map((name) => [name, Buffer.from(globals[name] ?? []).toString('hex')]);
  const parts = [attach.type, kernelFunction, digest, functionName, values, mapOwner];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

function kernelFunctionOf(attach: Attach): string | undefined {
  return attach.type === 'fentry' || attach.type === 'fexit' ? attach.functionName : undefined;
}

/** Each after the one whose maps it shares; a cycle is cut somewhere. */
export function ownersFirst(
  desired: readonly DesiredProgram[],
  byId: ReadonlyMap<string, DesiredProgram>,
): readonly DesiredProgram[] {
  const sorted = new Set<DesiredProgram>();
  const visiting = new Set<DesiredProgram>();
  const visit = (program: DesiredProgram): void => {
    if (visiting.has(program)) return;
    visiting.add(program);
    const owner = program.mapOwner === undefined ? undefined : byId.get(program.mapOwner);
    if (owner !== undefined) visit(owner);
    sorted.add(program);
  };
  for (const program of desired) visit(program);
  return [...sorted];
}
