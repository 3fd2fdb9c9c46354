/** Versions of policies that could not be opened, with the reason and the time of the next attempt. */
import { KeyedBackoff } from '../../../lib/time/backoff.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { Policy } from './policy.ts';

interface Failure {
  readonly version: string;
  readonly problem: string;
  /** When to try again, on the monotonic clock. */
  readonly retryMs: number;
}

/** Retried, since a module that is unavailable now may be available later. */
const RETRY = { baseMs: 5000, maxMs: 60_000 };

export class FailedVersions {
  readonly #clock: Clock;
  /** Keyed by the ID of the policy. */
  readonly #failures = new Map<string, Failure>();
  readonly #backoff = new KeyedBackoff<string>(RETRY);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Why this version cannot be opened; undefined if it should be tried now. */
  problemOf({ id, version }: Policy): string | undefined {
    const failed = this.#failures.get(id);
    if (failed?.version === version)
      return this.#clock.monotonicMs() < failed.retryMs ? failed.problem : undefined;
    this.#backoff.forget(id);
    return undefined;
  }

  add({ id, version }: Policy, problem: string): void {
    const retryMs = this.#clock.monotonicMs() + this.#backoff.nextMs(id);
    this.#failures.set(id, { version, problem, retryMs });
  }

  forget(id: string): void {
    this.#failures.delete(id);
    this.#backoff.forget(id);
  }

  /** Time until the first of these policies is due, in ms: more than 0, and at most the longest pause. */
  waitMs(ids: readonly string[]): number {
    const dueMs = ids.map((id) => this.#failures.get(id)?.retryMs ?? Infinity);
    const waitMs = Math.min(...dueMs) - this.#clock.monotonicMs();
    return Math.min(RETRY.maxMs, Math.max(1, waitMs));
  }
}
