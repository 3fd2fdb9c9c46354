/**
 * Watches paths of one machine. The path tracker finds the current file of each path, the sensor reports who accesses
 * that file, and this class connects the two.
 */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { accessFilter, type Access, type FileIdentity, sameFile } from '../../../lib/sensor/access.ts';
import { type DirectoryState, MAX_FILES } from '../../../lib/sensor/paths/directory-state.ts';
import { DirectoryTracker } from '../../../lib/sensor/paths/directory-tracker.ts';
import type { DirectoryFile, DirectoryNode } from '../../../lib/sensor/paths/directory-tree.ts';
import type { PathState, TrackedPath } from '../../../lib/sensor/paths/path-state.ts';
import { trackPaths } from '../../../lib/sensor/paths/path-tracker.ts';
import { type NamedPrograms, type ProcessFilter, raisesAlert } from '../process-filter.ts';
import type { SensorOptions, SensorStats } from '../../../lib/sensor/options.ts';
import type { AccessRecord } from '../../../lib/sensor/record.ts';
import { Sensor } from '../../../lib/sensor/sensor.ts';
import type { Watcher } from '../../../lib/sensor/targets.ts';
import { directoryOf, type DirectoryPath } from '../directory-path.ts';

/** One watched path, with the caller's `context` for its output. */
export interface WatchedPath<C> extends Watcher {
  readonly tracked: TrackedPath;
  /** The caller's own data, e.g. an encoder; handed back with each access. */
  readonly context: C;
  /** The file that the path leads to now; undefined for a directory. */
  identity: FileIdentity | undefined;
  /** The accessed file, if the path selects the files of a directory. */
  readonly file?: Pick<DirectoryFile, 'path'>;
  /** The directory of a new file that has no watcher of its own yet. */
  readonly node?: DirectoryNode;
}

export interface FileWatchOptions<C> extends Omit<SensorOptions<WatchedPath<C>>, 'onAccess' | 'onFolded'> {
  readonly paths: readonly { readonly tracked: TrackedPath; readonly context: C }[];
  /** Which processes are reported: `paths`, resolved below `root`, name their programs. Default: all processes. */
  readonly processes?: (NamedPrograms & { readonly root: string }) | undefined;
  /** Which accesses are reported, see accessWords. */
  readonly access: readonly string[];
  /** Called for an access to a watched path; `access` is valid during the call only. */
  readonly onAccess: (access: Access, watched: WatchedPath<C>) => void;
  /** Called with the number of accesses that the rate limit folded and that no later record will report. */
  readonly onFolded?: (count: number, pid: number, watched: WatchedPath<C>) => void;
  /** Called once the programs are loaded and attached, before the paths are examined. */
  readonly beforeTracking?: () => void;
  /** Called with where a path leads, at first and after each change. */
  readonly onPath?: (watched: WatchedPath<C>, state: PathState) => void;
  /** Like `onPath`, but for a path that selects the files of a directory, see directoryOf. */
  readonly onDirectory?: (watched: WatchedPath<C>, state: DirectoryState, files: number) => void;
}

/** A running sensor and path tracker. Dispose it to stop both; what is still in the ring is delivered first. */
export class FileWatch<C> implements Disposable {
  readonly sensor: Sensor<WatchedPath<C>>;
  readonly #tracking = new DisposableStack();
  readonly #watched: ReadonlyMap<TrackedPath, WatchedPath<C>>;
  readonly #options: FileWatchOptions<C>;
  /** States of the paths of programs, keyed by path. */
  readonly #programs = new Map<string, PathState>();
  #filter: ProcessFilter | undefined;
  /** Accesses that were not reported because of the process. */
  filtered = 0;
  #filteredNs = 0n;
  #final: SensorStats | undefined;

  /**
   * @throws {RampartError} `INPUT` for an unknown access word or sensor option; `LIMIT` when there are
   *   more paths than the capacity; what Sensor.open and trackPaths throw.
   */
  constructor(options: FileWatchOptions<C>) {
    this.#options = options;
    const filter = accessFilter(options.access);
    this.#watched = new Map(
      options.paths.map(({ tracked, context }) => [
        tracked,
        { tracked, context, filter, identity: undefined },
      ]),
    );
    const { onFolded, processes, ...forSensor } = options;
    this.sensor = Sensor.open<WatchedPath<C>>({
      ...forSensor,
      onAccess: (access, watched) => {
        if (this.#filter === undefined || raisesAlert(this.#filter, access.executableFile, () => true))
          options.onAccess(access, withFile(watched, access));
        else this.#countFiltered(access);
      },
      ...(onFolded && {
        onFolded: ({ count, pid }, watchers) => {
          for (const watched of watchers) onFolded(count, pid, watched);
        },
      }),
    });
    try {
      if (this.#watched.size > this.sensor.targets.capacity) {
        throw new RampartError(errorCodes.LIMIT, {
          what: `cannot watch ${this.#watched.size} paths`,
          why: `the limit is ${this.sensor.targets.capacity} files`,
          next: 'Watch fewer files or raise the capacity',
        });
      }
      options.beforeTracking?.();
      const programs = (processes?.paths ?? []).map((path) => ({ path, root: processes?.root ?? '/' }));
      for (const { path } of programs) this.#programs.set(path, { kind: 'absent', missing: path });
      const identify = (fd: number): FileIdentity => this.sensor.identify(fd);
      const onProblem = (problem: RampartError): void => options.onProblem(problem);
      const paths = [...this.#watched.keys()];
      this.#tracking.use(
        trackPaths({
          paths: [...paths.filter(({ path }) => directoryOf(path) === undefined), ...programs],
          identify,
          onChange: (path, now) => {
            // A program may also be a watched file.
            if (this.#programs.has(path.path)) this.#setProgram(path.path, now);
            this.#follow(path, now);
          },
          onProblem,
        }),
      );
      let directories: DirectoryTracker | undefined;
      for (const tracked of paths) {
        const directory = directoryOf(tracked.path);
        if (directory === undefined) continue;
        directories ??= this.#tracking.use(new DirectoryTracker({ identify, onProblem }));
        this.#followDirectory(directories, tracked, directory);
      }
    } catch (error) {
      this.#tracking.dispose();
      this.sensor[Symbol.dispose]();
      throw error;
    }
  }

  /** Counts so far; after disposal the final ones. */
  stats(): SensorStats {
    return this.#final ?? this.sensor.stats();
  }

  /** Counts an access once, even if several paths lead to the same file. */
  #countFiltered({ monotonicNs }: AccessRecord): void {
    if (monotonicNs === this.#filteredNs) return;
    this.#filteredNs = monotonicNs;
    this.filtered++;
  }

  #setProgram(path: string, now: PathState): void {
    this.#programs.set(path, now);
    const { kind } = this.#options.processes ?? {};
    const states = [...this.#programs.values()];
    // If a program cannot be resolved, it is unknown which processes are meant: all are reported.
    const isKnown = kind === 'except' || states.every((state) => state.kind !== 'unusable');
    const files = states.flatMap((state) => (state.kind === 'file' ? [state.identity] : []));
    this.#filter = kind !== undefined && isKnown ? { kind, files } : undefined;
  }

  #follow(path: TrackedPath, now: PathState): void {
    const watched = this.#watched.get(path);
    if (watched === undefined) return;
    const before = watched.identity;
    const identity = now.kind === 'file' ? now.identity : undefined;
    const { targets } = this.sensor;
    try {
      // Add the new file first: between the two steps both are watched, never none.
      if (identity !== undefined) targets.add(identity, watched);
      watched.identity = identity;
      if (before !== undefined && (identity === undefined || !sameFile(before, identity)))
        targets.delete(before, watched);
    } catch (problem) {
      this.#options.onProblem(problem);
    }
    this.#options.onPath?.(watched, now);
  }

  #followDirectory(directories: DirectoryTracker, tracked: TrackedPath, directory: DirectoryPath): void {
    const watched = this.#watched.get(tracked);
    if (watched === undefined) return;
    const { sensor } = this;
    const entries = new Map<DirectoryFile, WatchedPath<C>>();
    const arrivals = new Map<DirectoryNode, WatchedPath<C>>();
    directories.add({
      root: tracked.root,
      ...directory,
      maxFiles: Math.min(MAX_FILES, sensor.targets.capacity),
      onFiles: ({ added, removed, addedDirectories, removedDirectories }) => {
        for (const node of addedDirectories) {
          const watcher = { ...watched, node };
          if (sensor.expectFilesIn(node.identity, watcher)) arrivals.set(node, watcher);
        }
        for (const node of removedDirectories) {
          const watcher = arrivals.get(node);
          if (watcher !== undefined) sensor.expectNoFilesIn(node.identity, watcher);
          arrivals.delete(node);
        }
        const wanted = added.map((file) => ({
          identity: file.identity,
          watcher: { ...watched, identity: file.identity, file },
        }));
        const failures = sensor.targets.addAll(wanted);
        for (const [at, file] of added.entries())
          if (failures[at] === undefined) entries.set(file, wanted[at]!.watcher);
        for (const file of removed) {
          const entry = entries.get(file);
          if (entry !== undefined) sensor.targets.delete(file.identity, entry);
          entries.delete(file);
        }
        const first = failures.find((failure) => failure !== undefined);
        // Removed files make room for new ones; only what still found no room is a problem.
        if (first !== undefined) this.#options.onProblem(first);
      },
      onState: (state) => this.#options.onDirectory?.(watched, state, entries.size),
    });
  }

  [Symbol.dispose](): void {
    if (this.#final !== undefined) return;
    this.#tracking.dispose();
    this.#final = this.sensor.close();
  }
}

/**
 * Adds the name of the accessed file: the sensor reports it with accesses to new files in a directory, as long as these
 * have no watcher of their own.
 */
function withFile<C>(watched: WatchedPath<C>, access: Access): WatchedPath<C> {
  return watched.node === undefined ? watched : { ...watched, file: { path: watched.node.pathOf(access) } };
}
