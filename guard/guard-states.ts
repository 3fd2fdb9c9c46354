import type { AgentGuardState, Coverage, GuardFacts, Losses } from './agent-lease-names.ts';
import type { MetricsRegistry } from './guard.ts';
import { Listeners } from '../lib/time/listeners.ts';

/**
 * - `waiting`: for what the API does not serve yet.
 * - `running`: its part runs; whether it is ready, its health parts say.
 * - `unavailable`: this machine or cluster cannot serve it.
 */
interface GuardState {
  readonly state: AgentGuardState['state'];
  /** Why it does not run, in one line. */
  readonly reason?: string;
}

/** A reason may quote a verifier's log; `rampart status` shows the beginning. */
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

  /** @param guards - That this process runs, before any has begun: the others are switched off. */
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
   * Reports it as starting, with what it waits for, until it is ready for the first time: the report of its previous process does not apply yet.
   */
  untilReady(guard: string, notReady: () => string | undefined): void {
    this.#notReady.set(guard, notReady);
  }

  /** Reports it as unavailable as long as there is a reason, also after it was ready: it does not guard what it cannot see. */
  setObstacle(guard: string, obstacle: () => string | undefined): void {
    this.#obstacles.set(guard, obstacle);
  }

  /** How many guards are not ready yet. */
  notReady(): number {
    for (const [guard, ask] of this.#notReady) {
      if (this.get(guard).state === 'running' && ask() === undefined) this.#notReady.delete(guard);
    }
    return this.#notReady.size;
  }

  /** @returns whether that is new. */
  set(guard: string, state: GuardState): boolean {
    const before = this.#states.get(guard);
    if (before?.state === state.state && before.reason === state.reason) return false;
    this.#states.set(guard, state);
    this.#listeners.notify();
    return true;
  }

  /**
   * Sets a guard's facts about its work. Changed numbers alone cause no write: the next renewal of the lease
   * has them. A function is called each time the lease is written.
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

  /** How much the guard sees; called each time the lease is written. */
  setCoverage(guard: string, read: () => Coverage): void {
    this.#coverage.set(guard, read);
  }

  /** The states as an annotation of the process's lease. */
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

/** Registers `rampart_guard_running`. @throws when the registry has it already. */
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
