/**
 * The threads that run the policies of a process. If a policy spins, its threads are terminated when its time is
 * up. Other policies do not wait for it: they get additional threads, and the spinning policy gets only one.
 */
import { availableParallelism } from 'node:os';

import { EvaluationError } from '../evaluator.ts';
import type { GuestPolicy, Job, Outcome } from './messages.ts';
import { type AskHost, PolicyThread } from './thread.ts';

/** Limit of the threads, including additional ones that are started while the others are held up. */
const maxThreads = 8;
/** An evaluation that takes longer than this holds up others. */
const slowMs = 50;
/** How long a terminated policy lets others go first. */
const suspectWaitsMs = 1000;
const closed: Outcome = { why: 'aborted', message: 'the pool of policies was closed' };

export interface PolicyPoolOptions {
  /** Default: 2, or the number of CPUs if that is 1. */
  readonly threads?: number;
  /** A thread ends after being idle for this long. Default: 30 s. */
  readonly idleMs?: number;
}

export interface RunOptions {
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface Waiting {
  readonly policy: PolicyState;
  readonly job: Omit<Job, 'id'>;
  readonly ask: AskHost;
  readonly options: RunOptions;
  readonly resolve: (outcome: Outcome) => void;
  readonly sinceMs: number;
}

interface PolicyState {
  readonly policy: GuestPolicy;
  readonly waiting: Waiting[];
  /**
   * Whether the last evaluation of the policy was terminated. If so, the policy gets only one thread until an
   * evaluation ends on its own.
   */
  isSuspect: boolean;
}

interface Slot {
  readonly thread: PolicyThread;
  /** Whether the thread has started. A request is not assigned before that: another thread may be free sooner. */
  isReady: boolean;
  /** The policy that is running in the thread. */
  policy: PolicyState | undefined;
  /** When the policy began to run. */
  sinceMs: number;
}

/** Threads start when they are needed. Dispose it to end them. */
export class PolicyPool implements AsyncDisposable {
  readonly #size: number;
  readonly #idleMs: number;
  readonly #slots = new Set<Slot>();
  readonly #policies = new Map<number, PolicyState>();
  /** Policies with waiting evaluations, in the order of their turns. */
  readonly #turns = new Set<PolicyState>();
  #nextJob = 1;

  #look: NodeJS.Timeout | undefined;
  #rest: NodeJS.Timeout | undefined;

  constructor({ threads = Math.min(2, availableParallelism()), idleMs = 30_000 }: PolicyPoolOptions = {}) {
    if (!Number.isInteger(threads) || threads < 1 || threads > maxThreads) {
      throw new RangeError(`a pool of policies has 1 to ${maxThreads} threads, not ${threads}`);
    }
    this.#size = threads;
    this.#idleMs = idleMs;
  }

  /** Current number of threads. */
  get threads(): number {
    return this.#slots.size;
  }

  add(policy: GuestPolicy): void {
    this.#policies.set(policy.id, { policy, waiting: [], isSuspect: false });
  }

  /** Removes a policy, and aborts its running and waiting evaluations. */
  async remove(id: number): Promise<void> {
    const state = this.#policies.get(id);
    if (state === undefined) return;
    this.#policies.delete(id);
    this.#turns.delete(state);
    const gone: Outcome = { why: 'aborted', message: 'the policy was closed during its evaluation' };
    for (const { resolve } of state.waiting.splice(0)) resolve(gone);
    const ending: Promise<void>[] = [];
    for (const slot of this.#slots) {
      if (slot.policy === state) ending.push(slot.thread.end(gone));
      else slot.thread.forget(id);
    }
    await Promise.all(ending);
  }

  /** @throws {EvaluationError} if the policy was removed. */
  run(id: number, job: Omit<Job, 'id' | 'policy'>, ask: AskHost, options: RunOptions): Promise<Outcome> {
    const state = this.#policies.get(id);
    if (state === undefined) throw new EvaluationError('aborted', 'the policy is closed');
    return new Promise((resolve) => {
      const sinceMs = performance.now();
      const waiting: Waiting = { policy: state, job: { ...job, policy: id }, ask, options, resolve, sinceMs };
      state.waiting.push(waiting);
      this.#turns.add(state);
      options.signal?.addEventListener('abort', () => this.#abort(waiting), { once: true });
      this.#go();
    });
  }

  /** A waiting evaluation is not started. A running one continues until it ends or its time is up, and its result is dropped. */
  #abort(waiting: Waiting): void {
    const at = waiting.policy.waiting.indexOf(waiting);
    if (at >= 0) waiting.policy.waiting.splice(at, 1);
    waiting.resolve({ why: 'aborted', message: 'the evaluation was aborted' });
  }

  #go(): void {
    for (;;) {
      const free = [...this.#slots].filter(isFree);
      const [slot] = free;
      const next = this.#nextTurn(free.length);
      if (slot === undefined || next === undefined) break;
      this.#begin(slot, next);
    }
    const due = [...this.#turns].filter((state) => this.#mayHaveThread(state));
    if (due.length === 0) return;
    this.#startFor(due);
    this.#lookSoon();
  }

  #begin(slot: Slot, next: PolicyState): void {
    // The next turn of this policy comes after those of the other waiting ones.
    this.#turns.delete(next);
    const waiting = next.waiting.shift();
    if (next.waiting.length > 0) this.#turns.add(next);
    if (waiting !== undefined) void this.#runIn(slot, waiting);
  }

  /** The next policy to run. The last free thread is reserved for policies that return on their own. */
  #nextTurn(free: number): PolicyState | undefined {
    for (const state of this.#turns) {
      const [first] = state.waiting;
      if (first === undefined) {
        this.#turns.delete(state);
        continue;
      }
      const isPatient = state.isSuspect && performance.now() - first.sinceMs < suspectWaitsMs;
      if (free > (isPatient ? 1 : 0) && this.#mayHaveThread(state)) return state;
    }
    return undefined;
  }

  /** No policy gets more threads than the pool's regular number, so that none can take them all. */
  #mayHaveThread(state: PolicyState): boolean {
    let own = 0;
    for (const { policy } of this.#slots) if (policy === state) own++;
    return own < (state.isSuspect ? 1 : this.#size);
  }

  #startFor(due: readonly PolicyState[]): void {
    const slots = [...this.#slots];
    const spare = due.some(({ isSuspect }) => isSuspect) ? 1 : 0;
    const max = Math.min(maxThreads, this.#size + slots.filter(isHeldUp).length + spare);
    const usable = slots.filter((slot) => isFree(slot) || !slot.isReady).length;
    const wanted = due.reduce((sum, { waiting }) => sum + waiting.length, spare) - usable;
    for (let more = Math.min(max - slots.length, wanted); more > 0; more--) this.#start();
  }

  #start(): void {
    const slot: Slot = {
      thread: new PolicyThread(() => {
        this.#slots.delete(slot);
        // If a thread fails to start, a waiting evaluation gets the error: otherwise it would be retried forever.
        const next = slot.isReady ? undefined : this.#nextTurn(Infinity);
        if (next !== undefined) this.#begin(slot, next);
        if (this.#turns.size > 0) this.#go();
      }),
      isReady: false,
      policy: undefined,
      sinceMs: performance.now(),
    };
    this.#slots.add(slot);
    void slot.thread.ready.then(() => {
      slot.isReady = true;
      this.#go();
    });
  }

  /** Called when all threads are busy: checks whether one of them has been busy for too long. */
  #lookSoon(): void {
    if (this.#look !== undefined) return;
    this.#look = setTimeout(() => {
      this.#look = undefined;
      this.#go();
    }, slowMs + 1);
  }

  async #runIn(slot: Slot, { policy, job, ask, options, resolve }: Waiting): Promise<void> {
    slot.policy = policy;
    slot.sinceMs = performance.now();
    const { deadlineMs } = options;
    const timer = setTimeout(() => {
      const message = `the policy did not respond within ${deadlineMs} ms and was terminated`;
      void slot.thread.end({ why: 'deadline', message });
    }, deadlineMs);
    const outcome = await slot.thread.run(policy.policy, { ...job, id: this.#nextJob++ }, ask);
    clearTimeout(timer);
    policy.isSuspect = 'why' in outcome && outcome.why === 'deadline';
    slot.policy = undefined;
    slot.sinceMs = performance.now();
    resolve(outcome);
    this.#go();
    this.#restSoon();
  }

  /** Ends threads one after the other when they have been idle for a while. */
  #restSoon(): void {
    if (this.#rest !== undefined) return;
    this.#rest = setTimeout(() => {
      this.#rest = undefined;
      const unused = [...this.#slots].filter(isFree);
      for (const slot of unused) {
        if (performance.now() - slot.sinceMs >= this.#idleMs) void slot.thread.end(closed);
      }
      if (this.#slots.size > 0) this.#restSoon();
    }, this.#idleMs);
    this.#rest.unref();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#look);
    clearTimeout(this.#rest);
    await Promise.all([...this.#policies.keys()].map((id) => this.remove(id)));
    await Promise.all([...this.#slots].map(({ thread }) => thread.end(closed)));
  }
}

function isFree({ policy, isReady }: Slot): boolean {
  return policy === undefined && isReady;
}

function isHeldUp({ policy, sinceMs }: Slot): boolean {
  return policy !== undefined && performance.now() - sinceMs > slowMs;
}
