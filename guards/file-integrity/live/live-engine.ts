import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import { NodeWatch } from './node-watch.ts';
import type { LiveOptions } from './options.ts';
import type { LiveJob } from './live-job.ts';

/** Dispose it when the job or its baseline is not there any more. */
export type Followed = AsyncDisposable;

export class LiveEngine {
  readonly #options: LiveOptions;
  readonly #watches = new Map<string, { readonly containers: ContainerSource; readonly watch: NodeWatch }>();

  constructor(options: LiveOptions) {
    this.#options = options;
    options.signal?.addEventListener('abort', () => this.#close(), { once: true });
  }

  /**
   * Follows a job until what it returns is disposed.
   *
   * @returns undefined when the signal aborts first
   * @throws RampartError as `new ChangeWatch`; Selection's for rules that are too large
   */
  follow(job: LiveJob, signal: AbortSignal): Followed | undefined {
    if (signal.aborted || this.#options.signal?.aborted === true) return undefined;
    return this.#watchOf(job).follow(job);
  }

  #watchOf({ root: { directory }, containers }: LiveJob): NodeWatch {
    const known = this.#watches.get(directory);
    if (known?.containers === containers) return known.watch;
    const watch = new NodeWatch(directory, containers, this.#options, () => {
      if (this.#watches.get(directory)?.watch === watch) this.#watches.delete(directory);
    });
    this.#watches.set(directory, { containers, watch });
    return watch;
  }

  #close(): void {
    for (const { watch } of [...this.#watches.values()]) watch[Symbol.dispose]();
  }
}
