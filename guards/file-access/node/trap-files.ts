/** The files of the traps that match containers of this node, or the node itself. */
import type { RampartError } from '../../../lib/errors/errors.ts';
import type { Identify } from '../../../lib/sensor/paths/path-state.ts';
import { type ContainerFile, ContainerFiles } from './container-files.ts';
import type { FileState } from './file-state.ts';
import type { SourceContainer } from '../../../lib/cri/container-source.ts';
import type { CompiledTrap } from '../policy/matching.ts';

export interface TrapFilesOptions {
  readonly identify: Identify;
  /** One of the files of this container is another now, or may be. */
  readonly onChange: (containerId: string) => void;
  readonly onProblem: (problem: RampartError) => void;
}

/** What is refused may be a container whose process is just being replaced: it is asked for again. */
const REFUSED_AGAIN_MS = 5000;

/** What an agent asks of them. */
export type FollowedFiles = Disposable & Pick<TrapFiles, 'droppedMoved' | 'follow' | 'forget'>;

/** Follows until it is disposed. */
export class TrapFiles implements Disposable {
  readonly #options: TrapFilesOptions;
  readonly #files: ContainerFiles;
  /** By container, then by trap. */
  readonly #byContainer = new Map<string, Map<string, ContainerFile>>();
  readonly #refused = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: TrapFilesOptions) {
    this.#options = options;
    this.#files = new ContainerFiles({
      identify: options.identify,
      onProblem: options.onProblem,
      onChange: ({ request }) => options.onChange(request.containerId),
    });
  }

  /**
   * These traps and no others, from now on. Returns what they lead to. Where it throws, what was followed before still
   * is, and nothing else: the same call may be made again.
   */
  follow(
    { id, root }: Pick<SourceContainer, 'id' | 'root'>,
    traps: readonly CompiledTrap[],
  ): ReadonlyMap<CompiledTrap, FileState> {
    const before = this.#byContainer.get(id);
    const now = new Map<CompiledTrap, ContainerFile>();
    const byKey = new Map<string, ContainerFile>();
    // Until all of them are there nobody else knows of them.
    using added = new DisposableStack();
    this.#files.together(() => {
      for (const trap of traps) {
        const key = keyOf(trap);
        let file = before?.get(key);
        if (file === undefined || file.state.kind === 'refused' || !isFor(file, root, trap)) {
          const { path, create, modeBits } = trap;
          file = added.use(this.#files.add({ root, containerId: id, path, create, modeBits }, file));
        }
        byKey.set(key, file);
        now.set(trap, file);
      }
    });
    added.move();
    this.#byContainer.set(id, byKey);
    // The new ones first: a path that both ask for is followed all the time.
    using replaced = new DisposableStack();
    for (const [key, file] of before ?? []) if (byKey.get(key) !== file) replaced.use(file);
    replaced.dispose();
    const states = new Map<CompiledTrap, FileState>();
    for (const [trap, { state }] of now) states.set(trap, state);
    this.#askAgain(id, states.values());
    return states;
  }

  forget(containerId: string): void {
    for (const file of this.#byContainer.get(containerId)?.values() ?? []) file[Symbol.dispose]();
    this.#byContainer.delete(containerId);
    this.#refused.delete(containerId);
  }

  /** Files that were moved and could not stay watched: more than MAX_MOVED_FILES of one trap in one container. */
  get droppedMoved(): number {
    return this.#files.droppedMoved;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#files[Symbol.dispose]();
    this.#byContainer.clear();
  }

  #askAgain(id: string, states: Iterable<FileState>): void {
    this.#refused.delete(id);
    for (const { kind } of states) {
      if (kind !== 'refused') continue;
      this.#refused.add(id);
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        const ids = [...this.#refused];
        this.#refused.clear();
        for (const refused of ids) this.#options.onChange(refused);
      }, REFUSED_AGAIN_MS);
      return;
    }
  }
}

function keyOf({ policyKey, slot }: CompiledTrap): string {
  return `${policyKey}/${slot}`;
}

function isFor({ request }: ContainerFile, root: string, trap: CompiledTrap): boolean {
  return (
    request.root === root &&
    request.path === trap.path &&
    request.create === trap.create &&
    request.modeBits === trap.modeBits
  );
}
