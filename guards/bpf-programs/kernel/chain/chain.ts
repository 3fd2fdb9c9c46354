/** Makes one hook run its members in order, as one composed program that is replaced atomically. */
import { rmSync, renameSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

import { compareText } from '../../../../lib/output/compare-text.ts';
import { createPerCpuArray, type Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { mapInfo, programInfo } from '../info.ts';
import { openPin, pin } from '../pins/pin.ts';
import { granted, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import type { ChainHook, HookState, PutResult } from './chain-hook.ts';
import { ProgramFailure } from '../failure.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import { compose, type Composing } from './compose-members.ts';
import {
  type ChainRecord,
  type KeptMember,
  type ProgramRecord,
  RECORD_VERSION,
  type Records,
} from '../records.ts';
import type { ChainPlace, WantedMember } from './chain-member.ts';

export interface ChainResult {
  /** Why members cannot join the chain, keyed by the kernel's IDs of their programs. */
  readonly failures: ReadonlyMap<number, ProgramFailure>;
  /** The running versions, keyed by id: the requested or the previous one. */
  readonly running: ReadonlyMap<string, ProgramRecord>;
  /** Notes that apply to every running version. */
  readonly notes: readonly string[];
}

/** The minimum number of counters in the runs map, which take 512 bytes for each CPU. The map grows with the number of members. */
const MIN_SLOTS = 64;

/** Sorted by priority, then by name, so that the order of equal priorities does not depend on which came first. */
export function inOrder(members: readonly WantedMember[]): WantedMember[] {
  return members.toSorted(
    (a, b) =>
      a.priority - b.priority ||
      compareText(a.record.name, b.record.name) ||
      compareText(a.record.id, b.record.id),
  );
}

/** The members that can run: a refused one is replaced by its previous version, if it has one. */
function withoutRefused(
  members: readonly WantedMember[],
  failures: ChainResult['failures'],
): readonly WantedMember[] {
  return members.flatMap((member) => {
    const record = [member.record, member.fallback].find((one) => one && !failures.has(one.programId));
    return record === undefined ? [] : [{ ...member, record }];
  });
}

/** The chains of this host. A member that could not join is tried again only when the chain changes. */
export class Chains {
  readonly #pins: Pins;
  readonly #records: Records;
  readonly #known: Map<string, ChainRecord>;
  readonly #refused = new Map<
    string,
    { readonly wanted: string; readonly failures: ChainResult['failures'] }
  >();

  constructor(pins: Pins, records: Records) {
    this.#pins = pins;
    this.#records = records;
    this.#known = new Map(records.chains().map((record) => [record.key, record]));
  }

  get known(): ReadonlyMap<string, ChainRecord> {
    return this.#known;
  }

  /**
   * Makes the chain consist of these members. Call it inside `network.visit()` for the hook's namespace. Members that already run miss no
   * packet during the change.
   *
   * @throws {ProgramFailure} if the hook is not available: it applies to all members.
   * @throws {KernelRefusal}
   */
  settle(place: ChainPlace, members: readonly WantedMember[]): ChainResult {
    const before = this.#known.get(place.key);
    const state = place.hook.look(before?.madeQdisc ?? false);
    const wanted = JSON.stringify(
      members.map(({ record, fallback, proceedOn }) => [record.programId, fallback?.programId, proceedOn]),
    );
    const refused = this.#refused.get(place.key);
    const failures = new Map(refused?.wanted === wanted ? refused.failures : []);
    const joining = inOrder(withoutRefused(members, failures));
    const running = new Map(joining.map(({ record }) => [record.id, record]));
    const segmentsPath = join(this.#pins.chain(place.key), 'segments');
    if (before !== undefined && isSame(before, state, joining)) {
      // No packet can still be passing through the previous segments, which keep the maps of their members in memory.
      rmSync(`${segmentsPath}-old`, { force: true });
      this.#keep(place, before, before, joining);
      return { failures, running, notes: before.notes };
    }
    using runs = this.#runs(place.key, before, joining);
    const composing: Composing = {
      ...{ place, slots: runs.slots, runs: runs.map, pins: this.#pins },
      instructionsOf: (record, maps) => maps.resolve(record, this.#records),
    };
    using composed = compose(composing, joining);
    const { program, segments, members: joined, refused: more } = composed;
    for (const { record } of joining) {
      const failure = more.get(record.id);
      if (failure === undefined) continue;
      failures.set(record.programId, failure);
      running.delete(record.id);
    }
    if (failures.size > 0) this.#refused.set(place.key, { wanted, failures });
    else this.#refused.delete(place.key);
    // Some refused members have a previous version: start again with those, before anything is changed.
    if (withoutRefused(members, failures).length > joined.length) return this.settle(place, members);
    if (program === undefined) {
      this.remove(place.key, place.hook);
      return { failures, running, notes: [] };
    }
    // If a killed process has replaced the attached program but not yet the pin, the pinned program is not the attached one.
    const known = before?.programId === state.programId ? before?.programId : undefined;
    using old =
      known === undefined ? undefined : openProgram(join(this.#pins.chain(place.key), 'program'), known);
    // Left by a killed process: the attached program may use these segments.
    moveOver(`${segmentsPath}-next`, `${segmentsPath}-old`);
    if (segments !== undefined) pinOver(segments, `${segmentsPath}-next`);
    let put: PutResult;
    try {
      put = place.hook.put(program, state, old);
    } catch (error) {
      const newcomers = joined.filter(({ record }) => !before?.members.some(isOf(record)));
      const others = newcomers.length > 0 && newcomers.length < joined.length;
      if (!(error instanceof KernelRefusal) || state.programId === undefined || !others) throw error;
      // Continue with the chain that runs, without the new members.
      for (const { record } of newcomers)
        failures.set(record.programId, cannotJoinHook(place, record, error));
      this.#refused.set(place.key, { wanted, failures });
      return this.settle(place, members);
    }
    const notes = state.programId === undefined ? put.notes : (before?.notes ?? []);
    pinOver(program, join(this.#pins.chain(place.key), 'program'));
    // Packets may still be passing through the previous segments: they are kept until the next pass.
    moveOver(segmentsPath, `${segmentsPath}-old`);
    moveOver(`${segmentsPath}-next`, segmentsPath);
    const made = { programId: programInfo(program.fd).id, notes, madeQdisc: put.madeQdisc };
    this.#keep(place, { ...made, nextSlot: runs.nextSlot }, before, joined, runs.slots);
    return { failures, running, notes };
  }

  /** Removes the chain, during a visit of its network namespace; without `hook` if the namespace is gone. */
  remove(key: string, hook: ChainHook | undefined): void {
    const known = this.#known.get(key);
    // The chain in the other direction of the interface: whichever of the two is removed last removes the qdisc.
    const twin = [...this.#known.values()].find(
      (one) =>
        one.key !== key &&
        one.kind === 'tc' &&
        one.namespaceInode === known?.namespaceInode &&
        one.interfaceIndex === known.interfaceIndex,
    );
    const madeQdisc = known?.madeQdisc ?? false;
    hook?.take(madeQdisc && twin === undefined);
    if (madeQdisc && twin !== undefined) this.#put({ ...twin, madeQdisc });
    this.#pins.removeChain(key);
    this.#records.dropChain(key);
    this.#known.delete(key);
    this.#refused.delete(key);
  }

  #keep(
    place: ChainPlace,
    made: Pick<ChainRecord, 'madeQdisc' | 'nextSlot' | 'notes' | 'programId'>,
    before: ChainRecord | undefined,
    members: readonly WantedMember[],
    slots?: ReadonlyMap<string, number>,
  ): void {
    const record: ChainRecord = {
      version: RECORD_VERSION,
      key: place.key,
      kind: place.kind,
      ...place.where,
      members: members.map(({ record: { id, programId }, priority, proceedOn }): KeptMember => {
        const slot = slots?.get(id) ?? before?.members.find((one) => one.programId === programId)?.slot ?? 0;
        return { id, programId, priority, proceedOn, slot };
      }),
      nextSlot: made.nextSlot,
      programId: made.programId,
      notes: made.notes,
      madeQdisc: made.madeQdisc,
    };
    if (JSON.stringify(record) === JSON.stringify(before)) return;
    this.#put(record);
  }

  #put(record: ChainRecord): void {
    this.#records.putChain(record);
    this.#known.set(record.key, record);
  }

  /** The runs map, with a slot for each member: members that stay keep their slots. */
  #runs(key: string, before: ChainRecord | undefined, members: readonly WantedMember[]) {
    const path = join(this.#pins.chain(key), 'runs');
    const slots = new Map<string, number>();
    const kept = openPin(path);
    const capacity = kept === undefined ? 0 : mapInfo(kept.fd).valueSizeBytes / 8;
    let next = before?.nextSlot ?? 0;
    for (const { record } of members) {
      const mine = before?.members.find(({ programId }) => programId === record.programId);
      slots.set(record.id, mine?.slot ?? next++);
    }
    if (kept !== undefined && next <= capacity) return disposable(kept, slots, next);
    kept?.[Symbol.dispose]();
    members.forEach(({ record }, index) => slots.set(record.id, index));
    const size = 2 ** Math.ceil(Math.log2(Math.max(MIN_SLOTS, members.length * 2)));
    const made = granted(
      'cannot create the map that counts runs',
      createPerCpuArray(size * 8, 1, 'rampart_runs'),
    );
    pinOver(made, path);
    return disposable(made, slots, members.length);
  }
}

function disposable(map: Descriptor, slots: ReadonlyMap<string, number>, nextSlot: number) {
  return { map, slots, nextSlot, [Symbol.dispose]: () => map[Symbol.dispose]() };
}

const isOf =
  ({ programId }: ProgramRecord) =>
  (member: KeptMember): boolean =>
    member.programId === programId;

function cannotJoinHook({ hook }: ChainPlace, record: ProgramRecord, error: KernelRefusal): ProgramFailure {
  const tooLong = error.errno === constants.errno.ERANGE && !record.hasFrags;
  const next = tooLong
    ? ' Its MTU requires a program that supports multi-buffer packets: SEC("xdp.frags").'
    : '';
  const why = `It cannot join the chain on ${hook.shown}, which continues without it: ${error.message}.${next}`;
  return new ProgramFailure('attach', why, true, error);
}

function isSame(before: ChainRecord, state: HookState, members: readonly WantedMember[]): boolean {
  if (state.programId === undefined || state.programId !== before.programId) return false;
  const [have, want] = [before.members, members].map((list) => list.length);
  return (
    have === want &&
    members.every(({ record, proceedOn }, at) => {
      const kept = before.members[at];
      return kept?.programId === record.programId && kept.proceedOn === proceedOn;
    })
  );
}

/** Pins an eBPF object under a name that may be in use: rename(2) on bpffs is atomic. */
function pinOver(object: Descriptor, path: string): void {
  rmSync(`${path}-new`, { force: true });
  pin(object.fd, `${path}-new`);
  renameSync(`${path}-new`, path);
}

/** Does nothing if there is nothing to move. */
function moveOver(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
