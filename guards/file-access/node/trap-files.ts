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
  /** A path of this container has another file now, or may have. */
  readonly onChange: (containerId: string) => void;
  readonly onProblem: (problem: RampartError) => void;
}

/** The state of a trap's path. */
export interface FollowedTrap {
  readonly state: FileState;
  /** Default: all processes raise alerts. */
  readonly processes: ProcessFilter | undefined;
}

/** The files of a trap in a container. */
interface Followed extends Disposable {
  readonly file: ContainerFile;
  readonly programs: readonly ContainerFile[];
}

/** A refused container may be one whose process is just being replaced: it is retried. */
const REFUSED_AGAIN_MS = 5000;

/** The agent's interface to them. */
export type FollowedFiles = Disposable &
  Pick<TrapFiles, 'droppedMoved' | 'follow' | 'forget' | 'overflows' | 'unwatched'>;

/** Follows until it is disposed. */
export class TrapFiles implements Disposable {
  readonly #options: TrapFilesOptions;
  readonly #files: ContainerFiles;
  readonly #forFiles: ContainerFilesOptions;
  /** Made with the first trap for a directory: it has inotify instances of its own. */
  #directories: ContainerDirectories | undefined;
  /** Keyed by container, then by trap. */
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
   * These traps and no others, from now on. Returns what they lead to. Where it throws, what was followed before still
   * is, and nothing else: the same call may be made again.
   */
  follow(
    { id, root }: Pick<SourceContainer, 'id' | 'root'>,
    traps: readonly CompiledTrap[],
  ): ReadonlyMap<CompiledTrap, FollowedTrap> {
    const before = this.#byContainer.get(id);
    const now = new Map<CompiledTrap, Followed>();
    const byKey = new Map<string, Followed>();
    // The new files are published only once all of them exist.
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
    // The new ones first: a path that both ask for is followed all the time.
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

  /** Files that were moved and could not stay watched: more than MAX_MOVED_FILES of one trap in one container. */
  get droppedMoved(): number {
    return this.#files.droppedMoved;
  }

  /** Counts of unwatched files in directories of traps. */
  get unwatched(): Unwatched {
    return this.#directories?.unwatched ?? { files: 0, directories: 0 };
  }

  /** How often a queue of the kernel was full, after which all paths are looked up again. */
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

/** If it is unknown what raises alerts, everything does. */
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
