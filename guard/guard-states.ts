import type { AgentGuardState, Coverage, GuardFacts, Losses } from './agent-lease-names.ts';
import type { MetricsRegistry } from './guard.ts';
import { Listeners } from '../lib/time/listeners.ts';

/**
 * - `waiting`: the API does not serve yet what the guard needs.
 * - `running`: its part runs; its health parts say whether it is ready.
 * - `unavailable`: this machine or cluster cannot run it.
 */
interface GuardState {
  readonly state: AgentGuardState['state'];
  /** Why it does not run, in one line. */
  readonly reason?: string;
}

/** A reason may quote a verifier's log; `rampart status` shows only its beginning. */
const MAX_REASON = 500;

export class GuardStates {
  readonly #states = new Map<string, GuardState>();
  readonly #facts = new Map<string, GuardFacts | (() => GuardFacts)>();
  readonly #notReady = new Map<string, () => string | undefined>();
  readonly #obstacles = new Map<string, () => string | undefined>();
  readonly #coverage = new Map<string, () => Coverage>();
  readonly #listeners = new Listeners();
  /** Losses of the process besides its guards. */
  losses: () => Losses = () => ({});

  /** @param guards - All guards that this process runs, before any has started; guards not listed are switched off. */
  constructor(guards: readonly string[] = []) {
    for (const guard of guards) this.#states.set(guard, { state: 'starting' });
  }

  get(guard: string): GuardState {
    return this.#states.get(guard) ?? { state: 'starting' };
  }

  entries(): Iterable<[string, GuardState]> {
    return this.#states.entries();
  }

  /**
   * Reports the guard as starting, with what it waits for, until it is ready for the first time: until then the API has only what its
   * previous process reported.
   */
  untilReady(guard: string, notReady: () => string | undefined): void {
    this.#notReady.set(guard, notReady);
  }

  /** Reports the guard as unavailable while there is an obstacle, even if it was ready before: it cannot guard what it does not see. */
  setObstacle(guard: string, obstacle: () => string | undefined): void {
    this.#obstacles.set(guard, obstacle);
  }

  /** The number of guards that are not ready yet. */
  notReady(): number {
    for (const [guard, ask] of this.#notReady) {
      if (this.get(guard).state === 'running' && ask() === undefined) this.#notReady.delete(guard);
    }
    return this.#notReady.size;
  }

  /** @returns whether the state has changed. */
  set(guard: string, state: GuardState): boolean {
    const before = this.#states.get(guard);
    if (before?.state === state.state && before.reason === state.reason) return false;
    this.#states.set(guard, state);
    this.#listeners.notify();
    return true;
  }

  /**
   * Sets a guard's facts about its work. If only numbers change, they are not written at once but with the next renewal of the lease. A
   * function is called each time the lease is written.
   */
  setFacts(guard: string, facts: GuardFacts | (() => GuardFacts)): void {
    const before = this.#facts.get(guard);
    this.#facts.set(guard, facts);
    if (typeof before === 'function' || typeof facts === 'function') return;
    const names = new Set([...Object.keys(before ?? {}), ...Object.keys(facts)]);
    const isNews = [...names].some((name) => {
      const [was, is] = [before?.[name], facts[name]];
      return was !== is && !(typeof was === 'number' && typeof is === 'number');
    });
    if (isNews) this.#listeners.notify();
  }

  /** Sets the function that returns the guard's coverage; it is called each time the lease is written. */
  setCoverage(guard: string, read: () => Coverage): void {
    this.#coverage.set(guard, read);
  }

  /** The states in the form of the lease's annotation. */
  text(): string {
    this.notReady();
    return JSON.stringify(
      Object.fromEntries(
        [...this.#states.keys()].map((name) => {
          const { state, reason } = this.#reported(name);
          return [
            name,
            {
              state,
              ...(reason !== undefined && { reason: reason.slice(0, MAX_REASON) }),
              ...(state === 'running' && {
                facts: this.#factsOf(name),
                coverage: this.#coverage.get(name)?.(),
              }),
            },
          ];
        }),
      ),
    );
  }

  #reported(guard: string): GuardState {
    const state = this.get(guard);
    if (state.state !== 'running') return state;
    const missing = this.#notReady.get(guard)?.();
    if (missing !== undefined) return { state: 'starting', reason: missing };
    const reason = this.#obstacles.get(guard)?.();
    return reason === undefined ? state : { state: 'unavailable', reason };
  }

  #factsOf(guard: string): GuardFacts | undefined {
    const facts = this.#facts.get(guard);
    return typeof facts === 'function' ? facts() : facts;
  }

  /** Calls the listener after each change, until the result is disposed. */
  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }
}

/** Registers `rampart_guard_running`. @throws if the registry already has it. */
export function registerGuardMetrics(
  metrics: MetricsRegistry | undefined,
  parts: Readonly<Partial<Record<'node' | 'cluster', GuardStates>>>,
): void {
  metrics?.gauge(
    {
      name: 'rampart_guard_running',
      help: '1 if the part of a guard runs, 0 if it is waiting or cannot run here; the log and rampart status show why.',
      labelNames: ['guard', 'part'],
    },
    () =>
      Object.entries(parts).flatMap(([part, states]) =>
        [...states.entries()].map(([guard, { state }]) => ({
          labels: { guard, part },
          value: state === 'running' ? 1 : 0,
        })),
      ),
  );
}
