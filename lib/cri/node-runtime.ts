/** The machine's container runtime, shared by the whole process. It is searched for until it answers, and may come and go. */
import { type Cri, openCri } from './cri.ts';
import type { NodeContainer } from './node-container.ts';
import { type ContainerWatch, watchContainers } from './watch.ts';
import { Backoff } from '../time/backoff.ts';
import { sleep, systemClock } from '../time/clock.ts';
import { Listeners } from '../time/listeners.ts';
import type { Logger } from '../telemetry/log.ts';
import type { IndexedContainer } from './container-index.ts';
import type { ContainerSource, SourceContainer } from './container-source.ts';
import { criSource } from './cri-source.ts';
import { messageOf } from '../errors/errors.ts';

interface NodeRuntimeOptions {
  /** Default: the first of `usualSockets` that exists. */
  readonly socketPath: string | undefined;
  readonly logger: Logger;
  /** Whether the machine may have no runtime, unlike the node of a cluster. Default: false. */
  readonly isOptional?: boolean;
}

/**
 * A runtime whose last answer is older counts as gone: it is queried at least every 30 s.
 */
const STALE_MS = 45_000;
const CHECK_MS = 5_000;
const notQueried = 'the container runtime has not been queried yet';
const notListed = 'the container runtime has not listed its containers yet';

type RuntimeState =
  | {
      readonly containers: Iterable<NodeContainer>;
      readonly cri: Cri;
      /** `containerd`, the part before `://` in container IDs. */
      readonly name: string;
      readonly version: string;
    }
  | { readonly unavailable: string };

/** Does nothing before `run` is called; ends with the signal of `run`. */
export class NodeRuntime implements ContainerSource {
  readonly #options: NodeRuntimeOptions;
  readonly #listeners = new Listeners<[id: string]>();
  readonly #stateListeners = new Listeners();
  readonly #synced = Promise.withResolvers<void>();
  #cri: Cri | undefined;
  #watch: ContainerWatch | undefined;
  #source: ContainerSource | undefined;
  #runtime = { name: '', version: '' };
  #unavailable: string | undefined = notQueried;
  #hasAnswered = false;

  constructor(options: NodeRuntimeOptions) {
    this.#options = options;
  }

  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  list(): Iterable<SourceContainer> {
    return this.#source?.list() ?? [];
  }

  get(id: string): SourceContainer | undefined {
    return this.#source?.get(id);
  }

  reported(id: string): IndexedContainer | undefined {
    return this.#source?.reported(id);
  }

  subscribe(listener: (id: string) => void): Disposable {
    return this.#listeners.add(listener);
  }

  /** All containers in any state, or why they are unknown. */
  get state(): RuntimeState {
    const [cri, watch] = [this.#cri, this.#watch];
    if (this.#unavailable !== undefined || cri === undefined || watch === undefined) {
      return { unavailable: this.#unavailable ?? notQueried };
    }
    return { containers: watch.containers.values(), cri, ...this.#runtime };
  }

  /** Why the containers are unknown; undefined if they are known. */
  get problem(): string | undefined {
    const { state } = this;
    return 'unavailable' in state ? state.unavailable : undefined;
  }

  /** See {@link ContainerSource.absence}. A runtime that has ever answered this process is never absent: it may be restarting. */
  get absence(): string | undefined {
    if (this.#options.isOptional !== true || this.#hasAnswered || this.#unavailable === notQueried)
      return undefined;
    return this.#unavailable;
  }

  onState(listener: () => void): Disposable {
    return this.#stateListeners.add(listener);
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      using cri = await this.#find(signal);
      await using watch = watchContainers(cri, { signal, onError: (error) => this.#failed(error) });
      await this.#follow(cri, watch, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      [this.#cri, this.#watch, this.#source] = [undefined, undefined, undefined];
    }
  }

  /** Tries until a runtime answers. */
  async #find(signal: AbortSignal): Promise<Cri> {
    const { socketPath, logger } = this.#options;
    const backoff = new Backoff({ baseMs: 500, maxMs: 10_000 });
    for (;;) {
      signal.throwIfAborted();
      let cri: Cri | undefined;
      try {
        cri = openCri({ socketPath, signal });
        this.#runtime = await cri.version({ signal });
        this.#hasAnswered = true;
        this.#setUnavailable(notListed);
        logger.info({ ...this.#runtime, socket: cri.socketPath }, 'the container runtime responds');
        return cri;
      } catch (error) {
        cri?.[Symbol.dispose]();
        signal.throwIfAborted();
        const why = messageOf(error);
        if (this.#unavailable !== why) {
          logger.warn(`no pods of this machine are known yet, retrying: ${why}`);
          this.#setUnavailable(why);
        }
        await sleep(systemClock, backoff.nextMs(), signal);
      }
    }
  }

  async #follow(cri: Cri, watch: ContainerWatch, signal: AbortSignal): Promise<void> {
    await watch.synced(signal);
    [this.#cri, this.#watch, this.#unavailable] = [cri, watch, undefined];
    this.#source = criSource(watch, this.#runtime.name, signal);
    this.#source.subscribe((id) => this.#listeners.notify(id));
    // Subscribes to the watch rather than to the source, which has only running containers: changes of others count too.
    watch.onChange(() => this.#stateListeners.notify());
    this.#synced.resolve();
    this.#stateListeners.notify();
    for (;;) {
      await sleep(systemClock, CHECK_MS, signal);
      if (watch.stats().ageMs < STALE_MS) {
        if (this.#unavailable === undefined) continue;
        this.#options.logger.info('the container runtime responds again');
        this.#setUnavailable(undefined);
      } else if (this.#unavailable === undefined) {
        this.#options.logger.warn({ err: this.#lastError }, 'the container runtime does not respond');
        this.#setUnavailable('the container runtime does not respond');
      }
    }
  }

  #lastError: unknown;

  #failed(error: unknown): void {
    this.#lastError = error;
    this.#options.logger.debug({ err: error }, 'a call to the container runtime failed');
  }

  #setUnavailable(why: string | undefined): void {
    this.#unavailable = why;
    this.#stateListeners.notify();
  }
}
