/**
 * Follows paths to the files they lead to, through everything that can change that: creation, deletion,
 * rename over, a moved or replaced parent, re-pointed symbolic links, mounts.
 *
 * Level-triggered: an event only says that something may be different. The difference comes from resolving
 * the path again (resolve.ts) and comparing with the last answer. Nothing is polled.
 *
 * Paths with the same parent share a {@link Folder}, which knows the directories on the way; a path itself
 * only listens to its own name in the last of them. So 65,536 paths in one directory cost one walk and one
 * watch, and an event costs one look-up.
 *
 * Not seen: changes that the kernel does not report to inotify, i.e. made on another machine (NFS, FUSE) or
 * by the kernel itself (procfs, sysfs, cgroups); and a name in a directory that ignores case, unless the path
 * is spelled as the directory spells it.
 */
import { constants } from 'node:os';
import { resolve as absolute } from 'node:path';

import { type Fd, SystemCallError } from '../../ebpf/libc.ts';
import { errorCodes, type RampartError } from '../../errors/errors.ts';
import { DirectoryWatches, type Listener } from './inotify.ts';
import { Burst, Retries } from './pacing.ts';
import { cannotTrack, samePathState } from './path-state.ts';
import type { PathState, PathTrackerOptions, PathTrackerStats, TrackedPath } from './path-state.ts';
import { Entry, Folder, splitPath, type RefreshContext } from './tracked-path.ts';
import { openOwnMountinfo, OpenRoots, TrackedRoot, tryOpenRoot, watchMounts } from './tracked-root.ts';

export type { Identify, PathState, PathTrackerOptions, PathTrackerStats, TrackedPath } from './path-state.ts';

/** Resolutions in one turn of the event loop, about 2 ms; the rest waits for the next turn. */
const SLICE = 128;
const RETRY_FIRST_MS = 100;
const RETRY_LAST_MS = 30_000;
/** Mounts come in bursts, and each concerns every path of the namespace. */
const MOUNT_PAUSE_MS = 20;

interface Root {
  readonly tracked: TrackedRoot;
  readonly folders: Map<string, Folder>;
}

/**
 * Starts tracking. The states of `options.paths` are reported before it returns.
 *
 * @returns a tracker the caller disposes; it keeps the process alive until then.
 * @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached; `INPUT` for a path
 *   that is empty or contains a NUL; the signal's reason if it is already aborted.
 */
export function trackPaths(options: PathTrackerOptions): PathTracker {
  options.signal?.throwIfAborted();
  const tracker = new PathTracker(options);
  try {
    tracker.addAll(options.paths ?? []);
  } catch (error) {
    tracker[Symbol.dispose]();
    throw error;
  }
  return tracker;
}

/** Follows paths until it is disposed. Made by {@link trackPaths}. */
export class PathTracker implements Disposable {
  readonly #options: PathTrackerOptions;
  readonly #watches: DirectoryWatches;
  readonly #context: RefreshContext;
  readonly #roots = new Map<string, Root>();
  readonly #dirtyFolders = new Set<Folder>();
  readonly #dirtyEntries = new Set<Entry>();
  readonly #retries = new Retries<Listener>(RETRY_FIRST_MS, RETRY_LAST_MS, (listeners) => {
    for (const listener of listeners) listener.touch();
    this.#run();
  });
  readonly #mounted = new Burst<Root>(MOUNT_PAUSE_MS, (roots) => {
    for (const root of roots) touchRoot(root);
    this.#run();
    for (const { tracked } of roots) this.#options.onMounts?.(tracked.path);
  });
  /** Problems reported since the last time all was well. */
  readonly #reported = new Set<string>();
  #problems: RampartError[] = [];
  /** Roots opened for the current call of `together`; closed when the outermost call ends. */
  readonly #openRoots = new OpenRoots();
  #depth = 0;
  #next: NodeJS.Immediate | undefined;
  #ownMounts: Disposable | undefined;
  #paths = 0;
  #resolutions = 0;
  #disposed = false;
  readonly #abort = (): void => this[Symbol.dispose]();

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: PathTrackerOptions) {
    this.#options = options;
    this.#watches = new DirectoryWatches({
      onBatch: () => this.#run(),
      onOverflow: () => this.#roots.forEach(touchRoot),
      onError: (error) => this.#notify(error),
    });
    this.#context = {
      watches: this.#watches,
      identify: options.identify,
      directories: options.directories === true,
      openRoot: (root) => this.#openRoots.open(root),
      retry: (listener, problem) => {
        this.#retries.add(listener);
        if (problem !== undefined) this.#notify(problem);
      },
    };
    options.signal?.addEventListener('abort', this.#abort, { once: true });
  }

  get stats(): PathTrackerStats {
    return {
      paths: this.#paths,
      watches: this.#watches.size,
      events: this.#watches.events,
      overflows: this.#watches.overflows,
      resolutions: this.#resolutions,
      retrying: this.#retries.size,
    };
  }

  /**
   * Tracks one more path, reports and returns its state. A path that is already tracked is unchanged.
   *
   * @throws {RampartError} `INPUT` for a path that is empty or contains a NUL; `DISPOSED`.
   */
  add(path: TrackedPath): PathState {
    return this.together(() => this.#add(path));
  }

  /** Like {@link PathTracker.add} for several paths. */
  addAll(paths: Iterable<TrackedPath>): void {
    this.together(() => {
      for (const path of paths) {
        this.#add(path);
        if (this.#disposed) return; // by a callback
      }
    });
  }

  /** Forgets a path, which is no longer reported. Returns whether it was tracked. */
  remove(path: TrackedPath): boolean {
    const root = this.#roots.get(absolute(path.root));
    const folder = root?.folders.get(splitPath(path.path).parent);
    const entry = folder?.entries.get(path.path);
    if (root === undefined || folder === undefined || entry === undefined) return false;
    this.#paths -= 1;
    folder.entries.delete(path.path);
    this.#dirtyEntries.delete(entry);
    this.#retries.delete(entry);
    entry.forget(this.#context);
    if (folder.entries.size > 0) return true;
    root.folders.delete(folder.parent);
    this.#dirtyFolders.delete(folder);
    this.#retries.delete(folder);
    folder.forget(this.#context);
    if (root.folders.size > 0) return true;
    this.#roots.delete(root.tracked.path);
    this.#mounted.delete(root);
    root.tracked[Symbol.dispose]();
    return true;
  }

  /** The root of tracked paths, for the caller to dispose, or why it cannot be opened. */
  openRoot(root: string): Fd | SystemCallError {
    const known = this.#roots.get(absolute(root));
    if (known === undefined)
      return new SystemCallError(`no path below ${root} is tracked`, constants.errno.ENOENT);
    return tryOpenRoot(known.tracked);
  }

  #add(path: TrackedPath): PathState {
    if (this.#disposed) throw cannotTrack(path, errorCodes.DISPOSED, 'the tracker was disposed');
    if (path.path === '' || path.path.includes('\0') || path.root.includes('\0'))
      throw cannotTrack(path, errorCodes.INPUT, 'a path must not be empty or contain NUL');
    // Looked up as given; it is absolute.
    const root = this.#roots.get(path.root) ?? this.#root(absolute(path.root));
    const { parent, name } = splitPath(path.path);
    let folder = root.folders.get(parent);
    if (folder === undefined) {
      folder = new Folder(root.tracked, parent, this.#dirtyFolders);
      root.folders.set(parent, folder);
      folder.refresh(this.#context);
    }
    let entry = folder.entries.get(path.path);
    if (entry === undefined) {
      entry = new Entry(folder, path, name, this.#dirtyEntries);
      folder.entries.set(path.path, entry);
      this.#paths += 1;
    }
    return entry.state ?? this.#refresh(entry);
  }

  #root(path: string): Root {
    const known = this.#roots.get(path);
    if (known !== undefined) return known;
    const tracked = new TrackedRoot(path, {
      onMounts: () => this.#mounted.add(root),
      onExit: () => {
        touchRoot(root);
        this.#run();
      },
    });
    const root: Root = { tracked, folders: new Map() };
    if (tracked.ownNamespace) {
      this.#ownMounts ??= watchMounts(openOwnMountinfo(), () => {
        for (const other of this.#roots.values()) if (other.tracked.ownNamespace) this.#mounted.add(other);
      });
    }
    this.#roots.set(path, root);
    return root;
  }

  /** Runs `action` with the roots it opens kept open until its end: many calls of {@link PathTracker.add} are faster this way. */
  together<T>(action: () => T): T {
    this.#depth += 1;
    try {
      return action();
    } finally {
      this.#depth -= 1;
      if (this.#depth === 0) {
        this.#openRoots.close();
        for (const problem of this.#problems.splice(0)) if (!this.#disposed) this.#options.onProblem(problem);
        this.#schedule();
      }
    }
  }

  /** Resolves one slice of the paths that events have touched. */
  #run(): void {
    if (this.#disposed) return;
    this.together(() => {
      let left = SLICE;
      for (const folder of this.#dirtyFolders) {
        if (left <= 0) return;
        left -= 8; // about as many system calls
        this.#dirtyFolders.delete(folder);
        this.#retries.delete(folder);
        folder.refresh(this.#context);
        for (const entry of folder.entries.values()) this.#dirtyEntries.add(entry);
      }
      for (const entry of this.#dirtyEntries) {
        if (left <= 0 || this.#disposed) return;
        left -= 1;
        this.#refresh(entry);
      }
    });
  }

  #refresh(entry: Entry): PathState {
    this.#resolutions += 1;
    this.#dirtyEntries.delete(entry);
    this.#retries.delete(entry);
    const before = entry.state;
    const now = entry.refresh(this.#context);
    if (before !== undefined && samePathState(now, before)) return before;
    entry.state = now;
    this.#options.onChange(entry.path, now, before);
    return now;
  }

  /** Called at the end of a call: schedules the next slice or, if all is resolved, the retries. */
  #schedule(): void {
    if (this.#disposed) return;
    if (this.#dirtyFolders.size + this.#dirtyEntries.size > 0) {
      this.#next ??= setImmediate(() => {
        this.#next = undefined;
        this.#run();
      });
      return;
    }
    this.#mounted.done();
    if (this.#retries.size === 0) this.#reported.clear();
    this.#retries.settle();
  }

  #notify(problem: RampartError): void {
    // One message per remedy: a limit affects all directories alike.
    const kind = problem.next ?? problem.message;
    if (this.#reported.has(kind)) return;
    this.#reported.add(kind);
    this.#problems.push(problem); // reported when nothing is half done, since the callee may add and remove
  }

  /** Stops; no callback comes after it. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#problems = [];
    this.#options.signal?.removeEventListener('abort', this.#abort);
    clearImmediate(this.#next);
    this.#retries[Symbol.dispose]();
    this.#mounted[Symbol.dispose]();
    this.#ownMounts?.[Symbol.dispose]();
    for (const root of this.#roots.values()) root.tracked[Symbol.dispose]();
    this.#roots.clear();
    this.#dirtyFolders.clear();
    this.#dirtyEntries.clear();
    this.#watches[Symbol.dispose]();
  }
}

/** Marks all that was found under a root as possibly different. */
function touchRoot(root: Root): void {
  for (const folder of root.folders.values()) folder.touch();
}
