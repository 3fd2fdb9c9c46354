/**
 * Looks up the files in followed directories: all their names, a slice at a time, and single names that events are about.
 * At each look-up the directory is resolved inside its root (resolve.ts) and must be the watched one: another one may have taken its
 * path.
 */
import { constants as fsConstants, opendirSync } from 'node:fs';

import { Fd, fileTypeOf, openFlags, resolveFlags, SystemCallError, tryOpenat2 } from '../../ebpf/libc.ts';
import { RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import type { DirectoryLinks } from './directory-links.ts';
import { DirectoryNode } from './directory-tree.ts';
import type { TreeWatches } from './directory-watches.ts';
import { fromByteString, toByteString } from './inotify.ts';
import { isOfKernel } from './kernel-file-systems.ts';
import type { FileType, Identify } from './path-state.ts';
import { SlicedWork } from './sliced-work.ts';
import type { Tracked } from './tracked-directory.ts';
import { isLasting } from './walk.ts';

interface DirectoryReaderOptions {
  readonly identify: Identify;
  readonly watches: TreeWatches;
  readonly links: DirectoryLinks;
  /** A root for the caller to dispose, or why it cannot be opened. */
  readonly openRoot: (root: string) => Fd | SystemCallError;
  /** The tracked directory that a node belongs to; undefined if it is no longer followed. */
  readonly trackedOf: (node: DirectoryNode) => Tracked | undefined;
  /** Called after look-ups: the state of the directory may have changed. */
  readonly onLooked: (tracked: Tracked) => void;
  /** The kernel's queue was full: any event may be missing. */
  readonly onOverflow: () => void;
  /** The directory could not be read, or not all of it: add it again later. */
  readonly onFailed: (node: DirectoryNode) => void;
}

export class DirectoryReader implements Disposable {
  readonly #options: DirectoryReaderOptions;
  readonly #toRead: SlicedWork<DirectoryNode>;
  /** The names that events are about; true: a directory was moved there. */
  readonly #touched = new Map<DirectoryNode, Map<string, boolean>>();
  /** The roots that are open until the end of the current call. */
  readonly #roots = new Map<string, Fd | SystemCallError>();

  constructor(options: DirectoryReaderOptions) {
    this.#options = options;
    this.#toRead = new SlicedWork({
      start: (node) => {
        const tracked = options.trackedOf(node);
        return tracked && this.#reading(tracked, node);
      },
      onDone: (node) => this.#isRead(node),
    });
  }

  get isDone(): boolean {
    return this.#toRead.isDone;
  }

  /** Begins to follow a directory that is under watch. */
  register(node: DirectoryNode): void {
    this.#options.watches.register(node);
    const tracked = this.#options.trackedOf(node);
    if (tracked !== undefined) tracked.unread += 1;
    this.#toRead.add(node);
  }

  /** Stops following a directory, and ends its watch. */
  forget(node: DirectoryNode): void {
    this.#toRead.delete(node);
    this.#isRead(node);
    this.#touched.delete(node);
    this.#options.watches.forget(node);
  }

  /** Requests that a directory is read again. */
  add(node: DirectoryNode): void {
    this.#toRead.add(node);
  }

  /** Reads until a time of `performance.now()`, or until all is read. */
  run(untilMs: number): void {
    this.#toRead.run(untilMs);
  }

  /** Looks up the names of events that have come. */
  readEvents(): void {
    this.#options.watches.drain({
      onName: (node, name, isMoved) => {
        const names = this.#touched.get(node);
        if (names === undefined) this.#touched.set(node, new Map([[name, isMoved]]));
        else names.set(name, isMoved);
      },
      onOverflow: this.#options.onOverflow,
    });
    this.#lookAtTouched();
  }

  /** The directory that the path of a tracked directory leads to, for the caller to dispose. */
  openBase(tracked: Tracked): Fd | undefined {
    const number = this.#openPath(tracked, toByteString(tracked.options.path));
    return number < 0 ? undefined : new Fd(number);
  }

  /** Call it at the end of a call: the next one opens the roots again, see TrackedRoot. */
  closeRoots(): void {
    for (const root of this.#roots.values()) if (root instanceof Fd) root[Symbol.dispose]();
    this.#roots.clear();
  }

  #isRead(node: DirectoryNode): void {
    if (node.isRead) return;
    node.isRead = true;
    const tracked = this.#options.trackedOf(node);
    if (tracked === undefined) return;
    tracked.unread -= 1;
    this.#options.onLooked(tracked);
  }

  #openPath({ root }: Tracked, path: string, flags = 0): number {
    let fd = this.#roots.get(root);
    if (fd === undefined) this.#roots.set(root, (fd = this.#options.openRoot(root)));
    if (fd instanceof SystemCallError) return -fd.number;
    return tryOpenat2(fd, bytesOf(path), {
      flags: openFlags.PATH | openFlags.DIRECTORY | flags,
      resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
    });
  }

  /** The directory of a node, if it still is the one under watch; the caller disposes it. */
  #open(tracked: Tracked, node: DirectoryNode): Fd | undefined {
    const { path } = node;
    const number = this.#openPath(tracked, path, node.parent === undefined ? 0 : openFlags.NOFOLLOW);
    if (number < 0) {
      if (!isLasting(-number)) this.#options.onFailed(node);
      return undefined;
    }
    const fd = new Fd(number);
    if (this.#options.watches.is(fd, node, fromByteString(path))) return fd;
    fd[Symbol.dispose]();
    return undefined;
  }

  /** Reads a directory: looks up all its names, and removes entries whose names are gone. Each name is a step. */
  *#reading(tracked: Tracked, node: DirectoryNode): Generator<void> {
    const { tree } = tracked;
    const { onLooked, onFailed } = this.#options;
    using directory = this.#open(tracked, node);
    // A missing one is reported by its parent directory.
    if (directory === undefined) return;
    const seen = (node.seen = new Set<string>());
    tree.resetCounts(node);
    onLooked(tracked);
    try {
      // Byte strings, see inotify.ts.
      using names = opendirSync(`/proc/self/fd/${directory.number}`, { encoding: 'latin1', bufferSize: 256 });
      for (let entry = names.readSync(); entry !== null; entry = names.readSync()) {
        const { name } = entry;
        // There is no room for the file: it is counted without being opened.
        if (tree.isFull && entry.isFile() && !node.entries.has(name)) tree.countFile(node, 1);
        else this.#look(tracked, node, directory, name, false);
        if (node.entries.has(name)) seen.add(name);
        yield;
        onLooked(tracked);
      }
      for (const name of node.entries.keys()) if (!seen.has(name)) tree.remove(node, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).errno === undefined) throw error;
      onFailed(node);
    } finally {
      node.seen = undefined;
    }
  }

  /**
   * Looks up one name.
   *
   * @param isMoved - A directory that is already watched may have been moved here.
   * @returns whether something is there, or it cannot be determined.
   */
  #look(tracked: Tracked, node: DirectoryNode, directory: Fd, name: string, isMoved: boolean): boolean {
    const { tree, root } = tracked;
    const { identify, links, onFailed } = this.#options;
    const number = tryOpenat2(directory, bytesOf(name), { flags: openFlags.PATH | openFlags.NOFOLLOW });
    if (number < 0) {
      if (isLasting(-number)) return false;
      onFailed(node);
      return true;
    }
    using fd = new Fd(number);
    let type: FileType;
    let identity: FileIdentity;
    try {
      type = fileTypeOf(number);
      identity = identify(number, type);
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      onFailed(node);
      return true;
    }
    if (type === fsConstants.S_IFLNK) {
      const link = tree.putLink(node, name);
      if (link !== undefined) links.follow(root, { node, name, link });
      return true;
    }
    const isDirectory = type === fsConstants.S_IFDIR && tracked.options.recursive;
    if (type !== fsConstants.S_IFREG && !isDirectory) {
      tree.remove(node, name);
      return true;
    }
    if (isDirectory) this.#enter(tracked, node, fd, name, identity, isMoved);
    else tree.putFile(node, name, identity);
    return true;
  }

  #enter(
    { tree }: Tracked,
    node: DirectoryNode,
    fd: Fd,
    name: string,
    identity: FileIdentity,
    isMoved: boolean,
  ): void {
    const { watches, onFailed } = this.#options;
    if (identity.device !== node.identity.device && isOfKernel(fd)) {
      tree.remove(node, name);
      return;
    }
    const before = node.entries.get(name);
    const wd = watches.watch(fd, fromByteString(`${node.path}/${name}`));
    if (wd === undefined) {
      tree.remove(node, name);
      tree.countDirectory(node, 1);
      onFailed(node);
      return;
    }
    if (before instanceof DirectoryNode && before.wd === wd) return;
    const moved = isMoved ? watches.nodeOf(wd, tree) : undefined;
    if (moved?.parent !== undefined && !isBelow(node, moved)) {
      tree.moveDirectory(moved, node, name);
      // Links in the moved directory are followed by their paths, and changes in it meanwhile could not be looked up.
      for (const one of tree.nodes(moved)) this.#toRead.add(one);
      return;
    }
    const child = new DirectoryNode(tree, { parent: node, name }, wd, identity);
    // Registered before the replaced directory drops its watches, some of which may be the same.
    this.register(child);
    tree.putDirectory(node, name, child);
  }

  /** New names first, then gone ones: a file that was only renamed keeps its identity. */
  #lookAtTouched(): void {
    const { trackedOf, onLooked, onFailed } = this.#options;
    const gone: [DirectoryNode, string][] = [];
    for (const [node, names] of this.#touched) {
      const tracked = trackedOf(node);
      using directory = tracked && this.#open(tracked, node);
      if (tracked === undefined || directory === undefined) continue;
      onLooked(tracked);
      for (const [name, isMoved] of names) {
        // The file may be one of those that are only counted: their names are not kept.
        if (node.unwatchedFiles > 0 && tracked.tree.isFull && !node.entries.has(name)) onFailed(node);
        else if (!this.#look(tracked, node, directory, name, isMoved)) gone.push([node, name]);
        else if (node.entries.has(name)) node.seen?.add(name);
      }
    }
    this.#touched.clear();
    for (const [node, name] of gone) node.tree.remove(node, name);
  }

  [Symbol.dispose](): void {
    this.#toRead[Symbol.dispose]();
    this.#touched.clear();
    this.closeRoots();
  }
}

/** The bytes of a byte string, NUL-terminated for the kernel. */
function bytesOf(byteString: string): Uint8Array {
  return Buffer.from(`${byteString}\0`, 'latin1');
}

function isBelow(node: DirectoryNode, other: DirectoryNode): boolean {
  for (let at: DirectoryNode | undefined = node; at !== undefined; at = at.parent)
    if (at === other) return true;
  return false;
}
