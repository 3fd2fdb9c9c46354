/** The agents of a fleet, a few in each process: the garbage collector marks the caches of all agents of its process each time. */
import type { Asked, Reached } from './agents-process.ts';
import { FleetProcess } from './processes.ts';
import { type RequestCounts, sumOfCounts } from './request-counts.ts';

export class AgentProcesses implements AsyncDisposable {
  readonly #processes: FleetProcess[] = [];

  /** One more process. */
  start(of: Omit<Extract<Asked, { ask: 'start' }>, 'ask'>): void {
    this.#processes.push(FleetProcess.agents({ ask: 'start', ...of }));
  }

  /** Since the last call. */
  async counts(signal: AbortSignal): Promise<RequestCounts> {
    return sumOfCounts(await Promise.all(this.#processes.map((one) => one.counts(signal))));
  }

  /** By guard: how many agents have programmed the policy of this name, and when the last did. */
  async reached(name: string, signal: AbortSignal): Promise<Readonly<Record<string, Reached>>> {
    const sum: Record<string, Reached> = {};
    for (const reported of await Promise.all(this.#processes.map((one) => one.reached(name, signal)))) {
      for (const [guard, { agents, lastMs }] of Object.entries(reported)) {
        const before = sum[guard];
        sum[guard] = {
          agents: agents + (before?.agents ?? 0),
          lastMs: Math.max(lastMs, before?.lastMs ?? 0),
        };
      }
    }
    return sum;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((one) => one[Symbol.asyncDispose]()));
  }
}
