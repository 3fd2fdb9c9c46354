/** The files of the traps that match containers of this node, or the node itself. */
import type { RampartError } from '../../../lib/errors/errors.ts';
import type { Unwatched } from '../../../lib/sensor/paths/directory-tree.ts';
import type { Identify } from '../../../lib/sensor/paths/path-state.ts';
import { ContainerDirectories } from './container-directories.ts';
import {
  type ContainerFile,
  ContainerFiles,
  type ContainerFilesOptions,
  type FileRequest,
} from './container-files.ts';
import { ContainerRoots } from './container-roots.ts';
import type { FileState } from './file-state.ts';
import type { SourceContainer } from '../../../lib/cri/container-source.ts';
import { directoryOf } from '../directory-path.ts';
import type { CompiledTrap } from '../policy/matching.ts';
import type { ProcessFilter } from '../process-filter.ts';

export interface TrapFilesOptions {
  readonly identify: Identify;
  /** Called when a path of this container may lead to another file now. */
  readonly onChange: (containerId: string) => void;
  readonly onProblem: (problem: RampartError) => void;
}

/** The state of a trap's path. */
export interface FollowedTrap {
  readonly state: FileState;
  /** Undefined if all processes raise alerts. */
  readonly processes: ProcessFilter | undefined;
}

/** One trap's file in a container, and its programs. */
interface Followed extends Disposable {
  readonly file: ContainerFile;
  readonly programs: readonly ContainerFile[];
}

/** A refused container may be one whose process is just being replaced, so it is retried after this. */
const REFUSED_AGAIN_MS = 5000;

/** The part of TrapFiles that the agent uses. */
export type FollowedFiles = Disposable &
  Pick<TrapFiles, 'droppedMoved' | 'follow' | 'forget' | 'overflows' | 'unwatched'>;

/** Follows files until it is disposed. */
export class TrapFiles implements Disposable {
  readonly #options: TrapFilesOptions;
  readonly #files: ContainerFiles;
  readonly #forFiles: ContainerFilesOptions;
  /** Created with the first trap for a directory: it has its own inotify instances. */
  #directories: ContainerDirectories | undefined;
  /** Keyed by container id, then by trap. */
  readonly #byContainer = new Map<string, Map<string, Followed>>();
  readonly #refused = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: TrapFilesOptions) {
    this.#options = options;
    this.#forFiles = {
      roots: new ContainerRoots(),
      identify: options.identify,
      onProblem: options.onProblem,
      onChange: ({ request }) => options.onChange(request.containerId),
    };
    this.#files = new ContainerFiles(this.#forFiles);
  }

  /**
   * From now on, follows these traps in the container and no others. Returns the state of each. If it throws, the
   * previous traps are still followed, and no others: the call may be repeated.
   */
  follow(
    { id, root }: Pick<SourceContainer, 'id' | 'root'>,
    traps: readonly CompiledTrap[],
  ): ReadonlyMap<CompiledTrap, FollowedTrap> {
    const before = this.#byContainer.get(id);
    const now = new Map<CompiledTrap, Followed>();
    const byKey = new Map<string, Followed>();
    // The new files become visible only once all of them were created.
    using added = new DisposableStack();
    this.#files.together(() => {
      for (const trap of traps) {
        const key = keyOf(trap);
        let followed = before?.get(key);
        if (followed === undefined || isRefused(followed) || !isFor(followed, root, trap))
          followed = added.use(this.#add({ id, root }, trap, followed));
        byKey.set(key, followed);
        now.set(trap, followed);
      }
    });
    added.move();
    this.#byContainer.set(id, byKey);
    // The new ones were added before the old ones are disposed: a path that both follow is followed without a gap.
    using replaced = new DisposableStack();
    for (const [key, followed] of before ?? []) if (byKey.get(key) !== followed) replaced.use(followed);
    replaced.dispose();
    if ([...now.values()].some(isRefused)) this.#askAgain(id);
    else this.#refused.delete(id);
    return new Map(
      [...now].map(([trap, { file, programs }]) => [
        trap,
        { state: file.state, processes: filterOf(trap, programs) },
      ]),
    );
  }

  #add(
    { id, root }: Pick<SourceContainer, 'id' | 'root'>,
    { path, create, modeBits, processes }: CompiledTrap,
    before: Followed | undefined,
  ): Followed {
    using unfinished = new DisposableStack();
    const add = (
      request: Pick<FileRequest, 'path' | 'create' | 'modeBits' | 'keepsMoved'>,
      from?: ContainerFile,
    ) => unfinished.use(this.#files.add({ root, containerId: id, ...request }, from));
    const directory = directoryOf(path);
    const file =
      directory === undefined
        ? add({ path, create, modeBits }, before?.file)
        : unfinished.use(
            this.#openDirectories().add({ root, containerId: id, path, create, modeBits }, directory),
          );
    const programs = (processes?.paths ?? []).map((program) =>
      add({ path: program, create: false, modeBits: 0, keepsMoved: false }),
    );
    const parts = unfinished.move();
    return { file, programs, [Symbol.dispose]: () => parts.dispose() };
  }

  #openDirectories(): ContainerDirectories {
    return (this.#directories ??= new ContainerDirectories(this.#forFiles));
  }

  forget(containerId: string): void {
    for (const followed of this.#byContainer.get(containerId)?.values() ?? []) followed[Symbol.dispose]();
    this.#byContainer.delete(containerId);
    this.#refused.delete(containerId);
  }

  /** Number of moved files that are no longer watched, because a trap has at most MAX_MOVED_FILES of them in a container. */
  get droppedMoved(): number {
    return this.#files.droppedMoved;
  }

  /** Counts of unwatched files in directories of traps. */
  get unwatched(): Unwatched {
    return this.#directories?.unwatched ?? { files: 0, directories: 0 };
  }

  /** How often a kernel queue overflowed; all paths are then looked up again. */
  get overflows(): number {
    return this.#files.stats.overflows + (this.#directories?.overflows ?? 0);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#files[Symbol.dispose]();
    this.#directories?.[Symbol.dispose]();
    this.#byContainer.clear();
  }

  #askAgain(id: string): void {
    this.#refused.add(id);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const ids = [...this.#refused];
      this.#refused.clear();
      for (const refused of ids) this.#options.onChange(refused);
    }, REFUSED_AGAIN_MS);
  }
}

function isRefused({ file, programs }: Followed): boolean {
  return [file, ...programs].some(({ state }) => state.kind === 'refused');
}

/** Undefined, that is all processes raise alerts, if it is unknown which programs do. */
function filterOf(
  { processes }: CompiledTrap,
  programs: readonly ContainerFile[],
): ProcessFilter | undefined {
  if (processes === undefined) return undefined;
  const { kind } = processes;
  if (kind === 'only' && programs.some(({ state }) => state.kind === 'refused')) return undefined;
  const files = programs.flatMap(({ state }) => (state.kind === 'watched' ? [state.identity] : []));
  return { kind, files };
}

function keyOf({ policyKey, slot }: CompiledTrap): string {
  return `${policyKey}/${slot}`;
}

function isFor({ file: { request }, programs }: Followed, root: string, trap: CompiledTrap): boolean {
  const { paths = [] } = trap.processes ?? {};
  return (
    request.root === root &&
    request.path === trap.path &&
    request.create === trap.create &&
    request.modeBits === trap.modeBits &&
    programs.length === paths.length &&
    programs.every((program, at) => program.request.path === paths[at])
  );
}
