/** Caches answers that many callers ask for: they share one request, and its answer is reused while it is fresh. */
import { orAborted } from './abort.ts';
import { type Clock, systemClock } from './clock.ts';

/** How long an answer is reused. */
export type Freshness =
  /** Counted from the request: changes after it may not be in the answer. A request that takes longer than this gets no more callers. */
  | { readonly sinceStartMs: number }
  /** Counted from the answer, and derived from how long the request took: for costly reads. Callers join a request until it ends. */
  | { readonly sinceEndMs: (tookMs: number) => number };

interface SingleFlightCacheOptions {
  readonly fresh: Freshness;
  /** Limit of answers; beyond it, the oldest is dropped. */
  readonly maxEntries: number;
  readonly clock?: Pick<Clock, 'monotonicMs'>;
}

interface Flight<Value> {
  readonly answer: Promise<Value>;
  readonly stop: AbortController;
  freshUntilMs: number;
  isUnderWay: boolean;
  /** How many callers wait for the answer. */
  waiting: number;
}

/**
 * Keeps answers by key, in memory only. A failure goes to all waiting callers, and is not kept.
 *
 * @example
 * const pods = new SingleFlightCache<Pod[]>({ fresh: { sinceStartMs: 5_000 }, maxEntries: 100 });
 * const ofShop = await pods.get('shop', (signal) => listPods('shop', signal), { signal });
 */
export class SingleFlightCache<Value> {
  readonly #fresh: Freshness;
  readonly #maxEntries: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** The oldest first. */
  readonly #flights = new Map<string, Flight<Value>>();

  constructor({ fresh, maxEntries, clock = systemClock }: SingleFlightCacheOptions) {
    this.#fresh = fresh;
    this.#maxEntries = maxEntries;
    this.#clock = clock;
  }

  get size(): number {
    return this.#flights.size;
  }

  /**
   * The answer that is still fresh, or that of the request under way, or that of a new call of `ask`.
   *
   * @param ask - Its signal aborts once the signals of all waiting callers have.
   * @param options.isAnew - Always calls `ask`: for callers that need the present state.
   * @throws what `ask` throws, and the reason of `options.signal`
   */
  async get(
    key: string,
    ask: (signal: AbortSignal) => Promise<Value>,
    { signal, isAnew = false }: { readonly signal?: AbortSignal | undefined; readonly isAnew?: boolean } = {},
  ): Promise<Value> {
    signal?.throwIfAborted();
    const nowMs = this.#clock.monotonicMs();
    const known = isAnew ? undefined : this.#flights.get(key);
    const flight = known !== undefined && nowMs < known.freshUntilMs ? known : this.#start(key, ask, nowMs);
    flight.waiting++;
    try {
      return await orAborted(flight.answer, signal);
    } finally {
      flight.waiting--;
      if (flight.waiting === 0 && flight.isUnderWay) {
        this.#forget(key, flight);
        flight.stop.abort(signal?.reason);
      }
    }
  }

  #start(key: string, ask: (signal: AbortSignal) => Promise<Value>, nowMs: number): Flight<Value> {
    const fresh = this.#fresh;
    const stop = new AbortController();
    const flight: Flight<Value> = {
      ...{ stop, isUnderWay: true, waiting: 0 },
      // `async`, so that an exception thrown synchronously becomes a rejection, too.
      answer: (async () => ask(stop.signal))(),
      freshUntilMs: 'sinceStartMs' in fresh ? nowMs + fresh.sinceStartMs : Infinity,
    };
    flight.answer.then(
      () => {
        flight.isUnderWay = false;
        if ('sinceStartMs' in fresh) return;
        const endMs = this.#clock.monotonicMs();
        flight.freshUntilMs = endMs + fresh.sinceEndMs(endMs - nowMs);
      },
      () => {
        flight.isUnderWay = false;
        this.#forget(key, flight);
      },
    );
    this.#flights.delete(key);
    this.#flights.set(key, flight);
    for (const [oldest, { freshUntilMs }] of this.#flights) {
      if (this.#flights.size <= this.#maxEntries && nowMs < freshUntilMs) break;
      this.#flights.delete(oldest);
    }
    return flight;
  }

  #forget(key: string, flight: Flight<Value>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
  }
}
