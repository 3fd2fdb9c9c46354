/**
 * The files of the traps that are for the containers of this node.
 *
 * @module
 */
import type { RampartError } from '../../shared/observe/errors.ts';
import type { Identify } from '../../shared/sensor/paths/path-state.ts';
import { type ContainerFile, ContainerFiles, type FileState } from './container-files.ts';
import type { SourceContainer } from '../../shared/cri/container-source.ts';
import type { CompiledTrap } from './matching.ts';

export interface TrapFilesOptions {
  readonly identify: Identify;
  /** One of the files of this container is another now, or may be. */
  readonly onChange: (containerId: string) => void;
  readonly onProblem: (problem: RampartError) => void;
}

/** What is refused may be a container whose process is just being replaced: it is asked for again. */
const REFUSED_AGAIN_MS = 5000;

const unknown: FileState = { kind: 'waiting', why: 'it was not looked at yet' };

/** Follows until it is disposed. */
export class TrapFiles implements Disposable {
  readonly #options: TrapFilesOptions;
  readonly #files: ContainerFiles;
  /** By container, then by trap. */
  readonly #byContainer = new Map<string, Map<string, ContainerFile>>();
  readonly #containerOf = new WeakMap<ContainerFile, string>();
  readonly #refused = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: TrapFilesOptions) {
    this.#options = options;
    this.#files = new ContainerFiles({
      identify: options.identify,
      onProblem: options.onProblem,
      onChange: (file) => {
        const id = this.#containerOf.get(file);
        if (id !== undefined) options.onChange(id);
      },
    });
  }

  /** These traps and no others, from now on. What they lead to is known when it returns. */
  follow(container: SourceContainer, traps: readonly CompiledTrap[]): void {
    const before = this.#byContainer.get(container.id);
    const now = new Map<string, ContainerFile>();
    for (const trap of traps) {
      const key = keyOf(trap);
      const known = before?.get(key);
      if (known !== undefined && known.state.kind !== 'refused' && isFor(known, container, trap)) {
        now.set(key, known);
        continue;
      }
      const { path, create, modeBits } = trap;
      const file = this.#files.add(
        { root: container.root, containerId: container.id, path, create, modeBits },
        known,
      );
      this.#containerOf.set(file, container.id);
      now.set(key, file);
    }
    // The new ones first: a path that both ask for is followed all the time.
    for (const [key, file] of before ?? []) if (now.get(key) !== file) file[Symbol.dispose]();
    this.#byContainer.set(container.id, now);
    this.#askAgain(container.id, now);
  }

  forget(containerId: string): void {
    for (const file of this.#byContainer.get(containerId)?.values() ?? []) file[Symbol.dispose]();
    this.#byContainer.delete(containerId);
    this.#refused.delete(containerId);
  }

  /** What a trap that is followed leads to. */
  stateOf(containerId: string, trap: CompiledTrap): FileState {
    return this.#byContainer.get(containerId)?.get(keyOf(trap))?.state ?? unknown;
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

  #askAgain(id: string, files: ReadonlyMap<string, ContainerFile>): void {
    this.#refused.delete(id);
    for (const { state } of files.values()) {
      if (state.kind !== 'refused') continue;
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

function keyOf({ policyNamespace, policyName, slot }: CompiledTrap): string {
  return `${policyNamespace}/${policyName}/${slot}`;
}

function isFor({ request }: ContainerFile, { root }: SourceContainer, trap: CompiledTrap): boolean {
  return (
    request.root === root &&
    request.path === trap.path &&
    request.create === trap.create &&
    request.modeBits === trap.modeBits
  );
}
