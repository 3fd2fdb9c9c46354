/**
 * What `rampart status` says, as one object: `--format json`. The sections of the guards add their fields, which their `status/`
 * has the types of.
 *
 * Within `rampart.dev/status/v1` fields keep their names and meanings; new ones, and new kinds of problems, may come.
 */
import type { AgentGuardState } from '../../guard/agent-lease-names.ts';
import type { HolderReport } from '../../guard/lease-holder.ts';

/** All that is no guard's. Times are RFC 3339 in UTC. */
export interface StatusReport {
  readonly schema: 'rampart.dev/status/v1';
  readonly server: string;
  readonly time: string;
  /** The namespace that was asked for; `null`: all. */
  readonly namespace: string | null;
  /** Whether all that is asked of the guards is guarded: the exit code is 0 then. */
  readonly guarded: boolean;
  /** In the order of the list of guards. */
  readonly guards: readonly GuardReport[];
  /** All that are known; by name. */
  readonly nodes: readonly NodeReport[];
  /** The worst of `guards[].operator`. Without one, guarding goes on, but status and clean-up stop. */
  readonly operator: HolderReport;
  /** What this user may not read; what depends on it is `null` or unknown. */
  readonly notRead: readonly { readonly resource: string; readonly why: string }[];
}

export interface GuardReport {
  readonly name: string;
  /** Whether the API serves what users write for it; `null` where it is not known. */
  readonly installed: boolean | null;
  readonly guarded: boolean;
  /** Who looks after all that it needs once in a cluster; `null` where it needs nothing, or is not installed. */
  readonly operator: HolderReport | null;
  /** Where it does not work, as the agents say. */
  readonly nodes: readonly GuardNodeReport[];
}

export interface GuardNodeReport {
  readonly name: string;
  /** `waiting` for what it needs; `unavailable` where the node cannot serve it. */
  readonly state: Extract<AgentGuardState['state'], 'waiting' | 'unavailable'>;
  /** A sentence or two; empty where the agent gives none. */
  readonly reason: string;
}

/** Sections of guards add fields. */
export interface NodeReport {
  readonly name: string;
  /** `running`: it renews its lease or that of its kernel, or its pod is ready. `not-seen`: none of these is known. */
  readonly agent: 'running' | 'not-seen';
  /** As deploy/ labels it; `null` where there is none. */
  readonly agentPod: { readonly name: string; readonly ready: boolean } | null;
}
