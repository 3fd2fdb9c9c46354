import type { AgentGuardState, GuardFacts } from './agent-lease-names.ts';
import type { MetricsRegistry } from './guard.ts';

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

export class GuardStates {
  readonly #states = new Map<string, GuardState>();
  readonly #facts = new Map<string, GuardFacts>();
  readonly #listeners = new Set<() => void>();

  get(guard: string): GuardState {
    return this.#states.get(guard) ?? { state: 'starting' };
  }

  entries(): Iterable<[string, GuardState]> {
    return this.#states.entries();
  }

  /** @returns whether that is new. */
  set(guard: string, state: GuardState): boolean {
    const before = this.#states.get(guard);
    if (before?.state === state.state && before.reason === state.reason) return false;
    this.#states.set(guard, state);
    for (const listener of this.#listeners) listener();
    return true;
  }

  /** What a guard says of its work. Of numbers nobody is told that they change: the lease has them when it is renewed. */
  setFacts(guard: string, facts: GuardFacts): void {
    const before = this.#facts.get(guard);
    this.#facts.set(guard, facts);
    const names = new Set([...Object.keys(before ?? {}), ...Object.keys(facts)]);
    const isTold = [...names].some((name) => {
      const [was, is] = [before?.[name], facts[name]];
      return was !== is && !(typeof was === 'number' && typeof is === 'number');
    });
    if (isTold) for (const listener of this.#listeners) listener();
  }

  facts(guard: string): GuardFacts | undefined {
    return this.#facts.get(guard);
  }

  /** Tells of each change, right after it. Dispose what is returned to end that. */
  onChange(listener: () => void): Disposable {
    const own = (): void => listener();
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
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
