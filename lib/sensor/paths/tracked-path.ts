/** A path, or the directory shared by several paths, which is resolved again after an event. */
import { constants as fsConstants } from 'node:fs';

import { Fd, fileTypeOf, type SystemCallError } from '../../ebpf/libc.ts';
import { RampartError } from '../../errors/errors.ts';
import {
  toByteString,
  type DirectoryWatches,
  type Interest,
  type Listener,
  type WatchedDirectory,
} from './inotify.ts';
import {
  readErrno,
  readOwnOfEach,
  readFile,
  type FileType,
  type Identify,
  type PathState,
  type Reading,
  type TrackedPath,
} from './path-state.ts';
import { tryOpenInRoot } from './resolve.ts';
import type { TrackedRoot } from './tracked-root.ts';
import { isLasting, walk, type WalkEnd, type WalkVisitor } from './walk.ts';

/** A watched directory, or undefined if it could not be watched. */
type Watched = WatchedDirectory | undefined;

/** Access to the tracker during a refresh. */
export interface RefreshContext {
  readonly watches: DirectoryWatches;
  readonly identify: Identify;
  readonly directories: boolean;
  /** The opened root, or why it cannot be opened; the tracker closes it. */
  openRoot(root: TrackedRoot): Fd | SystemCallError;
  /** For a failure that no event will end: refreshes `listener` again later, and reports `problem`. */
  retry(listener: Listener, problem?: RampartError): void;
}

const silence: readonly Interest[] = [];
const NO_FOLLOW = { noFollow: true } as const;

/** The watches of a listener. A refresh keeps those that are still needed, adds new ones and drops the rest. */
class Ear implements WalkVisitor<Watched> {
  readonly #listener: Listener;
  #old = silence;
  #new: Interest[] | undefined;
  #context: RefreshContext | undefined;

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  /** Runs `refresh`, then drops the watches that it did not request again. */
  renew<T>(context: RefreshContext, refresh: () => T): T {
    this.#context = context;
    try {
      return refresh();
    } finally {
      const now = this.#new ?? silence;
      for (const interest of this.#old) {
        if (!now.some((kept) => kept.directory === interest.directory && kept.name === interest.name)) {
          context.watches.removeInterest(interest, this.#listener);
        }
      }
      this.#old = now;
      this.#new = undefined;
    }
  }

  directory(fd: Fd, shown: string): Watched {
    const context = this.#context!;
    try {
      const directory = context.watches.watch(fd, shown);
      this.name(directory, '');
      return directory;
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      context.retry(this.#listener, error);
      return undefined;
    }
  }

  name(directory: Watched, name: string): void {
    if (directory === undefined) return;
    const interest = { directory, name };
    if (this.#new === undefined) this.#new = [interest];
    else this.#new.push(interest);
    this.#context!.watches.addInterest(interest, this.#listener);
  }

  /** Walks the path. A walk that fails for a temporary reason is scheduled again. */
  walk(fd: Fd, path: string): WalkEnd<Watched> | undefined {
    return this.attempt(() => walk<Watched>(fd, path, this));
  }

  attempt<T>(look: () => T): T | undefined {
    try {
      return look();
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#context!.retry(this.#listener, error);
      return undefined;
    }
  }
}

/**
 * The parent of a path and its last component; '' as name when only a whole walk can resolve it (a/.., a/,
 * /).
 */
export function splitPath(path: string): { readonly parent: string; readonly name: string } {
  const slash = path.lastIndexOf('/');
  const name = path.slice(slash + 1);
  return name === '' || name === '.' || name === '..'
    ? { parent: path, name: '' }
    : { parent: path.slice(0, slash + 1), name };
}

/** The tracked paths with the same parent (as a text); listens to every directory on the way to the parent. */
export class Folder implements Listener {
  readonly root: TrackedRoot;
  readonly parent: string;
  readonly entries = new Map<string, Entry>();
  /** The end of the walk to the parent; undefined if the walk failed. */
  end: WalkEnd<Watched> | undefined;
  readonly #ear = new Ear(this);
  readonly #dirty: Set<Folder>;

  constructor(root: TrackedRoot, parent: string, dirty: Set<Folder>) {
    this.root = root;
    this.parent = parent;
    this.#dirty = dirty;
  }

  touch(): void {
    this.#dirty.add(this);
  }

  /** Walks to the parent again. The entries must be refreshed afterwards. */
  refresh(context: RefreshContext): void {
    this.#ear.renew(context, () => {
      this.#ear.attempt(() => this.root.walkTo(this.#ear));
      const root = context.openRoot(this.root);
      this.end = root instanceof Fd ? this.#ear.walk(root, toByteString(this.parent)) : undefined;
    });
  }

  forget(context: RefreshContext): void {
    this.#ear.renew(context, () => undefined);
  }
}

/** One tracked path; listens to its name and, if that is a symbolic link, to the names on the way to its target. */
export class Entry implements Listener {
  readonly folder: Folder;
  readonly path: TrackedPath;
  readonly name: string;
  state: PathState | undefined;
  readonly #ear = new Ear(this);
  readonly #dirty: Set<Entry>;

  constructor(folder: Folder, path: TrackedPath, name: string, dirty: Set<Entry>) {
    this.folder = folder;
    this.path = path;
    this.name = toByteString(name);
    this.#dirty = dirty;
  }

  touch(): void {
    this.#dirty.add(this);
  }

  /** Returns where the path leads now. The folder must have been refreshed. */
  refresh(context: RefreshContext): PathState {
    const { state, transient } = this.#ear.renew(context, () => this.#read(context));
    if (transient) context.retry(this);
    return state;
  }

  #read(context: RefreshContext): Reading {
    const root = context.openRoot(this.folder.root);
    if (!(root instanceof Fd)) {
      return { state: { kind: 'unusable', error: root }, transient: !isLasting(root.number) };
    }
    const { path } = this.path;
    const { end } = this.folder;
    if (end?.ownOfEach) return readOwnOfEach(this.path, end.shown);
    if (this.name !== '') {
      // The listener is added before the look-up, so that no change can come in between.
      this.#ear.name(end?.directory, this.name);
      const number = tryOpenInRoot(root, path, NO_FOLLOW);
      if (number < 0) return readErrno(this.path, -number, this.#missing(), !isLasting(-number));
      const reading = this.#readAndClose(number, context, fsConstants.S_IFLNK);
      if (reading !== undefined) return reading;
    }
    const way = this.#ear.walk(root, toByteString(path));
    if (way?.ownOfEach) return readOwnOfEach(this.path, way.shown);
    const number = tryOpenInRoot(root, path);
    if (number < 0) return readErrno(this.path, -number, way?.absent ? way.shown : path, !isLasting(-number));
    return this.#readAndClose(number, context)!;
  }

  /** The file behind a descriptor; undefined if its type is `butNot`. */
  #readAndClose(number: number, context: RefreshContext, butNot?: FileType): Reading | undefined {
    const fd = new Fd(number);
    // Not `using`: that takes 1 µs for each file, and 10 µs until the code is optimized.
    try {
      const type = fileTypeOf(number);
      return type === butNot ? undefined : readFile(this.path, number, type, context);
    } finally {
      fd[Symbol.dispose]();
    }
  }

  /** The first path on the way that does not exist, when the path itself is not a link. */
  #missing(): string {
    const { end } = this.folder;
    if (end?.absent) return end.shown;
    const { path } = this.path;
    if (end?.directory === undefined) return path;
    return `${end.shown === '/' ? '' : end.shown}/${splitPath(path).name}`;
  }

  forget(context: RefreshContext): void {
    this.#ear.renew(context, () => undefined);
  }
}
