/** Agents and an operator that are alive, for tests to kill. */
import type { AgentGuardState } from './agent-lease-names.ts';
import type { Processes, ProcessView } from './guarded.ts';

export const renewedMs: number = Date.UTC(2026, 10, 21, 11, 59, 59);

export type States = Readonly<Record<string, AgentGuardState>>;

export function running(...guards: readonly string[]): States {
  return Object.fromEntries(guards.map((name) => [name, { state: 'running', reason: '' }]));
}

export function processWith(guards: States, change: Partial<ProcessView> = {}): ProcessView {
  return {
    holder: 'someone',
    isRenewed: true,
    renewedMs,
    guards: new Map(Object.entries(guards)),
    ...change,
  };
}

/** All run the guard. */
export function processesOn(nodes: readonly string[], guard: string): Processes {
  const process = processWith(running(guard));
  return {
    agents: new Map(nodes.map((node) => [node, process])),
    operator: process,
    start: (what, node) => `start ${what}${node === undefined ? '' : ` on ${node}`}`,
  };
}
