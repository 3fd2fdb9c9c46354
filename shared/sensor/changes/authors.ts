/**
 * Who changed what in the last moments. Pure: time passes when {@link Authors.rotate} is called.
 *
 * A change is attributed only by what names it: its path, or the inode that was put into its directory. That a process changed
 * the directory alone says nothing about which name in it: several may be at work there.
 *
 * @module
 */
import { inotifyBits } from '../paths/inotify.ts';
import type { ByteString, ChangeProcess } from './change.ts';
import type { SeenChange } from './records.ts';

interface Trace {
  readonly number: number;
  readonly process: ChangeProcess;
  readonly atMs: number;
}

export interface Found {
  /** Who made the last change. */
  readonly author: ChangeProcess | undefined;
  /** When, ms since 1970; undefined without an author. */
  readonly atMs: number | undefined;
  /** How many other processes changed it. */
  readonly others: number;
}

/** What identifies an inode for as long as it lives. */
export interface InodeKey {
  readonly inode: bigint;
  readonly device: number;
  readonly generation: number;
}

const NAMES_COME_AND_GO =
  inotifyBits.CREATE | inotifyBits.DELETE | inotifyBits.MOVED_FROM | inotifyBits.MOVED_TO;
/** More than these and the older generation is let go early. */
const MOST_TRACES = 32_768;

export class Authors {
  #now = new Map<string, Trace[]>();
  #before = new Map<string, Trace[]>();
  #size = 0;
  #number = 0;

  /** Number of the last trace. What comes later has a higher one. */
  get last(): number {
    return this.#number;
  }

  /** Whether nothing is remembered. */
  get empty(): boolean {
    return this.#now.size === 0 && this.#before.size === 0;
  }

  /**
   * Remembers what was seen.
   *
   * @param directories - The paths that lead to its directory.
   */
  add(seen: SeenChange, directories: readonly ByteString[]): void {
    if (seen.process === undefined) return;
    this.#number += 1;
    const trace: Trace = { number: this.#number, process: seen.process, atMs: seen.atMs };
    for (const directory of directories) {
      if (seen.name !== undefined) this.#put(pathIn(directory, seen.name), trace);
      // An event names what came or went; the directory itself changed by that too.
      if (seen.name === undefined || seen.mask & NAMES_COME_AND_GO) this.#put(directory, trace);
    }
    if (seen.put !== undefined) this.#put(inodeText(seen.put, seen), trace);
    if (this.#size > MOST_TRACES) this.rotate();
  }

  /** Who changed a path since trace `since`, and who last. */
  of(path: ByteString, since: number): Found {
    let last: Trace | undefined;
    const processes = new Set<number>();
    for (const trace of this.#traces(path)) {
      if (trace.number <= since) continue;
      processes.add(trace.process.pid);
      if (last === undefined || trace.atMs >= last.atMs) last = trace;
    }
    return { author: last?.process, atMs: last?.atMs, others: Math.max(0, processes.size - 1) };
  }

  /**
   * Who put an inode under its new name, at `sinceMs` or later. Nobody when several processes named it: which of them made
   * which name is not known.
   */
  ofName(inode: InodeKey, sinceMs: number): Found {
    // Who made it did not rename it.
    for (const put of ['named', 'made'] as const) {
      const traces = this.#traces(inodeText(put, inode)).filter((trace) => trace.atMs >= sinceMs);
      const last = traces.at(-1);
      if (last === undefined) continue;
      const others = new Set(traces.map((trace) => trace.process.pid)).size - 1;
      if (others > 0) return { author: undefined, atMs: last.atMs, others: others + 1 };
      return { author: last.process, atMs: last.atMs, others: 0 };
    }
    return { author: undefined, atMs: undefined, others: 0 };
  }

  /** Forgets what was remembered before the call before this one. */
  rotate(): void {
    this.#before = this.#now;
    this.#now = new Map();
    this.#size = 0;
  }

  #traces(key: string): readonly Trace[] {
    const before = this.#before.get(key);
    const now = this.#now.get(key);
    return before === undefined ? (now ?? []) : now === undefined ? before : [...before, ...now];
  }

  #put(key: string, trace: Trace): void {
    const traces = this.#now.get(key);
    if (traces === undefined) this.#now.set(key, [trace]);
    else traces.push(trace);
    this.#size += 1;
  }
}

/** A name in a directory as a path. */
export function pathIn(directory: ByteString, name: ByteString): ByteString {
  return directory.endsWith('/') ? directory + name : `${directory}/${name}`;
}

/** No path begins like this. */
function inodeText(put: 'made' | 'named', { inode, device, generation }: InodeKey): string {
  return `\0${put}:${inode}:${device}:${generation}`;
}
