import { type FSWatcher, watch } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** Minimum time between two reported changes, so that a file that grows constantly is read in larger portions. */
const PACE_MS = 20;
const BLIND_POLL_MS = 100;

/** Reports changes in a file's directory by inotify(7). If that fails, it reports a change ten times a second. */
export class FileChanges implements Disposable {
  readonly #watcher: FSWatcher | undefined;
  #isBlind = false;
  #hasChanged = false;
  #reportedMs = Number.NEGATIVE_INFINITY;
  #wake: (() => void) | undefined;

  constructor(directory: string) {
    try {
      this.#watcher = watch(directory, { persistent: false }, () => this.#changed());
      this.#watcher.on('error', () => {
        this.#isBlind = true;
        this.#changed();
      });
    } catch {
      this.#isBlind = true;
    }
  }

  /** Waits for a change since the last call, but no longer than `timeoutMs`. Rejects when aborted. */
  async next(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (this.#isBlind) {
      await delay(Math.min(timeoutMs, BLIND_POLL_MS), undefined, { signal });
      return;
    }
    if (!this.#hasChanged) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = setTimeout(resolve, timeoutMs);
      const onAbort = (): void => resolve();
      signal.addEventListener('abort', onAbort);
      if (!signal.aborted) await promise;
      signal.removeEventListener('abort', onAbort);
      clearTimeout(timer);
      this.#wake = undefined;
    }
    signal.throwIfAborted();
    const restMs = this.#reportedMs + PACE_MS - performance.now();
    if (restMs > 0) await delay(restMs, undefined, { signal });
    this.#reportedMs = performance.now();
    this.#hasChanged = false;
  }

  [Symbol.dispose](): void {
    this.#watcher?.close();
  }

  #changed(): void {
    this.#hasChanged = true;
    this.#wake?.();
  }
}
