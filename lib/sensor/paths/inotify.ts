/**
 * Listeners for names in directories, over one inotify instance.
 *
 * Names are "byte strings": one character per byte (latin1), because a file name is bytes and need
 * not be UTF-8. {@link toByteString} makes one from a path.
 */
import { readFileSync } from 'node:fs';

import { pollReadable, type Poll } from '../../ebpf/ffi.ts';
import { inotifyAddWatch, inotifyInit, inotifyRemoveWatch, readAvailable, type Fd } from '../../ebpf/libc.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';

/** Event bits (include/uapi/linux/inotify.h). */
export const inotifyBits = {
  MODIFY: 0x2,
  ATTRIB: 0x4,
  CLOSE_WRITE: 0x8,
  MOVED_FROM: 0x40,
  MOVED_TO: 0x80,
  CREATE: 0x100,
  DELETE: 0x200,
  DELETE_SELF: 0x400,
  MOVE_SELF: 0x800,
  UNMOUNT: 0x2000,
  Q_OVERFLOW: 0x4000,
  IGNORED: 0x8000,
  ONLYDIR: 0x01000000,
  EXCL_UNLINK: 0x04000000,
  ISDIR: 0x40000000,
} as const;

/**
 * Events that change where a path leads:
 *
 * - CREATE, DELETE, MOVED_FROM, MOVED_TO: a name appears or goes: files, directories, symbolic and hard
 * links. A link is re-pointed only by one of these.
 * - ATTRIB: permissions of a directory decide whether the path can be resolved at all. The kernel also sends
 * it for the other files in the directory; those are dropped by their name.
 * - Not DELETE_SELF and MOVE_SELF: the directory above is watched too and reports the name; a watch that ends
 * with its directory always reports IGNORED.
 * - Not MODIFY, ACCESS, OPEN, CLOSE: they never change where a path leads.
 */
const WATCHED =
  inotifyBits.ATTRIB |
  inotifyBits.MOVED_FROM |
  inotifyBits.MOVED_TO |
  inotifyBits.CREATE |
  inotifyBits.DELETE |
  inotifyBits.ONLYDIR;

/** `sizeof(struct inotify_event)`: wd i32, mask u32, cookie u32, len u32; then `len` bytes of name. */
const HEADER_BYTES = 16;

/** One `struct inotify_event`. */
export interface InotifyEvent {
  /** Watch descriptor; -1 with Q_OVERFLOW. */
  readonly wd: number;
  readonly mask: number;
  readonly cookie: number;
  /** A byte string; empty when the event is about the watched directory itself. */
  readonly name: string;
}

/** A text as UTF-8 bytes, one character each. */
export function toByteString(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** The text of a byte string, for people; bytes that are not UTF-8 become U+FFFD. */
export function fromByteString(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

/** @throws {RampartError} `DECODE` when the bytes end within an event; the kernel only gives whole ones. */
export function decodeInotify(bytes: Uint8Array): InotifyEvent[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const events: InotifyEvent[] = [];
  let at = 0;
  while (at < buffer.byteLength) {
    const nameAt = at + HEADER_BYTES;
    const next = nameAt <= buffer.byteLength ? nameAt + buffer.readUInt32LE(at + 12) : Infinity;
    if (next > buffer.byteLength) {
      throw new RampartError(errorCodes.DECODE, {
        what: 'cannot decode inotify events',
        why: `the event at byte ${at} does not end within the ${buffer.byteLength} bytes read`,
      });
    }
    const nul = buffer.indexOf(0, nameAt); // the name is padded with NULs
    events.push({
      wd: buffer.readInt32LE(at),
      mask: buffer.readUInt32LE(at + 4),
      cookie: buffer.readUInt32LE(at + 8),
      name: buffer.toString('latin1', nameAt, nul >= 0 && nul < next ? nul : next),
    });
    at = next;
  }
  return events;
}

/** Called as soon as something has happened to a name; the listener looks up what. */
export interface Listener {
  touch(): void;
}

/** A directory under watch. `names` maps a name to its listeners; '' is the directory itself. */
export interface WatchedDirectory {
  readonly wd: number;
  readonly names: Map<string, Listener | Set<Listener>>;
}

export interface Interest {
  readonly directory: WatchedDirectory;
  readonly name: string;
}

const REPORT_PACE_MS = 60_000;

/** How often the kernel's queue of events was full, which costs only time: everything is looked up again. */
export class QueueOverflows {
  count = 0;
  #reportedMs = -Infinity;

  /** Counts one more. Returns the problem to report: once a minute, since an overflow rarely comes alone. */
  add(): RampartError | undefined {
    this.count += 1;
    const nowMs = performance.now();
    if (nowMs - this.#reportedMs < REPORT_PACE_MS) return undefined;
    this.#reportedMs = nowMs;
    return new RampartError(errorCodes.LIMIT, {
      what: 'events of followed paths were lost',
      why: "the kernel's queue of them was full",
      next: 'All paths are looked up again; raise fs.inotify.max_queued_events if this is repeated',
    });
  }
}

interface DirectoryWatchesOptions {
  /** Called after the listeners of one batch of events were touched. */
  readonly onBatch: () => void;
  /** The kernel's queue was full: any event may be missing. */
  readonly onOverflow: () => void;
  readonly onError: (error: RampartError) => void;
}

/** Directories under watch, shared by all listeners for names in them, and read on the event loop. */
export class DirectoryWatches implements Disposable {
  readonly #inotify: Fd;
  readonly #poll: Poll;
  readonly #buffer = new Uint8Array(64 * 1024);
  readonly #byWd = new Map<number, WatchedDirectory>();
  readonly #options: DirectoryWatchesOptions;
  #disposed = false;
  readonly #overflows = new QueueOverflows();
  events = 0;

  /** @throws {RampartError} `LIMIT` when the user has fs.inotify.max_user_instances already. */
  constructor(options: DirectoryWatchesOptions) {
    this.#options = options;
    this.#inotify = inotifyInit();
    this.#poll = pollReadable(this.#inotify.number, () => this.#read());
  }

  get size(): number {
    return this.#byWd.size;
  }

  get overflows(): number {
    return this.#overflows.count;
  }

  /**
   * Watches the directory behind an O_PATH descriptor. The caller adds a listener at once: a watch ends with its
   * last listener.
   *
   * @param shown - The path for the error message.
   * @throws {RampartError} `LIMIT` when fs.inotify.max_user_watches is reached, `SYSTEM` otherwise.
   */
  watch(directory: Fd, shown: string): WatchedDirectory {
    const wd = inotifyAddWatch(this.#inotify, directory, WATCHED, `the directory ${shown}`);
    let watched = this.#byWd.get(wd);
    if (watched === undefined) {
      watched = { wd, names: new Map() };
      this.#byWd.set(wd, watched);
    }
    return watched;
  }

  addInterest({ directory, name }: Interest, listener: Listener): void {
    const now = directory.names.get(name);
    if (now === undefined) directory.names.set(name, listener);
    else if (now instanceof Set) now.add(listener);
    else if (now !== listener) directory.names.set(name, new Set([now, listener]));
  }

  removeInterest({ directory, name }: Interest, listener: Listener): void {
    const now = directory.names.get(name);
    if (now instanceof Set) {
      now.delete(listener);
      if (now.size > 0) return;
    } else if (now !== listener) {
      return;
    }
    directory.names.delete(name);
    // A watch that the kernel ended is no longer in the map; its number may be another's by now.
    if (directory.names.size > 0 || this.#byWd.get(directory.wd) !== directory) return;
    this.#byWd.delete(directory.wd);
    inotifyRemoveWatch(this.#inotify, directory.wd);
  }

  #read(): void {
    try {
      // One buffer per turn: a directory that changes faster than events are read must not block the event loop.
      const length = readAvailable(this.#inotify, this.#buffer);
      for (const event of decodeInotify(this.#buffer.subarray(0, length))) this.#dispatch(event);
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#options.onError(error);
    }
    this.#options.onBatch();
  }

  #dispatch(event: InotifyEvent): void {
    this.events += 1;
    if (event.mask & inotifyBits.Q_OVERFLOW) {
      const problem = this.#overflows.add();
      if (problem !== undefined) this.#options.onError(problem);
      this.#options.onOverflow();
      return;
    }
    const directory = this.#byWd.get(event.wd);
    if (directory === undefined) return;
    // The directory or its filesystem (UNMOUNT comes first) is gone, and the watch with it.
    if (event.mask & inotifyBits.IGNORED) this.#byWd.delete(event.wd);
    const listeners = directory.names.get(event.name);
    if (listeners === undefined) return;
    if (listeners instanceof Set) for (const listener of listeners) listener.touch();
    else listeners.touch();
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#poll[Symbol.dispose]();
    this.#inotify[Symbol.dispose]();
    this.#byWd.clear();
  }
}

/** Half of the inotify watches that a user may have: the other half is for others. */
export function halfOfAllWatches(): number {
  try {
    return Math.floor(Number(readFileSync('/proc/sys/fs/inotify/max_user_watches', 'latin1')) / 2);
  } catch {
    return 4096; // half of what every kernel allows
  }
}
