/**
 * Whether an object is guarded: one rule for all guards. No I/O, no clock.
 *
 * An object is guarded if each process that it needs is alive, runs the guard, and has reported on the object
 * since its last change, and if none of these processes reports a problem. Reports of a dead process do not
 * count.
 */
import { compareVersions } from '../lib/kube/object/resource-version.ts';
import type { AgentGuardState } from './agent-lease-names.ts';

export interface ObjectName {
  readonly kind: string;
  /** `null`: cluster-scoped. */
  readonly namespace: string | null;
  readonly name: string;
}

/** A `metadata.generation`, or a `metadata.resourceVersion`. Only two of the same type can be compared. */
export type Revision = number | string;

/** The state of a user's object, as found by a section of `rampart status`. */
export interface GuardedObject extends ObjectName {
  /** The current revision of the object. */
  readonly revision: Revision;
  /** When the user changed it last, if known. */
  readonly changedMs?: number | undefined;
  readonly needs: readonly Need[];
  readonly problems: readonly OwnProblem[];
}

export type Need = {
  /** Why the object needs this process: `2 containers that it selects run there`. */
  readonly why: string;
  /** The latest revision that this process has reported on; undefined if it has not reported. */
  readonly seen: Revision | undefined;
} & (
  | { readonly process: 'agent'; readonly node: string }
  | { readonly process: 'operator' }
  /** `isReady`: whether its pods are ready now. */
  | { readonly process: 'policy-server'; readonly name: string; readonly isReady: boolean }
);

/** A problem that a section has found. */
export interface OwnProblem {
  /** A word for scripts: `file-missing`. */
  readonly kind: string;
  readonly why: string;
  readonly next: string;
  /** The process that reports it: if that process is dead, the problem is dropped. Default: the section sees the problem in the objects. */
  readonly by?: 'agent' | 'operator';
  readonly node?: string;
  /** The field of the object: `spec.traps[0].path`. */
  readonly field?: string;
  readonly sinceMs?: number | undefined;
}

/** An entry of `problems[]` in `-o json`. */
export interface Problem {
  readonly guard: string;
  readonly kind: string;
  readonly object: ObjectName;
  readonly node: string | null;
  readonly field: string | null;
  readonly why: string;
  readonly next: string;
  /** RFC 3339; `null` if unknown. */
  readonly since: string | null;
}

/** An agent or an operator, as its lease shows it. */
export interface ProcessView {
  /** Empty if the process has stopped and given the lease back. */
  readonly holder: string;
  /** Whether the lease was renewed within its duration. */
  readonly isRenewed: boolean;
  readonly renewedMs: number | null;
  /** All guards that the process runs, by name: guards not listed are switched off. */
  readonly guards: ReadonlyMap<string, AgentGuardState>;
}

export interface Processes {
  /** Agents by node; undefined if leases may not be read. */
  readonly agents: ReadonlyMap<string, ProcessView> | undefined;
  /** `null`: there is no lease; undefined if it may not be read. */
  readonly operator: ProcessView | null | undefined;
  /** Tells a user how to start a process that does not run. */
  readonly start: (process: 'agent' | 'operator', node?: string) => string;
}

/** The part of a guard's descriptor that is needed here. */
export interface RunGuard {
  readonly name: string;
  /** Undefined: no agent is needed. */
  readonly node?: unknown;
}

interface Fault {
  readonly kind: string;
  readonly why: string;
  readonly next: string;
  readonly sinceMs?: number | null | undefined;
}

const leasesUnread: Fault = {
  kind: 'unknown',
  why: 'whether its processes run is unknown: the leases in rampart-system may not be read',
  next: 'Bind the Role rampart-viewer in rampart-system to this user',
};

/** @returns why the object is not guarded; empty if it is. */
export function problemsOf(guard: RunGuard, object: GuardedObject, processes: Processes): Problem[] {
  const { kind, namespace, name } = object;
  const problem = ({ kind: what, why, next, sinceMs }: Fault, more: Partial<Problem> = {}): Problem => ({
    guard: guard.name,
    kind: what,
    object: { kind, namespace, name },
    node: null,
    field: null,
    why,
    next,
    since: typeof sinceMs === 'number' && Number.isFinite(sinceMs) ? new Date(sinceMs).toISOString() : null,
    ...more,
  });
  if (processes.agents === undefined || processes.operator === undefined) {
    return [problem(leasesUnread), ...object.problems.filter(({ by }) => by === undefined).map(own)];
  }
  function own({ node, field, ...fault }: OwnProblem): Problem {
    return problem(fault, { node: node ?? null, field: field ?? null });
  }
  const found: Problem[] = [];
  for (const need of object.needs) {
    const fault = faultOf(guard, object, need, processes);
    if (fault !== undefined) found.push(problem(fault, need.process === 'agent' ? { node: need.node } : {}));
  }
  const isNowhere =
    guard.node !== undefined && ![...processes.agents.values()].some((agent) => runs(guard, agent));
  if (isNowhere && object.needs.every(({ process }) => process !== 'agent')) {
    found.push(
      problem({
        kind: 'runs-nowhere',
        why: `no agent runs ${guard.name}`,
        next: `Start an agent with ${guard.name} in --guards`,
      }),
    );
  }
  const isHeard = ({ by, node = '' }: OwnProblem): boolean => {
    if (by === 'agent') return runs(guard, processes.agents?.get(node));
    return by === undefined || runs(guard, processes.operator ?? undefined);
  };
  return [...found, ...object.problems.filter(isHeard).map(own)];
}

function runs({ name }: RunGuard, process: ProcessView | undefined): boolean {
  return process?.isRenewed === true && process.guards.get(name)?.state === 'running';
}

/** Why a process that the object needs does not guard it. */
function faultOf(
  { name: guard }: RunGuard,
  { revision, changedMs }: GuardedObject,
  need: Need,
  { agents, operator, start }: Processes,
): Fault | undefined {
  const unseen = (who: string): Fault | undefined =>
    isSeen(need.seen, revision)
      ? undefined
      : {
          kind: need.seen === undefined ? 'not-reported' : 'outdated',
          why:
            need.seen === undefined
              ? `${who} has not reported on it, although ${need.why}`
              : `${who} has reported only on an older version of it`,
          next: `Wait some seconds; then look into the log of ${who}`,
          sinceMs: changedMs,
        };
  if (need.process === 'policy-server') {
    if (need.isReady) return unseen(`the operator on policy server ${need.name}`);
    return {
      kind: 'no-policy-server',
      why: `the policy server ${need.name} has no ready pod, although ${need.why}`,
      next: `kubectl -n rampart-system describe deployment policy-server-${need.name}`,
    };
  }
  const isAgent = need.process === 'agent';
  const process = isAgent ? agents?.get(need.node) : (operator ?? undefined);
  const who = isAgent ? 'the agent' : 'the operator';
  const fault = processFault(guard, process, who);
  if (fault === undefined) return unseen(isAgent ? `the agent of ${need.node}` : who);
  const prefix = need.process;
  return {
    ...fault,
    kind: `${prefix}-${fault.kind}`,
    why: `${fault.why}, although ${need.why}`,
    next: fault.next ?? (isAgent ? start('agent', need.node) : start('operator')),
  };
}

/** Why a process does not do a guard's work now; without `next` if the process has to be started. */
function processFault(
  guard: string,
  process: ProcessView | undefined,
  who: string,
): (Omit<Fault, 'next'> & { readonly next?: string }) | undefined {
  if (process === undefined) return { kind: 'missing', why: `${who} has never run` };
  const sinceMs = process.renewedMs;
  if (process.holder === '') return { kind: 'stopped', why: `${who} was stopped`, sinceMs };
  if (!process.isRenewed) return { kind: 'dead', why: `${who} no longer renews its lease`, sinceMs };
  const { state, reason = '' } = process.guards.get(guard) ?? {};
  const because = reason === '' ? '' : `: ${reason.replace(/\s*\n\s*/g, ' ').replace(/\.$/, '')}`;
  switch (state) {
    case 'running':
      return undefined;
    case undefined:
      return {
        kind: 'switched-off',
        why: `${guard} is switched off in ${who}`,
        next: `Add ${guard} to --guards of ${who}`,
      };
    case 'starting':
      return { kind: 'starting', why: `${guard} is starting in ${who}${because}`, next: 'Wait some seconds' };
    case 'waiting':
      return {
        kind: 'waiting',
        why: `${guard} waits in ${who}${because}`,
        next: 'Provide what it waits for; it then starts by itself',
      };
    case 'unavailable':
      return {
        kind: 'unavailable',
        why: `${guard} cannot run in ${who}${because}`,
        next: `Remove the cause, then restart ${who}; rampart doctor on the node shows what its kernel supports`,
      };
  }
}

function isSeen(seen: Revision | undefined, now: Revision): boolean {
  if (typeof seen === 'number') return typeof now === 'number' && seen >= now;
  if (seen === undefined || typeof now === 'number') return false;
  const order = compareVersions(seen, now);
  return order !== undefined && order >= 0;
}
