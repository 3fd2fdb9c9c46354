/** The watched files: those in the kernel's map, and the watchers of each. */
import { FixedBuffer } from '../ebpf/libc.ts';
import type { BpfMap } from '../ebpf/map.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { FileIdentity } from './access.ts';
import { monotonicNs } from './clock.ts';
import { target as targetLayout, targetKey } from './layout.ts';

/** A watcher of accesses to a file; several may watch the same file. */
export interface Watcher {
  /** From accessFilter: the accesses this watcher wants. */
  readonly filter: number;
}

/** The time that a file exists: when its inode number is recycled, a new life begins. Ids are never reused. */
interface Life<W extends Watcher> {
  readonly id: number;
  readonly identity: FileIdentity;
  readonly watchers: Set<W>;
}

/** How many files one system call adds. */
const BATCH = 1024;

const placeOf = (identity: FileIdentity): string => `${identity.inode}:${identity.device}`;
const lifeOf = (identity: FileIdentity): string => `${placeOf(identity)}:${identity.generation}`;

/** Watched files and their watchers: a file is in the kernel's map until its last watcher leaves; only differences are written. */
export class Targets<W extends Watcher> {
  readonly capacity: number;
  readonly #map: BpfMap;
  readonly #onGone: () => void;
  readonly #ids: { next: number };
  readonly #lives = new Map<string, Life<W>>();
  /** Which life the kernel's entry for an inode number and device belongs to. */
  readonly #inKernel = new Map<string, Life<W>>();
  readonly #byId = new Map<number, Life<W>>();
  /**
   * Watchers that left in the last seconds, with the time when each left (CLOCK_MONOTONIC, ns), keyed by target id. Those that left before
   * the last call of {@link forgetLeft} are in `#leftBefore`.
   */
  #left = new Map<number, Map<W, bigint>>();
  #leftBefore = new Map<number, Map<W, bigint>>();

  /**
   * @param map - Of a loaded object: its size is fixed.
   * @param onGone - Called before a watcher is forgotten, and, for the last one, after its file left the
   * kernel's map: records in the ring until then still find it.
   * @param ids - Shared by targets whose ids must differ.
   */
  constructor(map: BpfMap, onGone: () => void, ids = { next: 1 }) {
    this.#map = map;
    this.#ids = ids;
    this.capacity = map.maxEntries;
    this.#onGone = onGone;
  }

  get size(): number {
    return this.#inKernel.size;
  }

  /**
   * Watches a file for `watcher`. Adding the same pair again changes nothing.
   *
   * @throws {RampartError} `LIMIT` naming the capacity when the map is full; nothing is changed then.
   */
  add(identity: FileIdentity, watcher: W): void {
    this.#add(identity, watcher, (life) => this.#put(life));
  }

  /**
   * {@link Targets.add} for many: new files are put in the kernel's map together, before this returns.
   *
   * @returns for each of them in turn why it is not watched, undefined for those that are.
   */
  addAll(
    wanted: readonly { readonly identity: FileIdentity; readonly watcher: W }[],
  ): (RampartError | undefined)[] {
    const started: Life<W>[] = [];
    const failures: (RampartError | undefined)[] = [];
    const later = (life: Life<W>): void => {
      started.push(life);
    };
    for (const { identity, watcher } of wanted) {
      failures.push(failureOf(() => this.#add(identity, watcher, later)));
    }
    const failed = new Map<Life<W>, RampartError>();
    for (let from = 0; from < started.length; from += BATCH) {
      // If a newer life has the same inode number, that one is in the kernel.
      const lives = started.slice(from, from + BATCH).filter((life) => this.#isInKernel(life));
      if (this.#putAll(lives)) continue;
      for (const life of lives) {
        const failure = failureOf(() => this.#put(life));
        if (failure === undefined) continue;
        failed.set(life, failure);
        this.#inKernel.delete(placeOf(life.identity));
        this.#byId.delete(life.id);
      }
    }
    if (failed.size === 0) return failures;
    const reported = wanted.map(({ identity }, at) => {
      const life = this.#lives.get(lifeOf(identity));
      return failures[at] ?? (life && failed.get(life));
    });
    for (const { identity } of failed.keys()) this.#lives.delete(lifeOf(identity));
    return reported;
  }

  /** Call it when the filter of a watcher of this file has changed. */
  refresh(identity: FileIdentity): void {
    const life = this.#lives.get(lifeOf(identity));
    if (life !== undefined) this.#write(life);
  }

  /** Ends the watch of `watcher` on a file; the last one takes the file out of the kernel. */
  delete(identity: FileIdentity, watcher: W): void {
    const life = this.#lives.get(lifeOf(identity));
    if (life === undefined || !life.watchers.has(watcher)) return;
    this.#leave(life.id, watcher);
    if (life.watchers.size > 1) {
      this.#onGone();
      const before = filterOf(life);
      life.watchers.delete(watcher);
      if (filterOf(life) !== before) this.#write(life);
      return;
    }
    const place = placeOf(identity);
    if (this.#inKernel.get(place) === life) {
      this.#map.delete(keyBytes(identity));
      this.#inKernel.delete(place);
    }
    this.#onGone();
    this.#lives.delete(lifeOf(identity));
    this.#byId.delete(life.id);
  }

  /** Who watches the target a record names; empty for one that is gone. */
  watchersOf(targetId: number): Iterable<W> {
    return this.#byId.get(targetId)?.watchers ?? [];
  }

  /**
   * The watchers that the target had at this time, CLOCK_MONOTONIC. A file that is being deleted loses its
   * watchers before the kernel has finished the deletion and reported it.
   */
  watchersAt(targetId: number, ns: bigint): Iterable<W> {
    const watchers = new Set(this.watchersOf(targetId));
    for (const left of [this.#left, this.#leftBefore]) {
      for (const [watcher, untilNs] of left.get(targetId) ?? []) if (ns <= untilNs) watchers.add(watcher);
    }
    return watchers;
  }

  /** Forgets the watchers that left before the previous call. */
  forgetLeft(): void {
    this.#leftBefore = this.#left;
    if (this.#left.size > 0) this.#left = new Map();
  }

  #leave(id: number, watcher: W): void {
    const left = this.#left.get(id);
    if (left === undefined) this.#left.set(id, new Map([[watcher, monotonicNs()]]));
    else left.set(watcher, monotonicNs());
  }

  /** @param put - Puts a new life into the kernel's map, now or later. Not used if it replaces another life: that is done immediately. */
  #add(identity: FileIdentity, watcher: W, put: (life: Life<W>) => void): void {
    const key = lifeOf(identity);
    const known = this.#lives.get(key);
    if (known === undefined) {
      this.#lives.set(key, this.#begin(identity, watcher, put));
      return;
    }
    if (known.watchers.has(watcher)) return;
    const before = filterOf(known);
    known.watchers.add(watcher);
    if (filterOf(known) !== before) this.#write(known);
  }

  #begin(identity: FileIdentity, watcher: W, put: (life: Life<W>) => void): Life<W> {
    const life: Life<W> = { id: this.#ids.next, identity, watchers: new Set([watcher]) };
    const place = placeOf(identity);
    if (this.#inKernel.size >= this.capacity && !this.#inKernel.has(place)) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `cannot watch another file (inode ${identity.inode}, device ${identity.device})`,
        why: `the limit of ${this.capacity} watched files is reached`,
        next: 'Watch fewer files or raise the capacity',
      });
    }
    if (this.#inKernel.has(place)) this.#put(life);
    else put(life);
    this.#ids.next += 1;
    this.#byId.set(life.id, life);
    this.#inKernel.set(place, life);
    return life;
  }

  #write(life: Life<W>): void {
    // An older life of the same inode number has no entry in the kernel: the newer one took it, and may have
    // removed it. Its watchers only wait to be told that it is gone.
    if (this.#isInKernel(life)) this.#put(life);
  }

  #isInKernel(life: Life<W>): boolean {
    return this.#inKernel.get(placeOf(life.identity)) === life;
  }

  #put(life: Life<W>): void {
    this.#map.set(keyBytes(life.identity), valueBytesOf(life));
  }

  /** Whether all of them are in the kernel's map now. */
  #putAll(lives: readonly Life<W>[]): boolean {
    if (lives.length < 2) return false;
    const keys = new FixedBuffer(lives.length * targetKey.sizeBytes);
    const values = new FixedBuffer(lives.length * targetLayout.sizeBytes);
    for (const [at, life] of lives.entries()) {
      keys.bytes.set(keyBytes(life.identity), at * targetKey.sizeBytes);
      values.bytes.set(valueBytesOf(life), at * targetLayout.sizeBytes);
    }
    return this.#map.setAll(keys, values, lives.length);
  }
}

function filterOf(life: Life<Watcher>): number {
  let filter = 0;
  for (const watcher of life.watchers) filter |= watcher.filter;
  return filter;
}

/** The error of the action; undefined if it succeeded. */
function failureOf(action: () => void): RampartError | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    if (error instanceof RampartError) return error;
    throw error;
  }
}

/** Buffers that all calls share: allocating them takes longer than the kernel needs for an entry. */
const keyOfCall = new Uint8Array(targetKey.sizeBytes);
const key = new DataView(keyOfCall.buffer);
const valueBytes = new Uint8Array(targetLayout.sizeBytes);
const value = new DataView(valueBytes.buffer);

/** Valid until the next call. */
function valueBytesOf(life: Life<Watcher>): Uint8Array {
  value.setUint32(targetLayout.filter, filterOf(life), true);
  value.setUint32(targetLayout.generation, life.identity.generation, true);
  value.setUint32(targetLayout.id, life.id, true);
  return valueBytes;
}

/** Valid until the next call. */
function keyBytes(identity: FileIdentity): Uint8Array {
  key.setBigUint64(targetKey.inode, identity.inode, true);
  key.setUint32(targetKey.device, identity.device, true);
  return keyOfCall;
}
