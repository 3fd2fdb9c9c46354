/**
 * Answers what policies request from the cluster, never with a state older than the change that triggered an
 * evaluation: an audit after a change must not read the state before it.
 */
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type { ClusterReader, KindName, ReadOptions } from '../engine/host-calls/cluster-reader.ts';
import type { JsonObject } from '../engine/evaluator.ts';

/** How long a change is remembered: longer than readers cache their answers. */
const KEPT_MS = 10_000;

export class AskedCluster implements ClusterReader {
  readonly #own: ClusterReader;
  readonly #clock: Clock;
  readonly #changedMs = new Map<string, number>();
  /** Kinds whose changes are reported. For others, nothing is cached. */
  isFollowed: (kind: KindName) => boolean = () => false;

  constructor(reader: ClusterReader, clock: Clock = systemClock) {
    this.#clock = clock;
    this.#own = this.through(reader);
  }

  /** Wraps another reader, which may have other permissions: wrapped readers share only the knowledge of what has changed. */
  through(reader: ClusterReader): ClusterReader {
    return {
      get: (kind, target, options) => reader.get(kind, target, this.#options(kind, options)),
      list: (kind, selection, options) => reader.list(kind, selection, this.#options(kind, options)),
      plural: (kind, options) => reader.plural(kind, options),
      canI: (spec, options) => reader.canI(spec, options),
    };
  }

  /** Called with each change of an object of a followed kind. */
  changed({ apiVersion, kind }: KindName): void {
    this.#changedMs.set(`${apiVersion}/${kind}`, this.#clock.monotonicMs());
  }

  get(...asked: Parameters<ClusterReader['get']>): ReturnType<ClusterReader['get']> {
    return this.#own.get(...asked);
  }

  list(...asked: Parameters<ClusterReader['list']>): ReturnType<ClusterReader['list']> {
    return this.#own.list(...asked);
  }

  plural(...asked: Parameters<ClusterReader['plural']>): Promise<string> {
    return this.#own.plural(...asked);
  }

  canI(...asked: Parameters<ClusterReader['canI']>): Promise<JsonObject> {
    return this.#own.canI(...asked);
  }

  #options(kind: KindName, options: ReadOptions = {}): ReadOptions {
    const changedMs = this.#changedMs.get(`${kind.apiVersion}/${kind.kind}`) ?? -Infinity;
    const isStill = this.isFollowed(kind) && this.#clock.monotonicMs() - changedMs > KEPT_MS;
    return isStill ? options : { ...options, fresh: true };
  }
}
