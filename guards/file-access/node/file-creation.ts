/** Creation of a file that a trap requests, if nothing has its name. */
import { basename, dirname } from 'node:path/posix';

import { SystemCallError } from '../../../lib/ebpf/libc.ts';
import { createInRoot, openInRoot } from '../../../lib/sensor/paths/resolve.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import type { ContainerRoot } from './container-root.ts';
import { refusedCreation } from './created-path.ts';

const LAST_PAUSE_MS = 60_000;

/** Errors that only a change of the path ends: retrying after a while is pointless. */
const waitsForPath: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ESRCH']);

/**
 * Creates one file in one root. A file that is deleted repeatedly, or cannot be created now (a read-only or full file
 * system), is created again after growing pauses (1 s to 60 s). Parents are never created.
 */
export class FileCreation implements Disposable {
  readonly #root: ContainerRoot;
  readonly #path: string;
  readonly #again: () => void;
  readonly #backoff = new Backoff({ baseMs: 1000, maxMs: LAST_PAUSE_MS });
  #notBeforeMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #failure: string | undefined;

  /** @param again - Called when it is time for another {@link FileCreation.attempt}, if the file is still missing. */
  constructor(root: ContainerRoot, path: string, again: () => void) {
    this.#root = root;
    this.#path = path;
    this.#again = again;
  }

  /**
   * Creates the file now or, after recent attempts, schedules it. Nothing that exists is touched, not even a dangling
   * symbolic link.
   *
   * @returns why the file could not be created; undefined if it was, or soon will be.
   */
  attempt(modeBits: number): string | undefined {
    const now = performance.now();
    if (now < this.#notBeforeMs) {
      this.#schedule();
      return this.#failure;
    }
    // After a long pause, the delays start again at the shortest.
    if (now > this.#notBeforeMs + 2 * LAST_PAUSE_MS) this.#backoff.reset();
    this.#failure = this.#create(modeBits);
    return this.#failure;
  }

  #create(modeBits: number): string | undefined {
    try {
      using root = this.#root.open();
      using directory = openInRoot(root, dirname(this.#path), { directory: true });
      const name = basename(this.#path);
      const refusal = refusedCreation(root, directory, name);
      if (refusal !== undefined) {
        this.#pause();
        return refusal;
      }
      if (!createInRoot(directory, name, modeBits)) {
        return 'it was not created because a dangling symbolic link has its name';
      }
      this.#pause();
      return undefined;
    } catch (error) {
      if (!(error instanceof SystemCallError)) return String(error);
      if (error.errno === 'ENOENT') return 'it was not created because its directory does not exist';
      if (!waitsForPath.has(error.errno)) {
        this.#pause();
        this.#schedule();
      }
      return error.message;
    }
  }

  #pause(): void {
    this.#notBeforeMs = performance.now() + this.#backoff.nextMs();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#again();
    }, this.#notBeforeMs - performance.now());
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
