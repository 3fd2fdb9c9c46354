/**
 * Follows which files are in a directory, or anywhere below it, through all that can change that: files and whole trees that
 * come, go and are renamed, links, mounts, and another directory in its place.
 *
 * A path tracker follows the path of the directory. The names below it come from one inotify watch for each directory, placed
 * before the directory is read: an event only says which name to look up again. A directory is resolved inside its root at
 * each look (resolve.ts) and must be the one under watch, so that nothing is taken for what it is not.
 *
 * Only regular files count. Where the kernel makes up the files (kernel-file-systems.ts), there are none. Not seen, as by the
 * path tracker: what is changed on another machine (NFS, FUSE).
 */
import { constants as fsConstants, opendirSync } from 'node:fs';

import { Fd, fileTypeOf, openFlags, resolveFlags, SystemCallError, tryOpenat2 } from '../../ebpf/libc.ts';
import { RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import { DirectoryLinks } from './directory-links.ts';
import {
  type DirectoryTrackerOptions,
  MOST_FILES,
  onlyCountsDiffer,
  sameDirectoryState,
  type TrackedDirectory,
  type TrackedDirectoryOptions,
} from './directory-state.ts';
import { DirectoryNode, DirectoryTree } from './directory-tree.ts';
import { TreeWatches } from './directory-watches.ts';
import { fromByteString, toByteString } from './inotify.ts';
import { isOfKernel } from './kernel-file-systems.ts';
import { Burst, Retries } from './pacing.ts';
import type { FileType, PathState } from './path-state.ts';
import { type PathTracker, trackPaths } from './path-tracker.ts';
import { SlicedWork } from './sliced-work.ts';
import { ofKernel, Tracked } from './tracked-directory.ts';
import { isLasting } from './walk.ts';

const SLICE_MS = 8;
const RETRY_FIRST_MS = 5000;
const RETRY_LAST_MS = 60_000;
const MOUNT_PAUSE_MS = 200;
const COUNT_PACE_MS = 10_000;

/** Follows directories until it is disposed; keeps the process alive until then. */
export class DirectoryTracker implements Disposable {
  readonly #options: DirectoryTrackerOptions;
  readonly #stack = new DisposableStack();
  readonly #watches: TreeWatches;
  readonly #bases: PathTracker;
  readonly #links: DirectoryLinks;
  readonly #byPath = new Map<string, Set<Tracked>>();
  readonly #byTree = new Map<DirectoryTree, Tracked>();
  /** Directories to be read. */
  readonly #toRead: SlicedWork<DirectoryNode>;
  /** Names that something happened to; true: a directory was moved there. */
  readonly #touched = new Map<DirectoryNode, Map<string, boolean>>();
  /** Of which something may have to be told. */
  readonly #unsettled = new Set<Tracked>();
  readonly #retries: Retries<DirectoryNode | Tracked>;
  readonly #mounted: Burst<string>;
  /** Opened for the running call. */
  readonly #roots = new Map<string, Fd | SystemCallError>();
  #next: NodeJS.Immediate | undefined;
  /** Since counts were told. */
  #counts: NodeJS.Timeout | undefined;
  #depth = 0;
  #disposed = false;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: DirectoryTrackerOptions) {
    this.#options = options;
    const { identify, onProblem, mostDirectories } = options;
    using stack = new DisposableStack();
    this.#toRead = stack.use(
      new SlicedWork({
        start: (node) => {
          const tracked = this.#byTree.get(node.tree);
          return tracked && this.#reading(tracked, node);
        },
        onDone: (node) => this.#isRead(node),
      }),
    );
    this.#retries = stack.use(
      new Retries(RETRY_FIRST_MS, RETRY_LAST_MS, (all) => this.#together(() => all.forEach(this.#retry))),
    );
    this.#mounted = stack.use(
      new Burst(MOUNT_PAUSE_MS, (roots) =>
        this.#together(() => {
          for (const tracked of this.#byTree.values()) if (roots.has(tracked.root)) this.#readAll(tracked);
        }),
      ),
    );
    this.#links = stack.use(
      new DirectoryLinks({
        identify,
        onProblem,
        onChange: (nodes) => this.#together(() => nodes.forEach(this.#unsettle)),
      }),
    );
    this.#watches = stack.use(new TreeWatches({ mostDirectories, onProblem, onReadable: this.#read }));
    this.#bases = stack.use(
      trackPaths({
        directories: true,
        identify,
        onProblem,
        onChange: ({ root, path }, now) => {
          for (const tracked of this.#byPath.get(keyOf(root, path)) ?? []) this.#setBase(tracked, now);
        },
        onMounts: (root) => this.#mounted.add(root),
      }),
    );
    this.#stack.use(stack.move());
  }

  /** Directories under watch. */
  get watches(): number {
    return this.#watches.size;
  }

  /**
   * Follows a directory. What can be looked at within some milliseconds is told before this returns, the rest soon after.
   *
   * @throws {RampartError} `INPUT` for a path that is empty or has a NUL; `DISPOSED`.
   */
  add(options: TrackedDirectoryOptions): TrackedDirectory {
    const tree = new DirectoryTree(options.mostFiles ?? MOST_FILES, this.#nodeGone, (link) =>
      this.#links.forget(tracked.root, link),
    );
    const tracked = new Tracked(options, tree, this.#end);
    const { root } = tracked;
    const { path } = options;
    this.#byTree.set(tree, tracked);
    const key = keyOf(root, path);
    const sharing = this.#byPath.get(key);
    if (sharing === undefined) this.#byPath.set(key, new Set([tracked]));
    else sharing.add(tracked);
    try {
      this.#together(() => {
        const base = this.#bases.add({ root, path });
        if (tracked.base === undefined) this.#setBase(tracked, base);
      });
    } catch (error) {
      this.#end(tracked);
      throw error;
    }
    return tracked;
  }

  readonly #end = (tracked: Tracked): void => {
    const { root, tree, options } = tracked;
    if (!this.#byTree.delete(tree)) return;
    tree.setTop(undefined);
    this.#unsettled.delete(tracked);
    this.#retries.delete(tracked);
    const key = keyOf(root, options.path);
    const sharing = this.#byPath.get(key);
    sharing?.delete(tracked);
    if (sharing === undefined || sharing.size > 0) return;
    this.#byPath.delete(key);
    this.#bases.remove({ root, path: options.path });
  };

  #setBase(tracked: Tracked, now: PathState): void {
    this.#together(() => {
      const { tree, options } = tracked;
      tracked.base = now;
      this.#unsettled.add(tracked);
      const number = now.kind === 'file' ? this.#openPath(tracked, toByteString(options.path)) : -1;
      if (now.kind !== 'file' || number < 0) {
        tree.setTop(undefined);
        return;
      }
      using fd = new Fd(number);
      if (isOfKernel(fd)) {
        tree.setTop(undefined);
        tracked.base = ofKernel(options.path);
        return;
      }
      const wd = this.#watches.watch(fd, options.path);
      if (wd === undefined) this.#retries.add(tracked);
      else if (wd === tree.top?.wd) return;
      const top =
        wd === undefined
          ? undefined
          : new DirectoryNode(tree, { name: toByteString(options.path) }, wd, now.identity.device);
      // Before the one in whose place it comes lets go of its watches, some of which may be the same.
      if (top !== undefined) this.#register(top);
      tree.setTop(top);
    });
  }

  #register(node: DirectoryNode): void {
    this.#watches.register(node);
    const tracked = this.#byTree.get(node.tree);
    if (tracked !== undefined) tracked.unread += 1;
    this.#toRead.add(node);
  }

  readonly #nodeGone = (node: DirectoryNode): void => {
    this.#toRead.delete(node);
    this.#isRead(node);
    this.#touched.delete(node);
    this.#retries.delete(node);
    this.#watches.forget(node);
  };

  #isRead(node: DirectoryNode): void {
    if (node.isRead) return;
    node.isRead = true;
    const tracked = this.#byTree.get(node.tree);
    if (tracked !== undefined) tracked.unread -= 1;
    this.#unsettle(node);
  }

  readonly #unsettle = ({ tree }: DirectoryNode): void => {
    const tracked = this.#byTree.get(tree);
    if (tracked !== undefined) this.#unsettled.add(tracked);
  };

  readonly #retry = (one: DirectoryNode | Tracked): void => {
    this.#retries.delete(one);
    if (one instanceof DirectoryNode) this.#toRead.add(one);
    else if (one.base !== undefined) this.#setBase(one, one.base);
  };

  #readAll({ tree }: Tracked): void {
    for (const node of tree.nodes()) this.#toRead.add(node);
  }

  #openPath({ root }: Tracked, path: string, flags = 0): number {
    let fd = this.#roots.get(root);
    if (fd === undefined) this.#roots.set(root, (fd = this.#bases.openRoot(root)));
    if (fd instanceof SystemCallError) return -fd.number;
    return tryOpenat2(fd, bytesOf(path), {
      flags: openFlags.PATH | openFlags.DIRECTORY | flags,
      resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
    });
  }

  /** The directory of a node, where it still is the one under watch; the caller disposes it. */
  #open(tracked: Tracked, node: DirectoryNode): Fd | undefined {
    const { path } = node;
    const number = this.#openPath(tracked, path, node.parent === undefined ? 0 : openFlags.NOFOLLOW);
    if (number < 0) {
      if (!isLasting(-number)) this.#retries.add(node);
      return undefined;
    }
    const fd = new Fd(number);
    if (this.#watches.is(fd, node, fromByteString(path))) return fd;
    fd[Symbol.dispose]();
    return undefined;
  }

  /** Reads a directory: all its names are looked up, and what else it had is gone. A step is a name. */
  *#reading(tracked: Tracked, node: DirectoryNode): Generator<void> {
    const { tree } = tracked;
    using directory = this.#open(tracked, node);
    // One that is gone is told by the directory above.
    if (directory === undefined) return;
    const seen = (node.seen = new Set<string>());
    tree.resetCounts(node);
    this.#unsettled.add(tracked);
    try {
      // Byte strings, see inotify.ts.
      using names = opendirSync(`/proc/self/fd/${directory.number}`, { encoding: 'latin1', bufferSize: 256 });
      for (let entry = names.readSync(); entry !== null; entry = names.readSync()) {
        const { name } = entry;
        // What there is no room for need not be opened to be counted.
        if (tree.isFull && entry.isFile() && !node.entries.has(name)) tree.countFile(node, 1);
        else this.#look(tracked, node, directory, name, false);
        if (node.entries.has(name)) seen.add(name);
        yield;
        this.#unsettled.add(tracked);
      }
      for (const name of node.entries.keys()) if (!seen.has(name)) tree.remove(node, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).errno === undefined) throw error;
      this.#retries.add(node);
    } finally {
      node.seen = undefined;
    }
  }

  /**
   * Looks up one name.
   *
   * @param isMoved - A directory that is under watch already may have been moved here.
   * @returns whether there is something, or there is no telling.
   */
  #look(tracked: Tracked, node: DirectoryNode, directory: Fd, name: string, isMoved: boolean): boolean {
    const { tree, root } = tracked;
    const number = tryOpenat2(directory, bytesOf(name), { flags: openFlags.PATH | openFlags.NOFOLLOW });
    if (number < 0) {
      if (isLasting(-number)) return false;
      this.#retries.add(node);
      return true;
    }
    using fd = new Fd(number);
    let type: FileType;
    let identity: FileIdentity;
    try {
      type = fileTypeOf(number);
      identity = this.#options.identify(number, type);
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#retries.add(node);
      return true;
    }
    if (type === fsConstants.S_IFLNK) {
      const link = tree.putLink(node, name);
      if (link !== undefined) this.#links.follow(root, { node, name, link });
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
    { device }: FileIdentity,
    isMoved: boolean,
  ): void {
    if (device !== node.device && isOfKernel(fd)) {
      tree.remove(node, name);
      return;
    }
    const before = node.entries.get(name);
    const wd = this.#watches.watch(fd, fromByteString(`${node.path}/${name}`));
    if (wd === undefined) {
      tree.remove(node, name);
      tree.countDirectory(node, 1);
      this.#retries.add(node);
      return;
    }
    if (before instanceof DirectoryNode && before.wd === wd) return;
    const moved = isMoved ? this.#watches.nodeOf(wd, tree) : undefined;
    if (moved?.parent !== undefined && !isBelow(node, moved)) {
      tree.moveDirectory(moved, node, name);
      // Its links are followed by their paths, and what happened in it meanwhile could not be looked up.
      for (const one of tree.nodes(moved)) this.#toRead.add(one);
      return;
    }
    const child = new DirectoryNode(tree, { parent: node, name }, wd, device);
    // Before the one in whose place it comes lets go of its watches, some of which may be the same.
    this.#register(child);
    tree.putDirectory(node, name, child);
  }

  readonly #read = (): void => {
    this.#together(() => {
      this.#watches.drain({
        onName: (node, name, isMoved) => {
          const names = this.#touched.get(node);
          if (names === undefined) this.#touched.set(node, new Map([[name, isMoved]]));
          else names.set(name, isMoved);
        },
        onOverflow: () => {
          for (const tracked of this.#byTree.values()) this.#readAll(tracked);
        },
      });
      this.#lookAtTouched();
    });
  };

  /** What came first, then what is gone: a file that was only renamed stays the same one. */
  #lookAtTouched(): void {
    const gone: [DirectoryNode, string][] = [];
    for (const [node, names] of this.#touched) {
      const tracked = this.#byTree.get(node.tree);
      using directory = tracked && this.#open(tracked, node);
      if (tracked === undefined || directory === undefined) continue;
      this.#unsettled.add(tracked);
      for (const [name, isMoved] of names) {
        // It may be one of those that are counted only: which these are, is not kept.
        if (node.unwatchedFiles > 0 && tracked.tree.isFull && !node.entries.has(name))
          this.#retries.add(node);
        else if (!this.#look(tracked, node, directory, name, isMoved)) gone.push([node, name]);
        else if (node.entries.has(name)) node.seen?.add(name);
      }
    }
    this.#touched.clear();
    for (const [node, name] of gone) node.tree.remove(node, name);
  }

  /** Runs `action`, reads on for a moment, and tells what is different at the end of the outermost call. */
  #together(action: () => void): void {
    if (this.#disposed) return;
    this.#depth += 1;
    try {
      action();
      if (this.#depth === 1) this.#readOn();
    } finally {
      this.#depth -= 1;
      if (this.#depth === 0) {
        for (const root of this.#roots.values()) if (root instanceof Fd) root[Symbol.dispose]();
        this.#roots.clear();
        this.#tell();
      }
    }
  }

  #readOn(): void {
    this.#toRead.run(performance.now() + SLICE_MS);
    if (this.#toRead.isDone) {
      this.#mounted.done();
      this.#settleRetries();
      return;
    }
    this.#next ??= setImmediate(() => {
      this.#next = undefined;
      this.#together(() => undefined);
    });
  }

  #settleRetries(): void {
    if (this.#retries.size === 0) this.#watches.allIsWell();
    this.#retries.settle();
  }

  #tell(): void {
    for (const tracked of this.#unsettled) {
      this.#unsettled.delete(tracked);
      const { tree, options } = tracked;
      const changes = tree.takeChanges();
      // There is room for some that there was none for.
      if (changes.removed.length > 0 && tree.unwatched.files > 0) {
        for (const node of tree.nodes()) if (node.unwatchedFiles > 0) this.#retries.add(node);
      }
      if (changes.added.length + changes.removed.length > 0) options.onFiles(changes);
      this.#tellState(tracked);
      if (this.#disposed) return; // by a callback
    }
    if (this.#toRead.isDone) this.#settleRetries();
  }

  #tellState(tracked: Tracked): void {
    const { now } = tracked;
    if (now === undefined || sameDirectoryState(tracked.state, now)) return;
    if (onlyCountsDiffer(tracked.state, now)) {
      if (this.#counts !== undefined) return;
      this.#counts = setTimeout(() => {
        this.#counts = undefined;
        this.#together(() => {
          for (const one of this.#byTree.values()) this.#unsettled.add(one);
        });
      }, COUNT_PACE_MS);
    }
    tracked.state = now;
    tracked.options.onState(now);
  }

  /** Stops; no callback comes after it. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    clearImmediate(this.#next);
    clearTimeout(this.#counts);
    this.#stack.dispose();
  }
}

function keyOf(root: string, path: string): string {
  return `${root}\0${path}`;
}

/** As the kernel takes it. */
function bytesOf(byteString: string): Uint8Array {
  return Buffer.from(`${byteString}\0`, 'latin1');
}

function isBelow(node: DirectoryNode, other: DirectoryNode): boolean {
  for (let at: DirectoryNode | undefined = node; at !== undefined; at = at.parent)
    if (at === other) return true;
  return false;
}
