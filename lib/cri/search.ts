/** A query that is repeated with growing pauses until it has an answer. */
import { Backoff } from '../time/backoff.ts';
import type { WorkLimit } from './work-limit.ts';

const PAUSE = { baseMs: 200, maxMs: 10_000 };

interface SearchOptions<T> {
  /** Shared by all searches: bounds how many run at a time. */
  readonly limit: WorkLimit;
  /** Makes an attempt; resolves to undefined if there is no answer now. Never rejects. */
  readonly find: () => Promise<T | undefined>;
  /** Called after each attempt. */
  readonly onEnd: (found: T | undefined) => void;
}

export class Search<T> {
  readonly #options: SearchOptions<T>;
  #attempt: Promise<void> | undefined;
  readonly #backoff = new Backoff(PAUSE);
  #nextAtMs = 0;

  constructor(options: SearchOptions<T>) {
    this.#options = options;
  }

  get attempt(): Promise<void> | undefined {
    return this.#attempt;
  }

  /** When the next attempt may begin, on the clock of `performance.now()`. */
  get nextAtMs(): number {
    return this.#nextAtMs;
  }

  /** Begins an attempt, unless one is in progress or the pause has not ended. */
  begin(): void {
    if (this.#attempt !== undefined || performance.now() < this.#nextAtMs) return;
    this.#attempt = this.#options.limit(() => this.#run());
  }

  /** Allows the next attempt immediately. */
  reset(): void {
    this.#backoff.reset();
    this.#nextAtMs = 0;
  }

  async #run(): Promise<void> {
    const found = await this.#options.find();
    this.#attempt = undefined;
    if (found === undefined) this.#nextAtMs = performance.now() + this.#backoff.nextMs();
    else this.reset();
    this.#options.onEnd(found);
  }
}
