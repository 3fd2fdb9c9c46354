/**
 * The report of `rampart status`, as one object: `-o json`. The sections of the guards add their fields,
 * which their `status/` has the types of. docs/status.md describes every key; a test compares them.
 *
 * Within `rampart.dev/status/v2` fields keep their names and meanings; new ones, and new kinds of problems,
 * may come.
 */
import type { AgentGuardState } from '../../guard/agent-lease-names.ts';
import type { Problem } from '../../guard/guarded.ts';
import type { HolderReport } from '../../guard/lease-holder.ts';

/** The report without the guards' own parts. Times are RFC 3339 in UTC. */
export interface StatusReport {
  readonly schema: 'rampart.dev/status/v2';
  readonly server: string;
  readonly time: string;
  /** The requested namespace; `null`: all. */
  readonly namespace: string | null;
  /** Whether everything requested is guarded: there are no `problems`. The exit code is 0 then. */
  readonly guarded: boolean;
  /** In the order of the list of guards. */
  readonly guards: readonly GuardReport[];
  /** Why something is not guarded, by guard and object. */
  readonly problems: readonly Problem[];
  /** All known nodes, sorted by name. */
  readonly nodes: readonly NodeReport[];
  /** Who holds the operator's lease. */
  readonly operator: HolderReport;
  /** Resources that this user may not read; dependent values are `null` or unknown. */
  readonly notRead: readonly { readonly resource: string; readonly why: string }[];
}

/** `off`: its process runs without it (`--guards`). */
export type GuardState = AgentGuardState['state'] | 'off';

export interface GuardReport {
  readonly name: string;
  /**
   * - `on`: a process that is alive runs it;
   * - `off`: none does, although some are alive: `--guards`;
   * - `not-running`: no process is alive;
   * - `not-installed`: the API does not serve what users write for it;
   * - `unknown`: leases may not be read.
   */
  readonly state: 'on' | 'off' | 'not-running' | 'not-installed' | 'unknown';
  /** Number of the users' objects; `null` if they may not be read. */
  readonly objects: number | null;
  /** How many of these are not guarded. */
  readonly notGuarded: number;
  readonly guarded: boolean;
  /** Nodes where an agent runs it. */
  readonly on: readonly string[];
  /** Nodes whose agent is alive and does not run it. */
  readonly notOn: readonly GuardNodeReport[];
  /** Its part in the operator; `null` if it has none, or no operator is alive. */
  readonly operator: { readonly state: GuardState; readonly reason: string } | null;
}

export interface GuardNodeReport {
  readonly name: string;
  /** `waiting` for what it needs; `unavailable` where the node cannot serve it. */
  readonly state: Exclude<GuardState, 'running'>;
  /** A sentence or two; empty if the agent gives none. */
  readonly reason: string;
}

/** Sections of guards add fields. */
export interface NodeReport {
  readonly name: string;
  /**
   * `running`: it renews its lease; `dead`: it no longer does; `stopped`: it has given its lease back; `not-seen`: it never had one, or
   * leases may not be read.
   */
  readonly agent: 'running' | 'dead' | 'stopped' | 'not-seen';
  /** When it renewed its lease last; `null` if it is not known. */
  readonly agentRenewed: string | null;
  /** The pod with deploy/'s labels; `null` without one. */
  readonly agentPod: { readonly name: string; readonly ready: boolean } | null;
  /** Keyed by the guard's name, as the agent says; none if it is not running. */
  readonly guards: Readonly<Record<string, NodeGuardReport>>;
  /** Losses since the agent started, by its metrics; guards without losses are omitted. */
  readonly losses: readonly LossReport[];
}

export interface NodeGuardReport {
  readonly state: GuardState;
  readonly reason: string;
  /** The sensor's mode, or the dataplane; `null` if the guard has only one. */
  readonly mode: string | null;
  /** The accesses that it cannot see in this mode. */
  readonly blindSpots: readonly string[];
}

export interface LossReport {
  /** `null`: a loss that concerns all guards. */
  readonly guard: string | null;
  /** `accesses`, `lines`, ... */
  readonly what: string;
  readonly count: number;
}
