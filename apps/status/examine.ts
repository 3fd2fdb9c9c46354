/** The report: the sections combined with what is known about agents and operators. No I/O, no clock. */
import { type HolderReport, holderOf, type LeaseView } from '../../guard/lease-holder.ts';
import { operatorLease } from '../../guard/operator-lease.ts';
import type { AgentView, NodeView } from '../../guard/status-section.ts';
import type { AgentPodView, ReadGuard } from './reader.ts';
import type { GuardNodeReport, GuardReport, NodeReport, StatusReport } from './report.ts';

/** What was read; `undefined` is what this user may not read. */
export interface Found {
  readonly server: string;
  readonly timeMs: number;
  readonly namespace: string | undefined;
  readonly guards: readonly ReadGuard[];
  readonly locks: readonly LeaseView[] | undefined;
  readonly agents: readonly AgentView[] | undefined;
  readonly agentPods: readonly AgentPodView[] | undefined;
  readonly nodes: readonly NodeView[] | undefined;
  readonly notRead: StatusReport['notRead'];
}

export function examine(found: Found): StatusReport {
  const { guards, server, timeMs, namespace, notRead } = found;
  const nodes = nodeReports(found);
  const running = new Set(nodes.filter(({ agent }) => agent === 'running').map(({ name }) => name));
  const reports = guards.map((one) => guardReport(one, found, running));
  return {
    schema: 'rampart.dev/status/v1',
    server,
    time: new Date(timeMs).toISOString(),
    namespace: namespace ?? null,
    guarded: reports.every(({ guarded }) => guarded),
    guards: reports,
    ...fieldsOf(guards.map(({ section }) => section?.fields)),
    nodes,
    operator: worst(reports.flatMap(({ operator }) => operator ?? [])),
    notRead,
  };
}

/** The nodes that anything is known of. */
function nodeReports({ guards, agents = [], agentPods = [], nodes }: Found): NodeReport[] {
  const sections = guards.flatMap(({ section }) => section?.nodes ?? []);
  const known = new Set(nodes?.map(({ name }) => name));
  // What an agent left behind, of a node that is gone, is nothing to look after.
  const here = agents.filter((agent) => agent.isRenewed || known.size === 0 || known.has(agent.nodeName));
  const renewed = new Set(here.filter(({ isRenewed }) => isRenewed).map(({ nodeName }) => nodeName));
  const pods = new Map(agentPods.map((pod) => [pod.nodeName, pod]));
  const names = new Set([
    ...sections.flatMap((section) => section.names),
    ...pods.keys(),
    ...here.map(({ nodeName }) => nodeName),
  ]);
  names.delete('');
  return [...names].toSorted().map((name) => {
    const pod = pods.get(name);
    const parts = sections.map((section) => section.of(name));
    const isRunning = renewed.has(name) || pod?.ready === true || parts.some((part) => part.isRunning);
    return {
      name,
      agent: isRunning ? 'running' : 'not-seen',
      agentPod: pod === undefined ? null : { name: pod.name, ready: pod.ready },
      ...fieldsOf(parts.map(({ fields }) => fields)),
    };
  });
}

function guardReport(
  { guard, installed, section }: ReadGuard,
  { agents = [], locks }: Found,
  running: ReadonlySet<string>,
): GuardReport {
  const nodes: GuardNodeReport[] = [];
  // What is not installed is waited for everywhere. What an agent said that is gone holds no more.
  for (const { nodeName, guards } of installed === false ? [] : agents) {
    const { state, reason = '' } = guards.get(guard.name) ?? {};
    if (!running.has(nodeName)) continue;
    if (state === 'waiting' || state === 'unavailable') nodes.push({ name: nodeName, state, reason });
  }
  const isServed = nodes.length === 0 || section?.isAsked === false;
  const hasOperator = guard.cluster !== undefined && installed !== false;
  // That of an operator which does not run it says nothing of it.
  const itsLocks = locks?.filter(({ guards }) => guards?.includes(guard.name) !== false);
  return {
    name: guard.name,
    installed,
    guarded: isServed && section?.guarded !== false,
    operator: hasOperator ? holderOf(itsLocks, operatorLease) : null,
    nodes: nodes.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)),
  };
}

function fieldsOf(all: readonly (Readonly<Record<string, unknown>> | undefined)[]): object {
  return Object.assign({}, ...all) as object;
}

const byBadness: readonly HolderReport['state'][] = ['free', 'stale', 'unknown', 'held'];

function worst(holders: readonly HolderReport[]): HolderReport {
  for (const state of byBadness) {
    const holder = holders.find((one) => one.state === state);
    if (holder !== undefined) return holder;
  }
  return holderOf(undefined, undefined);
}
