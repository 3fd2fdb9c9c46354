/**
 * The watched files: what is in the kernel's map, and who asked for it.
 *
 * @module
 */
import type { BpfMap } from '../ebpf/map.ts';
import { errorCodes, RampartError } from '../observe/errors.ts';
import type { FileIdentity } from './access.ts';
import { target as targetLayout, targetKey } from './layout.ts';

/** Somebody who wants to know of accesses to a file; several may want the same file. */
export interface Watcher {
  /** From accessFilter: the accesses this watcher wants. */
  readonly filter: number;
}

/**
 * One file for as long as it is the same file: a recycled inode number starts another one. Its id
 * travels with each record and is never used again.
 */
interface Life<W extends Watcher> {
  readonly id: number;
  readonly identity: FileIdentity;
  readonly watchers: Set<W>;
}

const placeOf = (identity: FileIdentity): string => `${identity.inode}:${identity.device}`;
const lifeOf = (identity: FileIdentity): string => `${placeOf(identity)}:${identity.generation}`;

/**
 * Watched files, counted by watcher: a file stays in the kernel's map until its last watcher is
 * gone, and only differences are written.
 */
export class Targets<W extends Watcher> {
  /** Most files at a time. */
  readonly capacity: number;
  readonly #map: BpfMap;
  readonly #onGone: () => void;
  readonly #lives = new Map<string, Life<W>>();
  /** Which life the kernel's entry for an inode number and device belongs to. */
  readonly #inKernel = new Map<string, Life<W>>();
  readonly #byId = new Map<number, Life<W>>();
  #nextId = 1;

  /**
   * @param map - Of a loaded object: its size does not change any more.
   * @param onGone - Called before a watcher is forgotten, and after its file left the kernel's map
   *   when it was the last: what is in the ring until then still finds it.
   */
  constructor(map: BpfMap, onGone: () => void) {
    this.#map = map;
    this.capacity = map.maxEntries;
    this.#onGone = onGone;
  }

  /** Files in the kernel's map. */
  get size(): number {
    return this.#inKernel.size;
  }

  /**
   * Watches a file for `watcher`. Adding the same pair again changes nothing.
   *
   * @throws {RampartError} `LIMIT` naming the capacity when the map is full; nothing is changed then.
   */
  add(identity: FileIdentity, watcher: W): void {
    const key = lifeOf(identity);
    const known = this.#lives.get(key);
    if (known === undefined) {
      this.#lives.set(key, this.#begin(identity, watcher));
      return;
    }
    if (known.watchers.has(watcher)) return;
    const before = filterOf(known);
    known.watchers.add(watcher);
    if (filterOf(known) !== before) this.#write(known);
  }

  /** Ends the watch of `watcher` on a file; the last one takes the file out of the kernel. */
  delete(identity: FileIdentity, watcher: W): void {
    const life = this.#lives.get(lifeOf(identity));
    if (life === undefined || !life.watchers.has(watcher)) return;
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

  #begin(identity: FileIdentity, watcher: W): Life<W> {
    const life: Life<W> = { id: this.#nextId, identity, watchers: new Set([watcher]) };
    const place = placeOf(identity);
    if (this.#inKernel.size >= this.capacity && !this.#inKernel.has(place)) {
      throw new RampartError(errorCodes.LIMIT, {
        what: `cannot watch another file (inode ${identity.inode}, device ${identity.device})`,
        why: `the limit of ${this.capacity} watched files is reached`,
        next: 'Watch fewer files or raise the capacity',
      });
    }
    this.#put(life);
    this.#nextId += 1;
    this.#byId.set(life.id, life);
    this.#inKernel.set(place, life);
    return life;
  }

  #write(life: Life<W>): void {
    // An older life of the number no longer has the kernel's entry, or the entry is gone with the newer
    // one: its watchers wait to be told.
    if (this.#inKernel.get(placeOf(life.identity)) === life) this.#put(life);
  }

  #put(life: Life<W>): void {
    const { identity } = life;
    const value = new DataView(new ArrayBuffer(targetLayout.sizeBytes));
    value.setUint32(targetLayout.filter, filterOf(life), true);
    value.setUint32(targetLayout.generation, identity.generation, true);
    value.setUint32(targetLayout.id, life.id, true);
    this.#map.set(keyBytes(identity), new Uint8Array(value.buffer));
  }
}

function filterOf(life: Life<Watcher>): number {
  let filter = 0;
  for (const watcher of life.watchers) filter |= watcher.filter;
  return filter;
}

function keyBytes(identity: FileIdentity): Uint8Array {
  const key = new DataView(new ArrayBuffer(targetKey.sizeBytes));
  key.setBigUint64(targetKey.inode, identity.inode, true);
  key.setUint32(targetKey.device, identity.device, true);
  return new Uint8Array(key.buffer);
}
