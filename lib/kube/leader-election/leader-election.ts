/**
 * One leader among several processes, by a Lease.
 *
 * Why there are never two: a leader may work for `renewDeadlineMs` from the moment that it SENT its last
 * successful renewal. Another takes over no sooner than `leaseDurationSeconds` after the moment that it SAW the
 * lease change last, which is later than that sending, and only if the lease has not changed again
 * (resourceVersion). Both are measured on their own monotonic clocks, so clocks may be set to any time; they may
 * even run at different speeds, as long as the ratio stays below leaseDuration / renewDeadline (1.5 by default).
 * The timestamps in the lease are for people. These are the rules of client-go's leaderelection, with the deadline
 * counted from the sending instead of the answer.
 *
 * Not covered are:
 * - work that does not end when its signal aborts (`onOverrun`);
 * - a request of the leader's work that the network delivers after the loss: what must not happen twice has to be
 *   guarded by a resourceVersion of its own;
 * - a machine that was suspended: CLOCK_MONOTONIC stands still meanwhile (clock_gettime(2)), so a leader there
 *   learns of its loss with its next renewal only;
 * - a person who deletes the lease while it is held: a candidate that has never seen it takes it for a new one.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { Logger } from '../../telemetry/log.ts';
import { type Clock, sleep, systemClock } from '../../time/clock.ts';
import { isAlreadyExists, isConflict } from '../client/client-errors.ts';
import { type FailureLevel, failureLevels } from '../client/failure-level.ts';
import { type Held, LeaseClaim } from './lease-claim.ts';
import type { LeaseStore } from './lease-store.ts';

export interface LeaderElectionOptions {
  readonly lock: LeaseStore;
  /**
   * The leader's work. Its signal aborts when leadership is lost or the election is stopped; then it has
   * leaseDuration - renewDeadline (5 s by default) to end. After a loss `lead` is called again when this process leads
   * again; when it returns by itself, the election ends.
   */
  readonly lead: (signal: AbortSignal, term: Term) => Promise<void>;
  /** Stops the election: the work ends, then the lease is released. */
  readonly signal: AbortSignal;
  /** Must be unique among all processes. Default: the host's name and a random part. */
  readonly identity?: string;
  /** How long a lease lasts without renewal, in whole seconds. Default: 15. */
  readonly leaseDurationSeconds?: number;
  /** How long the leader works after its last successful renewal. Default: 10 s. */
  readonly renewDeadlineMs?: number;
  /** Time from one try to the next. Default: 2 s. */
  readonly retryPeriodMs?: number;
  /** Called with the identity of every new leader that is seen, including this process. */
  readonly onNewLeader?: (identity: string) => void;
  /**
   * Called if the work has not ended by the time that another process may lead. Nothing else can end the work, so the
   * process should exit.
   */
  readonly onOverrun?: () => void;
  readonly logger?: Logger;
  readonly clock?: Clock | undefined;
  /** From 0 up to but not 1. Default: Math.random. */
  readonly random?: () => number;
}

/** One period as the leader. */
export interface Term {
  /**
   * Whether the term still lasts by the clock. Check it right before an exclusive action: a process that was stopped may go on before
   * its timers run.
   */
  isCurrent(): boolean;
}

/** The reason of the leader's signal when it has lost the leadership. */
export class LeadershipLostError extends RampartError {
  constructor(lock: string, why: string) {
    super(errorCodes.CONFLICT, { what: `no longer the leader of ${lock}`, why });
    this.name = 'LeadershipLostError';
  }
}

/**
 * Takes part in the election until `signal` aborts or the leader's work returns. Resolves when the work has ended
 * and the lease is released (or could not be: it expires then).
 *
 * @throws what the work throws while it leads; {@link RampartError} `INPUT` for times that do not fit together.
 *
 * @example
 * await runElection({
 *   lock: leaseStore(client, { namespace: 'rampart', name: 'operator' }),
 *   lead: (signal) => runOperator(signal),
 *   signal,
 * });
 */
export async function runElection(options: LeaderElectionOptions): Promise<void> {
  const { leaseDurationSeconds = 15, renewDeadlineMs = 10_000, retryPeriodMs = 2000 } = options;
  if (
    !Number.isInteger(leaseDurationSeconds) ||
    !(renewDeadlineMs * MARGIN <= leaseDurationSeconds * 1000) ||
    !(retryPeriodMs > 0 && retryPeriodMs * (1 + JITTER) < renewDeadlineMs)
  ) {
    throw new RampartError(errorCodes.INPUT, {
      what: `leader election with a lease of ${leaseDurationSeconds} s, renewed within ${renewDeadlineMs} ms, every ${retryPeriodMs} ms`,
      why: `the lease must be an integer number of seconds and at least ${MARGIN} times the deadline, and that over ${1 + JITTER} times the period`,
    });
  }
  if (options.identity === '') {
    throw new RampartError(errorCodes.INPUT, {
      what: `leader election on ${options.lock.description}`,
      why: 'the identity is empty, which in a lease means that it has no holder',
    });
  }
  await new Election({ ...options, leaseDurationSeconds, renewDeadlineMs, retryPeriodMs }).run();
}

/** Up to this share is added to each pause between tries, so that candidates do not come all at once. */
const JITTER = 0.2;
/** The least ratio of lease duration to renew deadline: leaves time for the work to end, and for clocks of different speeds. */
const MARGIN = 1.1;

type Settings = LeaderElectionOptions &
  Required<Pick<LeaderElectionOptions, 'leaseDurationSeconds' | 'renewDeadlineMs' | 'retryPeriodMs'>>;

class Election {
  readonly #options: Settings;
  readonly #identity: string;
  readonly #clock: Clock;
  readonly #claim: LeaseClaim;
  readonly #level: FailureLevel;

  constructor(options: Settings) {
    const { lock, logger, onNewLeader, leaseDurationSeconds, renewDeadlineMs } = options;
    this.#options = options;
    this.#identity = options.identity ?? `${hostname()}_${randomUUID()}`;
    this.#clock = options.clock ?? systemClock;
    this.#level = failureLevels(this.#clock);
    const [identity, clock] = [this.#identity, this.#clock];
    this.#claim = new LeaseClaim({
      lock,
      logger,
      onNewLeader,
      leaseDurationSeconds,
      renewDeadlineMs,
      identity,
      clock,
    });
  }

  async run(): Promise<void> {
    const { signal, logger, lock } = this.#options;
    while (!signal.aborted) {
      const held = await this.#acquire();
      if (held === undefined) return;
      logger?.info({ lock: lock.description, identity: this.#identity }, 'leading');
      if (await this.#leadWith(held)) return;
    }
  }

  /** Waits for the lease; `undefined` when the election is stopped. */
  async #acquire(): Promise<Held | undefined> {
    const { signal, retryPeriodMs, logger, lock, random = Math.random } = this.#options;
    try {
      for (;;) {
        try {
          const held = await this.#claim.acquire(signal);
          if (held !== undefined) return held;
        } catch (error) {
          signal.throwIfAborted();
          // A conflict is another candidate that was quicker.
          if (!isConflict(error) && !isAlreadyExists(error)) {
            const level = this.#level(error, 0);
            logger?.[level]({ lock: lock.description, err: error }, 'cannot acquire the lease; retrying');
          }
        }
        await sleep(this.#clock, retryPeriodMs * (1 + JITTER * random()), signal);
      }
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
  }

  /** Works and renews. Returns whether the election is over. */
  async #leadWith(held: Held): Promise<boolean> {
    const { signal, lead, lock, logger, leaseDurationSeconds, renewDeadlineMs, onOverrun } = this.#options;
    const term = new AbortController();
    /** Aborted when the work has ended or the lease is lost; ends the renewing. */
    const over = new AbortController();
    let lost = false;
    let ended = false;
    const lose = (why: string): void => {
      if (lost || over.signal.aborted) return;
      lost = true;
      const error = new LeadershipLostError(lock.description, why);
      logger?.warn({ lock: lock.description, identity: this.#identity, err: error }, 'leadership lost');
      term.abort(error);
      over.abort(error);
    };
    const timers = new Timers(this.#clock);
    const onRenewed = (): void => {
      const ageMs = this.#clock.monotonicMs() - held.sentMs;
      timers.set('deadline', renewDeadlineMs - ageMs, () => lose(`not renewed within ${renewDeadlineMs} ms`));
      timers.set('overrun', leaseDurationSeconds * 1000 - ageMs, () => {
        logger?.error(
          { lock: lock.description },
          'another process may lead now, but the work here has not stopped',
        );
        onOverrun?.();
      });
    };
    const stop = (): void => term.abort(signal.reason);
    onRenewed();
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    const isCurrent = (): boolean => !lost && !ended && this.#claim.isCurrent(held);
    const work = Promise.resolve()
      .then(() => lead(term.signal, { isCurrent }))
      .finally(() => {
        ended = true;
        over.abort();
      });
    try {
      const [, end] = await Promise.all([this.#renew(held, over.signal, onRenewed, lose), settled(work)]);
      // Errors of work that was told to end are ignored.
      if (end.status === 'rejected' && !term.signal.aborted) throw end.reason;
    } finally {
      timers.clear();
      signal.removeEventListener('abort', stop);
      if (!lost) await this.#claim.release();
    }
    return !lost || signal.aborted;
  }

  /** Renews until `over` aborts. */
  async #renew(
    held: Held,
    over: AbortSignal,
    onRenewed: () => void,
    lose: (why: string) => void,
  ): Promise<void> {
    const { retryPeriodMs, lock, logger } = this.#options;
    let startedMs = this.#clock.monotonicMs();
    while (!over.aborted) {
      try {
        // The period counts from start to start: after a try that hung there is no pause.
        await sleep(this.#clock, startedMs + retryPeriodMs - this.#clock.monotonicMs(), over);
        startedMs = this.#clock.monotonicMs();
        const why = await this.#claim.renew(held, over);
        if (over.aborted) return;
        if (why !== undefined) return lose(why);
        onRenewed();
      } catch (error) {
        if (over.aborted) return;
        if (!isConflict(error))
          logger?.[this.#level(error, 0)]({ lock: lock.description, err: error }, 'cannot renew the lease');
      }
    }
  }
}

async function settled(promise: Promise<void>): Promise<PromiseSettledResult<void>> {
  const [result] = await Promise.allSettled([promise]);
  return result;
}

/** Timers by name; a new one replaces the old one. */
class Timers {
  readonly #clock: Clock;
  readonly #cancels = new Map<string, () => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  set(name: string, delayMs: number, callback: () => void): void {
    this.#cancels.get(name)?.();
    this.#cancels.set(name, this.#clock.schedule(delayMs, callback));
  }

  clear(): void {
    for (const cancel of this.#cancels.values()) cancel();
  }
}
