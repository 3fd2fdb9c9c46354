/**
 * What the lease of an agent says of its guards.
 *
 * @module
 */
import type { Lease } from '../kube/object.ts';
import type { GuardState } from './guard-states.ts';

/** On each lease of an agent: the node's name, or a digest of a long one. */
export const agentLeaseLabel = 'rampart.dev/agent';
export const agentNodeAnnotation = 'rampart.dev/node';
/** JSON: the states of its guards by their names. */
export const agentGuardsAnnotation = 'rampart.dev/guards';

export interface AgentLease {
  readonly nodeName: string;
  readonly guards: Readonly<Record<string, GuardState>>;
}

const MAX_TEXT = 64 * 1024;
const states: ReadonlySet<string> = new Set(['starting', 'waiting', 'running', 'unavailable']);

/** What it says; undefined where it is no lease of an agent. What is not as an agent writes it is left out. */
export function readAgentLease({ metadata }: Pick<Lease, 'metadata'>): AgentLease | undefined {
  const { labels, annotations } = metadata;
  const nodeName = annotations?.[agentNodeAnnotation];
  if (labels?.[agentLeaseLabel] === undefined || !nodeName) return undefined;
  const text = annotations?.[agentGuardsAnnotation] ?? '';
  const guards: Record<string, GuardState> = {};
  try {
    const all: unknown = text.length <= MAX_TEXT ? JSON.parse(text) : {};
    for (const [name, value] of Object.entries(all ?? {})) {
      const { state, reason } = (value ?? {}) as Record<string, unknown>;
      if (typeof state !== 'string' || !states.has(state)) continue;
      guards[name] = {
        state: state as GuardState['state'],
        ...(typeof reason === 'string' && { reason }),
      };
    }
  } catch {
    // Not written by an agent of ours: nothing is known of its guards.
  }
  return { nodeName, guards };
}
