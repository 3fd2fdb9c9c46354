/** An agent's report about this guard on its node: how it is written to the agent's lease, and how `rampart status` reads it. */
import { type Coverage, type GuardFacts, MAX_FACT_LENGTH } from '../../../guard/agent-lease-names.ts';
import type { PolicyMode } from '../engine/monitor.ts';
import type { PodKey, PolicyProblem } from '../engine/rules.ts';

/** An entry of `nodes[].networkPolicy` in the output of `-o json`. */
export interface NodeReport {
  /** `nftables` */
  readonly backend: string;
  /** `monitor`: nothing is refused on this node; packets that would be are reported. */
  readonly mode: PolicyMode;
  /** Whether there are rules in the kernel: without a policy for a pod of the node, none are needed. */
  readonly programmed: boolean;
  /** RFC 3339; `null` before the first one. */
  readonly lastFullSync: string | null;
  readonly fullSyncSeconds: number;
  /** Number of pods on the node that have rules; below, the number of directions of policies that these pods need. */
  readonly pods: number;
  readonly policies: number;
  /** Number since the start of the agent. */
  readonly driftRepaired: number;
  readonly failedSyncs: number;
  /** All NetworkPolicies up to this `resourceVersion` are in the kernel; `null` before the first sync. */
  readonly policiesVersion: string | null;
  /** Whether the policies are enforced: the kernel has accepted all rules, and all packets pass them. */
  readonly enforced: boolean;
  /** The problems: the kernel rejects the rules or some of them, packets bypass them, refused packets or allowed connections are not reported, another program refuses packets too. */
  readonly problems: readonly string[];
  /** The entries of `problems` that let packets through, or refuse too many. */
  readonly notEnforced: readonly string[];
}

interface SyncCounts {
  /** Time of the last successful full sync, by the wall clock; undefined before the first one. */
  readonly lastSyncMs: number | undefined;
  readonly lastSyncSeconds: number;
  readonly localPods: number;
  readonly policies: number;
  readonly driftRepaired: number;
  readonly failedSyncs: number;
}

export interface NodeState {
  readonly backend: string;
  /** Default: `enforce`. */
  readonly mode?: PolicyMode | undefined;
  readonly isProgrammed: boolean;
  readonly counts: SyncCounts;
  /** See {@link NodeReport.policiesVersion}. */
  readonly policiesVersion: string | undefined;
  /** Why the kernel has rejected the rules. */
  readonly problem: string | undefined;
  /** Rules that the kernel has rejected: all others apply. */
  readonly refused: readonly PolicyProblem[];
  /** Why refused packets are not reported. */
  readonly unreported: string | undefined;
  /** Why allowed connections are not logged, if that is configured. */
  readonly unlogged?: string | undefined;
  /** Why packets bypass the rules: those within a bridge, those of unknown pods. */
  readonly bypassed: string | undefined;
  /** Rules of other programs that refuse packets as well. */
  readonly others?: string | undefined;
}

export function nodeFacts({
  backend,
  mode,
  isProgrammed,
  counts,
  policiesVersion,
  problem,
  refused,
  unreported,
  unlogged,
  bypassed,
  others,
}: NodeState): GuardFacts {
  const text = (value: string | undefined): string => (value ?? '').slice(0, MAX_FACT_LENGTH);
  return {
    backend,
    ...(mode === 'monitor' && { mode }),
    programmed: isProgrammed,
    ...(counts.lastSyncMs !== undefined && { lastFullSync: new Date(counts.lastSyncMs).toISOString() }),
    fullSyncSeconds: Math.round(counts.lastSyncSeconds * 1000) / 1000,
    pods: counts.localPods,
    policies: counts.policies,
    driftRepaired: counts.driftRepaired,
    failedSyncs: counts.failedSyncs,
    // Written as a number with the next renewal of the lease, and not at once: each change of a policy changes it on all nodes.
    ...(policiesVersion !== undefined && { policiesVersion: Number(policiesVersion) }),
    ...(problem !== undefined && { notTaken: text(problem) }),
    ...(refused[0] !== undefined && { leftOut: text(firstOf(refused[0], refused.length)) }),
    ...(bypassed !== undefined && { bypassed: text(bypassed) }),
    ...(unreported !== undefined && { unreported: text(unreported) }),
    ...(unlogged !== undefined && { unlogged: text(unlogged) }),
    ...(others !== undefined && { others: text(others) }),
  };
}

/** Limits that apply to all backends, to this backend, or to this mode. */
export function coverageOf(
  backend: string,
  mode: PolicyMode,
  cutsEstablished: boolean,
  { refusalsLost, flowsLost }: { readonly refusalsLost: number; readonly flowsLost: number },
  sources: { readonly problem: string | undefined; readonly unchecked: ReadonlySet<PodKey> },
  logsFlows = false,
): Coverage {
  return {
    mode: backend,
    blindSpots: [
      ...(mode === 'monitor' ? ['all traffic: nothing is refused, only reported (monitor mode)'] : []),
      'traffic of pods in the network of the node',
      'traffic from the node to its own pods',
      ...(cutsEstablished ? [] : ['connections that were established before a policy forbade them']),
      ...(sources.problem === undefined ? [] : [`forged sources of packets from pods: ${sources.problem}`]),
      ...(sources.unchecked.size === 0
        ? []
        : [`forged sources of packets from these pods: ${[...sources.unchecked].join(', ')}`]),
    ],
    losses: { 'refused packets': refusalsLost, ...(logsFlows && { 'allowed connections': flowsLost }) },
  };
}

function firstOf({ policy, field, message }: PolicyProblem, count: number): string {
  return `${policy}${count === 1 ? '' : ` and ${count - 1} more`}: ${field}: ${message}`;
}

/** Undefined if the report is of an agent without this guard, or of an older version. */
export function readNodeFacts(facts: GuardFacts | undefined): NodeReport | undefined {
  if (typeof facts?.['backend'] !== 'string') return undefined;
  const number = (name: string): number => {
    const value = facts[name];
    return typeof value === 'number' && Number.isFinite(value) ? value : 0;
  };
  const text = (name: string): string | undefined => {
    const value = facts[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const [notTaken, leftOut, bypassed, unreported, unlogged, others] = [
    'notTaken',
    'leftOut',
    'bypassed',
    'unreported',
    'unlogged',
    'others',
  ].map(text);
  const lastFullSync = text('lastFullSync');
  const notEnforced = [
    ...(notTaken === undefined ? [] : [`the kernel refuses the rules: ${notTaken}`]),
    ...(leftOut === undefined ? [] : [`a rule is left out: ${leftOut}`]),
    ...(bypassed === undefined ? [] : [bypassed]),
  ];
  return {
    backend: facts['backend'],
    mode: facts['mode'] === 'monitor' ? 'monitor' : 'enforce',
    programmed: facts['programmed'] === true,
    lastFullSync: lastFullSync !== undefined && !Number.isNaN(Date.parse(lastFullSync)) ? lastFullSync : null,
    fullSyncSeconds: number('fullSyncSeconds'),
    pods: number('pods'),
    policies: number('policies'),
    driftRepaired: number('driftRepaired'),
    failedSyncs: number('failedSyncs'),
    policiesVersion: Number.isSafeInteger(facts['policiesVersion']) ? String(facts['policiesVersion']) : null,
    enforced: notEnforced.length === 0,
    notEnforced,
    problems: [
      ...notEnforced,
      ...(unreported === undefined ? [] : [`refused packets are counted but not reported: ${unreported}`]),
      ...(unlogged === undefined ? [] : [`allowed connections are not logged: ${unlogged}`]),
      ...(others === undefined ? [] : [others]),
    ],
  };
}
