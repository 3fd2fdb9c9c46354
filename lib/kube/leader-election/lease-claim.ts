/** One process's view of a Lease: what it saw, when, and what it may do with it. */
import type { Logger } from '../../telemetry/log.ts';
import { orAborted } from '../../time/abort.ts';
import type { Clock } from '../../time/clock.ts';
import { apiMicroTime } from '../object/api-time.ts';
import { CallScope } from '../client/call-scope.ts';
import { isAlreadyExists, isConflict, isNotFound, unreachable } from '../client/client-errors.ts';
import type { LeaseStore } from './lease-store.ts';
import type { Lease } from '../object/object.ts';

interface LeaseClaimOptions {
  readonly lock: LeaseStore;
  readonly identity: string;
  readonly leaseDurationSeconds: number;
  readonly renewDeadlineMs: number;
  readonly onNewLeader?: ((identity: string) => void) | undefined;
  readonly logger?: Logger | undefined;
  readonly clock: Clock;
}

const RELEASE_TRIES = 3;

/** A lease that this process holds. */
export interface Held {
  lease: Lease;
  /** When the last request that took or renewed it was sent. */
  sentMs: number;
}

interface Observed {
  readonly version: string | undefined;
  readonly holder: string;
  readonly durationMs: number;
  readonly seenMs: number;
}

/** The steps of the election; `leader-election.ts` decides when each is taken. */
export class LeaseClaim {
  readonly #options: LeaseClaimOptions;
  readonly #clock: Clock;
  #observed: Observed | undefined;

  constructor(options: LeaseClaimOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  /** Whether the holder may still work. */
  isCurrent({ sentMs }: Held): boolean {
    return this.#clock.monotonicMs() < sentMs + this.#options.renewDeadlineMs;
  }

  /** One try to take the lease; `undefined` if another process holds it. Throws what the store throws. */
  async acquire(signal: AbortSignal): Promise<Held | undefined> {
    const held = await this.#within(this.#options.renewDeadlineMs, signal, (inner) =>
      this.#acquire(inner, true),
    );
    // The answer may have come so late that the lease is over.
    return held !== undefined && this.isCurrent(held) ? held : undefined;
  }

  /**
   * One try to renew. Returns why the lease is lost, or `undefined` when it is not: then `held` is up to date.
   * Throws what the store throws, and a conflict that does not mean a loss: try again.
   */
  async renew(held: Held, signal: AbortSignal): Promise<string | undefined> {
    // Half of the deadline: a request that hangs leaves time for another one.
    return this.#within(this.#options.renewDeadlineMs / 2, signal, (inner) => this.#renew(held, inner, true));
  }

  /** Releases the lease, so that no candidate has to wait until it expires. If that fails, it does expire. */
  async release(): Promise<void> {
    const { lock, logger, renewDeadlineMs, identity } = this.#options;
    try {
      await this.#within(renewDeadlineMs, undefined, (signal) => this.#release(signal, RELEASE_TRIES));
      logger?.info({ lock: lock.description, identity }, 'released the lease');
    } catch (error) {
      logger?.warn({ lock: lock.description, err: error }, 'cannot release the lease; it will expire');
    }
  }

  async #release(signal: AbortSignal, tries: number): Promise<void> {
    const { lock, identity } = this.#options;
    // Read again: a renewal that was broken off may have changed the lease.
    const lease = await lock.get(signal);
    signal.throwIfAborted();
    if (lease?.spec?.holderIdentity !== identity) return;
    const renewTime = apiMicroTime(this.#clock.wallMs());
    // Without `holderIdentity`: the API refuses an empty one (kubernetes pkg/apis/coordination/validation, ValidateLeaseSpec).
    const { holderIdentity: _given, ...rest } = lease.spec;
    const spec = { ...rest, leaseDurationSeconds: 1, renewTime };
    try {
      this.#observe(await lock.update({ ...lease, spec }, signal));
    } catch (error) {
      // A renewal arrived between the two calls, or a label was changed.
      if (tries <= 1 || !isConflict(error)) throw error;
      await this.#release(signal, tries - 1);
    }
  }

  async #acquire(signal: AbortSignal, onceMore: boolean): Promise<Held | undefined> {
    const { lock, identity } = this.#options;
    const lease = await lock.get(signal);
    // The caller has given up: it would not know of a change made now.
    signal.throwIfAborted();
    const { holder, durationMs, seenMs } = this.#observe(lease);
    const own = holder === identity;
    // This is the second reading, after a conflict: only our own lease is taken now; for another's, the next try is soon enough.
    if (!onceMore && !own) return undefined;
    const free = holder === '' || own;
    if (!free && this.#clock.monotonicMs() < seenMs + durationMs) return undefined;
    const sentMs = this.#clock.monotonicMs();
    try {
      const taken =
        lease === undefined
          ? await lock.create(this.#spec(undefined), signal)
          : await lock.update({ ...lease, spec: this.#spec(lease.spec) }, signal);
      this.#observe(taken);
      return { lease: taken, sentMs };
    } catch (error) {
      // Another candidate was quicker, or an earlier request of our own arrived late, or a label of our lease was changed.
      if (!onceMore || !(isConflict(error) || isAlreadyExists(error))) throw error;
      signal.throwIfAborted();
      return await this.#acquire(signal, false);
    }
  }

  async #renew(held: Held, signal: AbortSignal, onceMore: boolean): Promise<string | undefined> {
    const { lock, identity } = this.#options;
    const sentMs = this.#clock.monotonicMs();
    try {
      const lease = await lock.update({ ...held.lease, spec: this.#spec(held.lease.spec) }, signal);
      signal.throwIfAborted();
      Object.assign(held, { lease, sentMs });
      this.#observe(lease);
      return undefined;
    } catch (error) {
      if (isNotFound(error)) return 'the lease was deleted';
      if (!isConflict(error)) throw error;
      // The lease was taken, or a label was changed, or our own renewal succeeded but its answer got lost.
      const lease = await lock.get(signal);
      signal.throwIfAborted();
      this.#observe(lease);
      if (lease === undefined) return 'the lease was deleted';
      const holder = lease.spec?.holderIdentity ?? '';
      if (holder !== identity)
        return holder === '' ? 'the lease was released' : `the lease is now held by "${holder}"`;
      held.lease = lease;
      if (!onceMore) throw error;
      return await this.#renew(held, signal, false);
    }
  }

  /** Notes when the lease was seen to change: only that counts, not the times in the lease. */
  #observe(lease: Lease | undefined): Observed {
    const version = lease?.metadata.resourceVersion;
    const known = this.#observed;
    if (known !== undefined && known.version === version) return known;
    const seenMs = this.#clock.monotonicMs();
    if (lease === undefined) {
      // The lease was deleted; its holder learns that at its next renewal, so its time still counts.
      this.#observed = { holder: '', durationMs: 0, seenMs, ...known, version: undefined };
      return this.#observed;
    }
    const { holderIdentity, leaseDurationSeconds } = lease.spec ?? {};
    const holder = holderIdentity ?? '';
    const seconds = leaseDurationSeconds || this.#options.leaseDurationSeconds;
    this.#observed = { version, holder, durationMs: seconds * 1000, seenMs };
    if (holder !== '' && holder !== known?.holder) this.#options.onNewLeader?.(holder);
    return this.#observed;
  }

  /** The present spec of the lease, changed so that this process is the holder. */
  #spec(spec: Lease['spec'] | undefined): NonNullable<Lease['spec']> {
    const { identity, leaseDurationSeconds } = this.#options;
    const now = apiMicroTime(this.#clock.wallMs());
    const own = spec?.holderIdentity === identity;
    const transitions = spec?.leaseTransitions ?? 0;
    return {
      ...spec,
      holderIdentity: identity,
      leaseDurationSeconds,
      acquireTime: (own && spec.acquireTime) || now,
      renewTime: now,
      leaseTransitions: own || spec === undefined ? transitions : transitions + 1,
    };
  }

  /** Runs `call` for at most this long, whether or not it heeds its signal. */
  async #within<T>(
    timeoutMs: number,
    signal: AbortSignal | undefined,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    using scope = new CallScope(this.#clock, signal);
    const what = `reach the lease ${this.#options.lock.description}`;
    scope.limit(timeoutMs, () => unreachable(what, `no response within ${timeoutMs} ms`));
    scope.signal.throwIfAborted();
    return await orAborted(call(scope.signal), scope.signal);
  }
}
