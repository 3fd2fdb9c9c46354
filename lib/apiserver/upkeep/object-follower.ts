/** Follows the objects of every served kind, including kinds that are added later. */
import { setImmediate as turn } from 'node:timers/promises';

import type { Logger } from '../../telemetry/log.ts';
import { Backoff } from '../../time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import type { Registry } from '../resources/registry.ts';
import { ExpiredError } from '../store/errors.ts';
import type { ChangeType, StoredObject } from '../store/object.ts';
import type { Store } from '../store/store.ts';
import type { Watch } from '../store/watch.ts';

/** Receives changes, those of one kind in order, but different kinds in any order. Must not throw. */
export interface ObjectListener {
  /** Called for each object of a list (`ADDED`), and for each change. */
  object(type: ChangeType, object: StoredObject): void;
  /** Called before all objects of a kind are listed again: those that do not come again no longer exist. */
  listBegins?(storeName: string): void;
  listEnds?(storeName: string): void;
}

interface ObjectFollowerOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly listener: ObjectListener;
  /** Whether to follow a kind. Default: all kinds. */
  readonly follows?: (storeName: string) => boolean;
  readonly logger?: Logger | undefined;
  readonly clock?: Clock | undefined;
}

interface Followed {
  readonly controller: AbortController;
  readonly ended: Promise<void>;
  watch: Watch | undefined;
}

export class ObjectFollower {
  readonly #options: ObjectFollowerOptions;
  readonly #clock: Clock;
  readonly #followed = new Map<string, Followed>();
  #failures = 0;

  constructor(options: ObjectFollowerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Number of lists and watches that failed and were restarted, except because of compacted history. */
  get failures(): number {
    return this.#failures;
  }

  get kinds(): number {
    return this.#followed.size;
  }

  /** Follows until the signal aborts; resolves when all watches have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { registry } = this.#options;
    const stopped = Promise.withResolvers<void>();
    const sync = (): void => this.#sync(signal);
    using _listening = registry.onChange(sync);
    signal.addEventListener('abort', () => stopped.resolve(), { once: true });
    if (!signal.aborted) {
      sync();
      await stopped.promise;
    }
    for (const { controller } of this.#followed.values()) controller.abort();
    await Promise.all([...this.#followed.values()].map(({ ended }) => ended));
  }

  /** Resolves when the listener has received all changes made before the call. @throws the signal's reason. */
  async caughtUp(signal: AbortSignal): Promise<void> {
    const { version } = this.#options.store;
    for (let waitMs = 0; ; waitMs = Math.min(waitMs + 1, 50)) {
      signal.throwIfAborted();
      const behind = [...this.#followed.values()].some(({ watch }) => (watch?.version ?? 0n) < version);
      if (!behind) return;
      if (waitMs < 3) await turn();
      else await sleep(this.#clock, waitMs, signal);
    }
  }

  #sync(signal: AbortSignal): void {
    if (signal.aborted) return;
    const { registry, follows = () => true } = this.#options;
    const served = new Set<string>();
    for (const { storeName } of registry.sets) if (follows(storeName)) served.add(storeName);
    for (const [storeName, { controller }] of this.#followed) {
      if (served.has(storeName)) continue;
      controller.abort();
      this.#followed.delete(storeName);
    }
    for (const storeName of served) {
      if (this.#followed.has(storeName)) continue;
      const controller = new AbortController();
      const followed: Followed = {
        controller,
        // Deferred until `followed` exists and all listeners of the registry were called.
        ended: Promise.resolve().then(() => this.#follow(storeName, followed)),
        watch: undefined,
      };
      this.#followed.set(storeName, followed);
    }
  }

  async #follow(storeName: string, followed: Followed): Promise<void> {
    const { signal } = followed.controller;
    const backoff = new Backoff({ baseMs: 50, maxMs: 30_000 });
    while (!signal.aborted) {
      try {
        const fromVersion = await this.#list(storeName, signal);
        await this.#watch(storeName, fromVersion, followed, backoff);
      } catch (error) {
        followed.watch = undefined;
        if (signal.aborted) return;
        // The watch was too slow, and the history is compacted: lists again at once.
        if (error instanceof ExpiredError) continue;
        this.#failures++;
        this.#options.logger?.warn({ err: error, resource: storeName }, 'cannot watch objects; retrying');
        await sleep(this.#clock, backoff.nextMs(), signal).catch(() => undefined);
      }
    }
  }

  async #list(storeName: string, signal: AbortSignal): Promise<bigint> {
    const { store, listener } = this.#options;
    listener.listBegins?.(storeName);
    const { version, portions } = store.listPortions(storeName);
    for (const objects of portions) {
      for (const object of objects) listener.object('ADDED', object);
      await turn();
      signal.throwIfAborted();
    }
    listener.listEnds?.(storeName);
    return version;
  }

  async #watch(storeName: string, fromVersion: bigint, followed: Followed, backoff: Backoff): Promise<void> {
    const { store, listener } = this.#options;
    const { signal } = followed.controller;
    using watch = store.watch(storeName, { fromVersion, signal });
    followed.watch = watch;
    for await (const changes of watch) {
      backoff.reset();
      for (const { type, object } of changes) listener.object(type, object);
    }
  }
}
