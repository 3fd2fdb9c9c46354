/** Directories in containers whose files are watched, followed over time. See container-files.ts for single files. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import {
  type DirectoryFiles,
  type DirectoryState,
  MAX_FILES,
  type TrackedDirectory,
} from '../../../lib/sensor/paths/directory-state.ts';
import { DirectoryTracker } from '../../../lib/sensor/paths/directory-tracker.ts';
import type {
  DirectoryChanges,
  DirectoryFile,
  DirectoryNode,
  Unwatched,
} from '../../../lib/sensor/paths/directory-tree.ts';
import { counted } from '../../../lib/output/words.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { PARTLY_WATCHED } from '../policy-status-schema.ts';
import type { DirectoryPath } from '../directory-path.ts';
import type { ContainerFile, ContainerFilesOptions, FileRequest } from './container-files.ts';
import type { SharedRoot } from './container-roots.ts';
import { type FileState, sameState, unseen } from './file-state.ts';

class ContainerDirectory implements ContainerFile, DirectoryFiles {
  readonly request: FileRequest;
  readonly root: SharedRoot | undefined;
  readonly #leave: (directory: ContainerDirectory) => void;
  readonly #listeners = new Listeners<[changes: DirectoryChanges]>();
  tracked: TrackedDirectory | undefined;
  state: FileState = unseen;

  constructor(
    request: FileRequest,
    root: SharedRoot | undefined,
    leave: (directory: ContainerDirectory) => void,
  ) {
    this.request = request;
    this.root = root;
    this.#leave = leave;
  }

  get unwatched(): Unwatched {
    const { state } = this.tracked ?? {};
    return state?.kind === 'directory' ? state.unwatched : { files: 0, directories: 0 };
  }

  files(): Iterable<DirectoryFile> {
    return this.tracked?.files() ?? [];
  }

  directories(): Iterable<DirectoryNode> {
    return this.tracked?.directories() ?? [];
  }

  subscribe(listener: (changes: DirectoryChanges) => void): Disposable {
    return this.#listeners.add(listener);
  }

  notify(changes: DirectoryChanges): void {
    this.#listeners.notify(changes);
  }

  [Symbol.dispose](): void {
    this.tracked?.[Symbol.dispose]();
    this.tracked = undefined;
    this.#leave(this);
  }
}

/** Follows directories in containers until it is disposed; keeps the process alive until then. */
export class ContainerDirectories implements Disposable {
  readonly #options: ContainerFilesOptions;
  readonly #tracker: DirectoryTracker;
  readonly #byRoot = new Map<SharedRoot, Set<ContainerDirectory>>();
  readonly #evicted: Disposable;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: ContainerFilesOptions) {
    this.#options = options;
    const { identify, onProblem, roots } = options;
    this.#tracker = new DirectoryTracker({ identify, onProblem });
    this.#evicted = roots.onEvicted((root) => this.#evict(root));
  }

  /** See DirectoryTracker. */
  get overflows(): number {
    return this.#tracker.overflows;
  }

  /** Sum of the unwatched files of all directories. */
  get unwatched(): Unwatched {
    let [files, directories] = [0, 0];
    for (const all of this.#byRoot.values()) {
      for (const { unwatched } of all) {
        files += unwatched.files;
        directories += unwatched.directories;
      }
    }
    return { files, directories };
  }

  /**
   * Follows a directory of a container. If another container had this root before, everything that was followed there
   * for it is refused from then on.
   *
   * @returns its state, kept current; a root that cannot be opened or belongs to another process is a refusal, not an
   *   error.
   * @throws {RampartError} `INPUT` for a path that is empty or has a NUL; `DISPOSED`.
   */
  add(request: FileRequest, { path, recursive }: DirectoryPath): ContainerFile {
    const { roots } = this.#options;
    const root = roots.take(request);
    if (root instanceof RampartError) {
      const refused = new ContainerDirectory(request, undefined, this.#leave);
      refused.state = { kind: 'refused', why: root.message };
      return refused;
    }
    const directory = new ContainerDirectory(request, root, this.#leave);
    using unfinished = new DisposableStack();
    unfinished.use(directory);
    const directories = this.#byRoot.get(root) ?? new Set<ContainerDirectory>();
    this.#byRoot.set(root, directories.add(directory));
    directory.tracked = this.#tracker.add({
      root: root.root.path,
      path,
      recursive,
      onFiles: (changes) => directory.notify(changes),
      onState: (state) => this.#settle(directory, state),
    });
    this.#settle(directory, directory.tracked.state);
    // For the first directory of a root, the tracker has opened the root by its path: check that it is still the same process.
    if (directories.size === 1) roots.verify(root);
    unfinished.move();
    return directory;
  }

  #evict(root: SharedRoot): void {
    for (const directory of [...(this.#byRoot.get(root) ?? [])]) {
      directory[Symbol.dispose]();
      this.#notify(directory, { kind: 'refused', why: 'the container is gone' });
    }
  }

  readonly #leave = (directory: ContainerDirectory): void => {
    const { root } = directory;
    const directories = root && this.#byRoot.get(root);
    if (root === undefined || directories?.delete(directory) !== true) return;
    if (directories.size === 0) this.#byRoot.delete(root);
    this.#options.roots.release(root);
  };

  #settle(directory: ContainerDirectory, state: DirectoryState): void {
    if (state.kind === 'absent')
      this.#notify(directory, { kind: 'waiting', why: `${state.missing} does not exist` });
    else if (state.kind === 'unusable')
      this.#notify(directory, { kind: 'refused', why: state.error.message });
    else {
      const why = state.isComplete ? partlyOf(state.unwatched) : partly('not all files have been found yet');
      if (why !== undefined && state.isComplete) this.#reportUnwatched(directory.request, why);
      this.#notify(directory, {
        kind: 'watched',
        identity: state.identity,
        directory,
        ...(why !== undefined && { partly: why }),
      });
    }
  }

  #reportUnwatched({ path, containerId }: FileRequest, why: string): void {
    this.#options.onProblem(
      new RampartError(errorCodes.LIMIT, {
        what: `cannot watch all files of ${path} in the container ${containerId}`,
        why,
        next: 'Name a directory with fewer files in it',
      }),
    );
  }

  #notify(directory: ContainerDirectory, state: FileState): void {
    const before = directory.state;
    if (before !== unseen && sameState(before, state)) return;
    directory.state = state;
    if (before !== unseen) this.#options.onChange(directory);
  }

  [Symbol.dispose](): void {
    this.#evicted[Symbol.dispose]();
    for (const directories of [...this.#byRoot.values()]) {
      for (const directory of [...directories]) directory[Symbol.dispose]();
    }
    this.#tracker[Symbol.dispose]();
  }
}

/** A text about unwatched files; undefined if all are watched. */
function partlyOf({ files, directories }: Unwatched): string | undefined {
  const parts = [
    files > 0
      ? `${counted(files, 'file is', 'files are')} beyond the limit of ${MAX_FILES.toLocaleString('en')}`
      : '',
    directories > 0
      ? `there is no inotify watch for ${counted(directories, 'directory', 'directories')}, whose files are not watched`
      : '',
  ].filter((part) => part !== '');
  return parts.length === 0 ? undefined : partly(parts.join('; '));
}

function partly(why: string): string {
  return `${PARTLY_WATCHED}${why}`;
}
