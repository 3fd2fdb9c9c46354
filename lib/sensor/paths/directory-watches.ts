/** One inotify watch for each directory of the trees that are followed. */
import { pollReadable } from '../../ebpf/ffi.ts';
import { type Fd, inotifyAddWatch, inotifyInit, inotifyRemoveWatch, readAvailable } from '../../ebpf/libc.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { DirectoryNode, DirectoryTree } from './directory-tree.ts';
import { decodeInotify, halfOfAllWatches, inotifyBits, QueueOverflows } from './inotify.ts';

/** A name appears or goes; what a file contains is of no interest. */
const WATCHED =
  inotifyBits.CREATE |
  inotifyBits.DELETE |
  inotifyBits.MOVED_FROM |
  inotifyBits.MOVED_TO |
  inotifyBits.ONLYDIR;
const DIRECTORY_CAME = inotifyBits.MOVED_TO | inotifyBits.ISDIR;

interface TreeWatchesOptions {
  readonly maxDirectories: number | undefined;
  /** Called when there are events: read them by {@link TreeWatches.drain}. */
  readonly onReadable: () => void;
  readonly onProblem: (problem: RampartError) => void;
}

interface NameListener {
  /** @param isMoved - A directory was moved there. */
  readonly onName: (node: DirectoryNode, name: string, isMoved: boolean) => void;
  /** The kernel's queue was full: any event may be missing. */
  readonly onOverflow: () => void;
}

/** Which nodes share a watch: the same directory may be in several trees, and several times in one by mounts. */
export class TreeWatches implements Disposable {
  readonly #options: TreeWatchesOptions;
  readonly #maxDirectories: number;
  readonly #stack = new DisposableStack();
  readonly #inotify: Fd;
  readonly #buffer = new Uint8Array(64 * 1024);
  readonly #byWd = new Map<number, Set<DirectoryNode>>();
  readonly #overflows = new QueueOverflows();
  #limitReported = false;

  /** @throws {RampartError} `LIMIT` when fs.inotify.max_user_instances is reached. */
  constructor(options: TreeWatchesOptions) {
    this.#options = options;
    this.#maxDirectories = options.maxDirectories ?? Math.floor(halfOfAllWatches() / 2);
    this.#inotify = this.#stack.use(inotifyInit());
    this.#stack.use(pollReadable(this.#inotify.number, options.onReadable));
  }

  get size(): number {
    return this.#byWd.size;
  }

  get overflows(): number {
    return this.#overflows.count;
  }

  /**
   * Watches a directory. Register it at once, see {@link TreeWatches.register}.
   *
   * @param shown - Its path for messages.
   * @returns the watch descriptor; undefined if no watch is left.
   */
  watch(directory: Fd, shown: string): number | undefined {
    const wd = this.#add(directory, shown);
    if (wd === undefined || this.#byWd.has(wd) || this.#byWd.size < this.#maxDirectories) return wd;
    inotifyRemoveWatch(this.#inotify, wd);
    this.#reportLimit(
      new RampartError(errorCodes.LIMIT, {
        what: `cannot watch the directory ${shown}, nor any directory after it`,
        why: `${this.#maxDirectories} directories are watched, and the rest of fs.inotify.max_user_watches is reserved`,
        next: 'Raise fs.inotify.max_user_watches, or name a directory further down',
      }),
    );
    return undefined;
  }

  /** Whether a descriptor is the directory of a node. */
  is(directory: Fd, node: DirectoryNode, shown: string): boolean {
    const wd = this.#add(directory, shown);
    if (wd !== undefined && !this.#byWd.has(wd)) inotifyRemoveWatch(this.#inotify, wd);
    return wd === node.wd;
  }

  #add(directory: Fd, shown: string): number | undefined {
    try {
      return inotifyAddWatch(this.#inotify, directory, WATCHED, `the directory ${shown}`);
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#reportLimit(error);
      return undefined;
    }
  }

  #reportLimit(problem: RampartError): void {
    if (this.#limitReported) return;
    this.#limitReported = true;
    this.#options.onProblem(problem);
  }

  /** Call it when nothing waits for a retry: the next time the limit is reached, it is reported again. */
  allIsWell(): void {
    this.#limitReported = false;
  }

  register(node: DirectoryNode): void {
    const nodes = this.#byWd.get(node.wd);
    if (nodes === undefined) this.#byWd.set(node.wd, new Set([node]));
    else nodes.add(node);
  }

  /** Removes a node; its watch ends with the last one. */
  forget(node: DirectoryNode): void {
    const nodes = this.#byWd.get(node.wd);
    if (nodes === undefined || !nodes.delete(node) || nodes.size > 0) return;
    this.#byWd.delete(node.wd);
    inotifyRemoveWatch(this.#inotify, node.wd);
  }

  nodeOf(wd: number, tree: DirectoryTree): DirectoryNode | undefined {
    return [...(this.#byWd.get(wd) ?? [])].find((node) => node.tree === tree);
  }

  /** Hands out the events of one buffer: a directory that changes faster must not hold up the event loop. */
  drain({ onName, onOverflow }: NameListener): void {
    try {
      const length = readAvailable(this.#inotify, this.#buffer);
      for (const { wd, mask, name } of decodeInotify(this.#buffer.subarray(0, length))) {
        if (mask & inotifyBits.Q_OVERFLOW) {
          const problem = this.#overflows.add();
          if (problem !== undefined) this.#options.onProblem(problem);
          onOverflow();
        }
        if (name === '') continue;
        const isMoved = (mask & DIRECTORY_CAME) === DIRECTORY_CAME;
        for (const node of this.#byWd.get(wd) ?? []) onName(node, name, isMoved);
      }
    } catch (error) {
      if (!(error instanceof RampartError)) throw error;
      this.#options.onProblem(error);
    }
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
    this.#byWd.clear();
  }
}
