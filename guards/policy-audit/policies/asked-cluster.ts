/**
 * What policies request from the cluster, never older than the change that triggered an evaluation: an audit after a change must not
 * read the state before it.
 */
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import type {
  ClusterReader,
  KindName,
  ListSelection,
  ReadOptions,
} from '../engine/host-calls/cluster-reader.ts';
import type { JsonObject } from '../engine/evaluator.ts';

/** Longer than a reader caches its answers. */
const KEPT_MS = 10_000;

export class AskedCluster implements ClusterReader {
  readonly #reader: ClusterReader;
  readonly #clock: Clock;
  readonly #changedMs = new Map<string, number>();
  /** Kinds whose changes are reported. For others, nothing is cached. */
  isFollowed: (kind: KindName) => boolean = () => false;

  constructor(reader: ClusterReader, clock: Clock = systemClock) {
    this.#reader = reader;
    this.#clock = clock;
  }

  /** Called with each change of an object of a followed kind. */
  changed({ apiVersion, kind }: KindName): void {
    this.#changedMs.set(`${apiVersion}/${kind}`, this.#clock.monotonicMs());
  }

  get(
    kind: KindName,
    target: { readonly name: string; readonly namespace?: string | undefined },
    options?: ReadOptions,
  ): Promise<JsonObject | undefined> {
    return this.#reader.get(kind, target, this.#options(kind, options));
  }

  list(kind: KindName, selection: ListSelection, options?: ReadOptions): Promise<readonly JsonObject[]> {
    return this.#reader.list(kind, selection, this.#options(kind, options));
  }

  plural(kind: KindName, options?: ReadOptions): Promise<string> {
    return this.#reader.plural(kind, options);
  }

  canI(spec: JsonObject, options?: ReadOptions): Promise<JsonObject> {
    return this.#reader.canI(spec, options);
  }

  #options(kind: KindName, options: ReadOptions = {}): ReadOptions {
    const changedMs = this.#changedMs.get(`${kind.apiVersion}/${kind.kind}`) ?? -Infinity;
    const isStill = this.isFollowed(kind) && this.#clock.monotonicMs() - changedMs > KEPT_MS;
    return isStill ? options : { ...options, fresh: true };
  }
}
