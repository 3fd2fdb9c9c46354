/** The watched directories: one inotify instance for all, and what the sensor knows of them. */
import { readdirSync, statfsSync } from 'node:fs';
import { type Poll, pollReadable } from '../../ebpf/ffi.ts';
import {
  AT_FDCWD,
  Fd,
  inotifyAddWatch,
  inotifyInit,
  inotifyRemoveWatch,
  openat2,
  openFlags,
  readAvailable,
  resolveFlags,
  SystemCallError,
  tryOpenat2,
} from '../../ebpf/libc.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import {
  decodeInotify,
  fromByteString,
  halfOfAllWatches,
  inotifyBits,
  type InotifyEvent,
} from '../paths/inotify.ts';
import type { ByteString, WatchOutcome } from './change.ts';
import type { ChangeSensor } from './change-sensor.ts';
import { PathTree } from './path-tree.ts';

/** EXCL_UNLINK: writes after a name was deleted are not changes of the name, which may be reused. */
const WATCHED =
  inotifyBits.MODIFY |
  inotifyBits.ATTRIB |
  inotifyBits.CLOSE_WRITE |
  inotifyBits.MOVED_FROM |
  inotifyBits.MOVED_TO |
  inotifyBits.CREATE |
  inotifyBits.DELETE |
  inotifyBits.DELETE_SELF |
  inotifyBits.MOVE_SELF |
  inotifyBits.EXCL_UNLINK |
  inotifyBits.ONLYDIR;

const READ_BYTES = 64 * 1024;
/** Limit of reads in one turn of the event loop: a process that changes files faster must not hold it up. */
const MAX_READS = 16;
const ENOENT = 2;
const ENOTDIR = 20;
const ELOOP = 40;

/** include/uapi/linux/magic.h */
const OVERLAYFS_MAGIC = 0x794c7630;

/** One directory; several paths may lead to it. */
export interface WatchedDirectory {
  readonly id: number;
  readonly wd: number;
  readonly paths: ByteString[];
  /** The directory's identity for the sensor; undefined if the sensor does not know it. */
  readonly identity: FileIdentity | undefined;
}

interface DirectoriesOptions {
  readonly root: string;
  /** Limit of watches; default half of fs.inotify.max_user_watches. */
  readonly maxWatches: number | undefined;
  readonly sensor: ChangeSensor | undefined;
  readonly onReadable: () => void;
  /** Called for an event in a directory or, with an empty name, of the directory itself; not for the end of a watch. */
  readonly onEvent: (directory: WatchedDirectory, event: InotifyEvent) => void;
  readonly onOverflow: () => void;
  readonly onProblem: (problem: unknown) => void;
}

export class Directories implements Disposable {
  readonly #options: DirectoriesOptions;
  readonly #root: Fd;
  readonly #inotify: Fd;
  readonly #maxWatches: number;
  readonly #buffer = new Uint8Array(READ_BYTES);
  readonly #byWd = new Map<number, WatchedDirectory>();
  readonly #byPath = new Map<ByteString, WatchedDirectory>();
  /** The same paths as a tree: moving a directory to and fro must not cost a walk over all directories. */
  readonly #tree = new PathTree();
  /** Directories that the sensor knows, keyed by id. */
  readonly #byId = new Map<number, WatchedDirectory>();
  /** Directories that are no longer watched, keyed by id: records of changes in them may still come. */
  readonly #gone = new Map<number, WatchedDirectory>();
  /** Whether a device is that of an overlay. Forgotten now and then, because device numbers are reused. */
  readonly #overlays = new Map<number, boolean>();
  readonly #unwatched = new PathTree();
  #poll: Poll | undefined;
  #nextId = 1;
  #withoutAuthors = 0;
  #reported = false;
  events = 0;
  overflows = 0;

  /** @throws {RampartError} `LIMIT` at fs.inotify.max_user_instances; `SYSTEM` when the root cannot be opened. */
  constructor(options: DirectoriesOptions) {
    this.#options = options;
    this.#maxWatches = options.maxWatches ?? halfOfAllWatches();
    this.#root = openat2(AT_FDCWD, options.root, { flags: openFlags.PATH | openFlags.DIRECTORY });
    try {
      this.#inotify = inotifyInit();
    } catch (error) {
      this.#root[Symbol.dispose]();
      throw error;
    }
  }

  get size(): number {
    return this.#byWd.size;
  }

  /** Directories that should be watched, but for which no watch was left. */
  get unwatched(): number {
    return this.#unwatched.size;
  }

  /** Watched directories whose changes have no author, because the sensor has no room for more. */
  get withoutAuthors(): number {
    return this.#withoutAuthors;
  }

  has(path: ByteString): boolean {
    return this.#byPath.has(path);
  }

  paths(): Iterable<ByteString> {
    return this.#byPath.keys();
  }

  /** The directory with this id, even for some time after its watch ended. */
  byId(id: number): WatchedDirectory | undefined {
    return this.#byId.get(id) ?? this.#gone.get(id);
  }

  /** Call it now and then: forgets directories whose watch ended. */
  forget(): void {
    this.#gone.clear();
    this.#overlays.clear();
  }

  /** Watching a directory again has no effect. `onWatched` gets the directories in it, once it is watched. */
  watch(path: ByteString, onWatched?: (subdirectories: ByteString[]) => void): WatchOutcome {
    const number = tryOpenBelow(this.#root, path, 'directory');
    if (number < 0) {
      this.unwatch(path);
      if (number === -ENOENT || number === -ENOTDIR || number === -ELOOP) return 'gone';
      this.#options.onProblem(new SystemCallError(`cannot watch ${fromByteString(path)}`, -number));
      return 'refused';
    }
    using fd = new Fd(number);
    const outcome = this.#watch(path, fd);
    if (outcome === 'watched' && onWatched !== undefined) onWatched(subdirectories(fd));
    return outcome;
  }

  #watch(path: ByteString, fd: Fd): WatchOutcome {
    const before = this.#byPath.get(path);
    if (before === undefined && this.#byWd.size >= this.#maxWatches) return this.#limit(path);
    let wd: number;
    try {
      wd = inotifyAddWatch(this.#inotify, fd, WATCHED, `the directory ${fromByteString(path)}`);
    } catch (error) {
      if (error instanceof RampartError && error.code === errorCodes.LIMIT) return this.#limit(path);
      this.#options.onProblem(error);
      return 'refused';
    }
    this.#unwatched.delete(path);
    if (before?.wd === wd) return 'watched';
    if (before !== undefined) this.unwatch(path);
    let watched = this.#byWd.get(wd);
    if (watched === undefined) {
      const id = this.#nextId++;
      // `[path]` takes little memory; an array that `push` enlarges has room for many.
      watched = { id, wd, paths: [path], identity: this.#addToSensor(fd, id) };
      this.#byWd.set(wd, watched);
      if (watched.identity !== undefined) this.#byId.set(id, watched);
    } else {
      watched.paths.push(path);
    }
    this.#byPath.set(path, watched);
    this.#tree.add(path);
    return 'watched';
  }

  #addToSensor(fd: Fd, id: number): FileIdentity | undefined {
    const { sensor } = this.#options;
    if (sensor === undefined) return undefined;
    try {
      const identity = sensor.identify(fd.number);
      sensor.add(identity, id);
      return identity;
    } catch (error) {
      this.#withoutAuthors += 1;
      this.#reportOnce(error);
      return undefined;
    }
  }

  #limit(path: ByteString): WatchOutcome {
    this.#unwatched.add(path);
    this.#reportOnce(
      new RampartError(errorCodes.LIMIT, {
        what: `cannot watch ${fromByteString(path)}, nor any directory after it`,
        why: `${this.#byWd.size} directories are watched, and the rest of fs.inotify.max_user_watches is reserved for other programs`,
        next: 'Raise fs.inotify.max_user_watches, or watch fewer directories',
      }),
    );
    return 'limit';
  }

  /** A limit affects thousands of directories; it is reported with the first. */
  #reportOnce(problem: unknown): void {
    if (this.#reported) return;
    this.#reported = true;
    this.#options.onProblem(problem);
  }

  /** Ends the watch of a path. Returns whether there was one. */
  unwatch(path: ByteString): boolean {
    this.#unwatched.delete(path);
    const directory = this.#byPath.get(path);
    if (directory === undefined) return false;
    this.#forgetPath(path);
    if (directory.paths.length > 1) {
      directory.paths.splice(directory.paths.indexOf(path), 1);
      return true;
    }
    this.#end(directory);
    inotifyRemoveWatch(this.#inotify, directory.wd);
    return true;
  }

  /** Ends the watches of a path and of all below it: what was there has moved. */
  unwatchBelow(path: ByteString): void {
    for (const one of this.#tree.below(path)) this.unwatch(one);
  }

  /** Call it when a directory has left its path: forgets it, and all below it, among those that could not be watched. */
  forgetUnwatched(path: ByteString): void {
    for (const one of this.#unwatched.below(path)) this.#unwatched.delete(one);
  }

  #forgetPath(path: ByteString): void {
    this.#byPath.delete(path);
    this.#tree.delete(path);
  }

  /** Whether the path is that of a directory now. */
  exists(path: ByteString): boolean {
    const number = tryOpenBelow(this.#root, path, 'directory');
    if (number < 0) return false;
    new Fd(number)[Symbol.dispose]();
    return true;
  }

  /**
   * The sensor's identity of what the path leads to, without following a symbolic link. Undefined if nothing
   * is there, and on overlay: for a name created there, the sensor sees inodes of the upper layer.
   */
  identify(path: ByteString): FileIdentity | undefined {
    const { sensor } = this.#options;
    if (sensor === undefined) return undefined;
    const number = tryOpenBelow(this.#root, path, 'any');
    if (number < 0) return undefined;
    using fd = new Fd(number);
    const identity = sensor.identify(fd.number);
    let isOverlay = this.#overlays.get(identity.device);
    if (isOverlay === undefined) {
      isOverlay = statfsSync(`/proc/self/fd/${fd.number}`).type === OVERLAYFS_MAGIC;
      this.#overlays.set(identity.device, isOverlay);
    }
    return isOverlay ? undefined : identity;
  }

  /** Whether `onReadable` is called. Under load it is cheaper to read at intervals without it. */
  set listening(listen: boolean) {
    if (listen === (this.#poll !== undefined)) return;
    if (listen) {
      this.#poll = pollReadable(this.#inotify.number, this.#options.onReadable);
    } else {
      this.#poll?.[Symbol.dispose]();
      this.#poll = undefined;
    }
  }

  /** Hands out the events that have come. Returns how many. */
  drain(): number {
    const before = this.events;
    try {
      for (let reads = 0; reads < MAX_READS; reads++) {
        const length = readAvailable(this.#inotify, this.#buffer);
        if (length === 0) break;
        for (const event of decodeInotify(this.#buffer.subarray(0, length))) this.#dispatch(event);
      }
    } catch (error) {
      this.#options.onProblem(error);
    }
    return this.events - before;
  }

  #dispatch(event: InotifyEvent): void {
    this.events += 1;
    if (event.mask & inotifyBits.Q_OVERFLOW) {
      this.overflows += 1;
      this.#options.onOverflow();
      return;
    }
    const directory = this.#byWd.get(event.wd);
    if (directory === undefined) return;
    if (event.mask & inotifyBits.IGNORED) {
      for (const path of directory.paths) this.#forgetPath(path);
      this.#end(directory);
      return;
    }
    this.#options.onEvent(directory, event);
  }

  #end(directory: WatchedDirectory): void {
    this.#byWd.delete(directory.wd);
    if (directory.identity === undefined) return;
    this.#options.sensor?.delete(directory.identity, directory.id);
    this.#byId.delete(directory.id);
    this.#gone.set(directory.id, directory);
  }

  [Symbol.dispose](): void {
    this.listening = false;
    this.#inotify[Symbol.dispose]();
    this.#root[Symbol.dispose]();
    this.#byWd.clear();
    this.#byPath.clear();
    this.#tree.clear();
    this.#byId.clear();
    this.#gone.clear();
    this.#unwatched.clear();
  }
}

/** An O_PATH descriptor that the caller closes, or the errno as a negative number. */
export function tryOpenBelow(root: Fd, path: ByteString, type: 'directory' | 'any'): number {
  return tryOpenat2(root, pathBytes(path), {
    flags: openFlags.PATH | openFlags.NOFOLLOW | (type === 'directory' ? openFlags.DIRECTORY : 0),
    resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
  });
}

/** A path for openat2(2): NUL-terminated. */
function pathBytes(path: ByteString): Uint8Array {
  return Buffer.from(`${path}\0`, 'latin1');
}

/** Lists through the descriptor: so it is the directory that is watched, wherever it may have moved. */
export function subdirectories(fd: Fd): ByteString[] {
  try {
    return readdirSync(`/proc/self/fd/${fd.number}`, { encoding: 'latin1', withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch {
    return []; // deleted meanwhile, which its parent reports
  }
}
