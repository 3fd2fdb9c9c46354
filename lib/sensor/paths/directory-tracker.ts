/**
 * Keeps track of the files in a directory, or anywhere below it, through all that can change them: files and
 * whole trees that come, go and are renamed, links, mounts, and another directory in its place.
 *
 * A path tracker follows the path of the directory. The names below it come from one inotify watch for each
 * directory, placed before the directory is read: an event only says which name to look up again
 * (directory-reader.ts). Only regular files count. A file system of the kernel (kernel-file-systems.ts) has
 * none.
 *
 * As with the path tracker, changes made on another machine (NFS, FUSE) are not seen.
 */
import { DirectoryLinks } from './directory-links.ts';
import { DirectoryReader } from './directory-reader.ts';
import {
  type DirectoryTrackerOptions,
  MAX_FILES,
  onlyCountsDiffer,
  sameDirectoryState,
  type TrackedDirectory,
  type TrackedDirectoryOptions,
} from './directory-state.ts';
import { DirectoryNode, DirectoryTree } from './directory-tree.ts';
import { TreeWatches } from './directory-watches.ts';
import { toByteString } from './inotify.ts';
import { isOfKernel } from './kernel-file-systems.ts';
import { Burst, Retries } from './pacing.ts';
import type { PathState } from './path-state.ts';
import { type PathTracker, trackPaths } from './path-tracker.ts';
import { ofKernel, Tracked } from './tracked-directory.ts';

const SLICE_MS = 8;
const RETRY_FIRST_MS = 5000;
const RETRY_LAST_MS = 60_000;
const MOUNT_PAUSE_MS = 200;
const COUNT_PACE_MS = 10_000;

/** Follows directories until it is disposed; keeps the process alive until then. */
export class DirectoryTracker implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #watches: TreeWatches;
  readonly #bases: PathTracker;
  readonly #links: DirectoryLinks;
  readonly #reader: DirectoryReader;
  readonly #byPath = new Map<string, Set<Tracked>>();
  readonly #byTree = new Map<DirectoryTree, Tracked>();
  /** Directories that may have something to report. */
  readonly #unsettled = new Set<Tracked>();
  readonly #retries: Retries<DirectoryNode | Tracked>;
  readonly #mounted: Burst<string>;
  #next: NodeJS.Immediate | undefined;
  /** Runs after a report of counts, until they may be reported again. */
  #counts: NodeJS.Timeout | undefined;
  #depth = 0;
  #disposed = false;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor({ identify, onProblem, maxDirectories }: DirectoryTrackerOptions) {
    using stack = new DisposableStack();
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
    this.#watches = stack.use(
      new TreeWatches({
        maxDirectories,
        onProblem,
        onReadable: () => this.#together(() => this.#reader.readEvents()),
      }),
    );
    this.#reader = stack.use(
      new DirectoryReader({
        ...{ identify, watches: this.#watches, links: this.#links },
        openRoot: (root) => this.#bases.openRoot(root),
        trackedOf: ({ tree }) => this.#byTree.get(tree),
        onLooked: (tracked) => this.#unsettled.add(tracked),
        onOverflow: () => this.#byTree.forEach((tracked) => this.#readAll(tracked)),
        onFailed: (node) => this.#retries.add(node),
      }),
    );
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

  /** How often a queue of the kernel was full, after which everything is looked up again. */
  get overflows(): number {
    return this.#watches.overflows + this.#links.overflows + this.#bases.stats.overflows;
  }

  /**
   * Follows a directory. Files that are found within some milliseconds are reported before this returns, the
   * rest soon after.
   *
   * @throws {RampartError} `INPUT` for a path that is empty or has a NUL; `DISPOSED`.
   */
  add(options: TrackedDirectoryOptions): TrackedDirectory {
    const tree = new DirectoryTree(options.maxFiles ?? MAX_FILES, this.#nodeGone, (link) =>
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
      using fd = now.kind === 'file' ? this.#reader.openBase(tracked) : undefined;
      if (now.kind !== 'file' || fd === undefined) {
        tree.setTop(undefined);
        return;
      }
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
          : new DirectoryNode(tree, { name: toByteString(options.path) }, wd, now.identity);
      // Registered before the replaced directory drops its watches, some of which may be the same.
      if (top !== undefined) this.#reader.register(top);
      tree.setTop(top);
    });
  }

  readonly #nodeGone = (node: DirectoryNode): void => {
    this.#retries.delete(node);
    this.#reader.forget(node);
  };

  readonly #unsettle = ({ tree }: DirectoryNode): void => {
    const tracked = this.#byTree.get(tree);
    if (tracked !== undefined) this.#unsettled.add(tracked);
  };

  readonly #retry = (one: DirectoryNode | Tracked): void => {
    this.#retries.delete(one);
    if (one instanceof DirectoryNode) this.#reader.add(one);
    else if (one.base !== undefined) this.#setBase(one, one.base);
  };

  #readAll({ tree }: Tracked): void {
    for (const node of tree.nodes()) this.#reader.add(node);
  }

  /** Runs `action`, reads on for a moment, and reports the difference at the end of the outermost call. */
  #together(action: () => void): void {
    if (this.#disposed) return;
    this.#depth += 1;
    try {
      action();
      if (this.#depth === 1) this.#readOn();
    } finally {
      this.#depth -= 1;
      if (this.#depth === 0) {
        this.#reader.closeRoots();
        this.#notify();
      }
    }
  }

  #readOn(): void {
    this.#reader.run(performance.now() + SLICE_MS);
    if (this.#reader.isDone) {
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

  #notify(): void {
    for (const tracked of this.#unsettled) {
      this.#unsettled.delete(tracked);
      const { tree, options } = tracked;
      const changes = tree.takeChanges();
      // There is room now for some files that were not watched.
      if (changes.removed.length > 0 && tree.unwatched.files > 0) {
        for (const node of tree.nodes()) if (node.unwatchedFiles > 0) this.#retries.add(node);
      }
      if (Object.values(changes).some((some: readonly unknown[]) => some.length > 0))
        options.onFiles(changes);
      this.#reportState(tracked);
      if (this.#disposed) return; // by a callback
    }
    if (this.#reader.isDone) this.#settleRetries();
  }

  #reportState(tracked: Tracked): void {
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
