/**
 * The report of `rampart status`, as one object: `-o json`. The guards' sections add their fields, whose types are in the guards'
 * `status/`. docs/status.md describes every key; a test compares them.
 *
 * Within `rampart.dev/status/v2`, fields keep their names and meanings; new fields, and new kinds of problems, may be added.
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
  /** Why objects are not guarded, in the order of guards and their objects. */
  readonly problems: readonly Problem[];
  /** All known nodes, sorted by name. */
  readonly nodes: readonly NodeReport[];
  /** Who holds the operator's lease. */
  readonly operator: HolderReport;
  /** Resources that this user may not read; fields that depend on them are `null` or unknown. */
  readonly notRead: readonly { readonly resource: string; readonly why: string }[];
}

/** A guard's state in a process; `off`: the process runs without the guard (`--guards`). */
export type GuardState = AgentGuardState['state'] | 'off';

export interface GuardReport {
  readonly name: string;
  /**
   * - `on`: a live process runs it;
   * - `off`: there are live processes, but none runs it: `--guards`;
   * - `not-running`: no process is alive;
   * - `not-installed`: the API does not serve the kinds that users write for it;
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
  /** Nodes with a live agent that does not run it. */
  readonly notOn: readonly GuardNodeReport[];
  /** Its part in the operator; `null` if it has none, or no operator is alive. */
  readonly operator: { readonly state: GuardState; readonly reason: string } | null;
}

export interface GuardNodeReport {
  readonly name: string;
  /** `waiting` for what it needs; `unavailable` if the node cannot run it. */
  readonly state: Exclude<GuardState, 'running'>;
  /** One or two sentences; empty if the agent gives no reason. */
  readonly reason: string;
}

/** What is known about one node. Sections of guards add fields. */
export interface NodeReport {
  readonly name: string;
  /**
   * `running`: it renews its lease; `dead`: it no longer does; `stopped`: it has given its lease back; `not-seen`: it never had one, or
   * leases may not be read.
   */
  readonly agent: 'running' | 'dead' | 'stopped' | 'not-seen';
  /** When the agent last renewed its lease; `null` if unknown. */
  readonly agentRenewed: string | null;
  /** The agent's pod, found by the labels of deploy/; `null` without one. */
  readonly agentPod: { readonly name: string; readonly ready: boolean } | null;
  /** The guards of the agent, keyed by name, as it reports them; empty if it is not running. */
  readonly guards: Readonly<Record<string, NodeGuardReport>>;
  /** Losses since the agent started, from its metrics; guards without losses are omitted. */
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
  /** What was lost: `accesses`, `lines`, ... */
  readonly what: string;
  readonly count: number;
}
