/** A directory tracker for tests: its reports, replayed into the set of files to watch. */
import type { RampartError } from '../../errors/errors.ts';
import { until } from '../../testing/until.fixture.ts';
import { fileKey } from '../access.ts';
import type { DirectoryState, DirectoryTrackerOptions, TrackedDirectory } from './directory-state.ts';
import type { DirectoryFile } from './directory-tree.ts';
import { DirectoryTracker } from './directory-tracker.ts';
import { identifyByStat } from './path-tracker.fixture.ts';

interface Followed {
  readonly recursive?: boolean;
  readonly maxFiles?: number;
}

/** Disposing it fails when it had a problem. */
export class TrackingDirectories implements Disposable {
  readonly tracker: DirectoryTracker;
  readonly problems: RampartError[] = [];

  constructor(options: Partial<DirectoryTrackerOptions> = {}) {
    this.tracker = new DirectoryTracker({
      identify: identifyByStat,
      onProblem: (problem) => this.problems.push(problem),
      ...options,
    });
  }

  /** Resolves when all that is there has been read. */
  async follow(
    root: string,
    path: string,
    { recursive = true, ...rest }: Followed = {},
  ): Promise<TrackingDirectory> {
    const tracking = new TrackingDirectory(this.tracker, root, path, { recursive, ...rest });
    await until('all directories are read', () => {
      const { state } = tracking.directory;
      return state.kind !== 'directory' || state.isComplete;
    });
    return tracking;
  }

  [Symbol.dispose](): void {
    this.tracker[Symbol.dispose]();
  }
}

export class TrackingDirectory implements Disposable {
  readonly directory: TrackedDirectory;
  /** By identity: those added and not removed, as a sensor would have them. */
  readonly watched = new Map<string, Set<DirectoryFile>>();
  readonly states: DirectoryState[] = [];
  readonly removed: string[] = [];

  constructor(
    tracker: DirectoryTracker,
    root: string,
    path: string,
    options: Followed & { readonly recursive: boolean },
  ) {
    this.directory = tracker.add({
      root,
      path,
      ...options,
      onFiles: ({ added, removed }) => {
        for (const file of added) {
          const key = fileKey(file.identity);
          this.watched.set(key, (this.watched.get(key) ?? new Set()).add(file));
        }
        for (const file of removed) {
          const key = fileKey(file.identity);
          const watchers = this.watched.get(key);
          if (watchers?.delete(file) !== true) throw new Error(`${key} is removed and was not added`);
          if (watchers.size > 0) continue;
          this.watched.delete(key);
          this.removed.push(key);
        }
      },
      onState: (state) => this.states.push(state),
    });
  }

  /** Their paths, sorted. */
  paths(): string[] {
    return [...this.watched.values()].flatMap((files) => [...files].map(({ path }) => path)).toSorted();
  }

  async untilPaths(...paths: string[]): Promise<void> {
    const wanted = paths.toSorted().join(' ');
    await until(`${wanted}, not ${this.paths().join(' ')}`, () => this.paths().join(' ') === wanted);
  }

  get unwatched(): { readonly files: number; readonly directories: number } | undefined {
    const { state } = this.directory;
    return state.kind === 'directory' ? state.unwatched : undefined;
  }

  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }
}
