/** The report: the sections combined with what is known about agents and operators. No I/O, no clock. */
import type { AgentGuardState, Losses } from '../../guard/agent-lease-names.ts';
import type { Problem, Processes, ProcessView } from '../../guard/guarded.ts';
import { holderOf, type LeaseView } from '../../guard/lease-holder.ts';
import { operatorLease } from '../../guard/operator-lease.ts';
import type { AgentView, NodeView } from '../../guard/status-section.ts';
import { type Verdict, verdictOn } from '../../guard/verdict.ts';
import { compareText } from '../../lib/output/compare-text.ts';
import type { AgentPodView, ReadGuard } from './reader.ts';
import type {
  GuardNodeReport,
  GuardReport,
  LossReport,
  NodeGuardReport,
  NodeReport,
  StatusReport,
} from './report.ts';

/** The results of reading; `undefined` for what this user may not read. */
export interface Found {
  readonly server: string;
  readonly timeMs: number;
  readonly namespace: string | undefined;
  readonly guards: readonly ReadGuard[];
  readonly locks: readonly LeaseView[] | undefined;
  readonly agents: readonly AgentView[] | undefined;
  /** `null`: there has never been one. */
  readonly operator: ProcessView | null | undefined;
  readonly agentPods: readonly AgentPodView[] | undefined;
  readonly nodes: readonly NodeView[] | undefined;
  readonly notRead: StatusReport['notRead'];
  /** On a single machine: the command that starts Rampart, if it does not run. */
  readonly start?: string | undefined;
}

export interface Examined {
  readonly report: StatusReport;
  /** Keyed by the guard's name. */
  readonly verdicts: ReadonlyMap<string, Verdict>;
}

export function examine(found: Found): Examined {
  const { guards, server, timeMs, namespace, notRead } = found;
  const processes = processesOf(found);
  const verdicts = new Map(
    guards.map(({ guard, section }) => [guard.name, verdictOn(guard, section?.objects ?? [], processes)]),
  );
  const problems = [...verdicts.values()].flatMap((verdict) => verdict.problems);
  const report: StatusReport = {
    schema: 'rampart.dev/status/v2',
    server,
    time: new Date(timeMs).toISOString(),
    namespace: namespace ?? null,
    guarded: problems.length === 0 && !guards.some(isUnread),
    guards: guards.map((one) => guardReport(one, found, verdictOf(verdicts, one))),
    problems,
    ...fieldsOf(guards.map((one) => one.section?.fields(verdictOf(verdicts, one)))),
    nodes: nodeReports(found, problems),
    operator: holderOf(found.locks, operatorLease),
    notRead,
  };
  return { report, verdicts };
}

export function verdictOf(verdicts: Examined['verdicts'], { guard }: ReadGuard): Verdict {
  return verdicts.get(guard.name) ?? { problems: [], failing: 0, of: () => [] };
}

function processesOf({ agents, operator, start }: Found): Processes {
  return {
    agents: agents && new Map(agents.map((agent) => [agent.nodeName, agent])),
    operator,
    start: (process, node) =>
      start ??
      (process === 'operator'
        ? 'Start the operator: kubectl -n rampart-system get pods shows its pod'
        : `Start the agent: kubectl -n rampart-system get pods -o wide shows its pod on ${node}`),
  };
}

/** All nodes for which there is a Node or an agent. */
function nodeReports(
  { guards, agents = [], agentPods = [], nodes }: Found,
  problems: readonly Problem[],
): NodeReport[] {
  const sections = guards.flatMap(({ section }) => section?.nodes ?? []);
  const known = new Set(nodes?.map(({ name }) => name));
  // Leases left by agents whose node is gone are ignored.
  const here = agents.filter((agent) => agent.isRenewed || known.size === 0 || known.has(agent.nodeName));
  const byNode = new Map(here.map((agent) => [agent.nodeName, agent]));
  const pods = new Map(agentPods.map((pod) => [pod.nodeName, pod]));
  const names = new Set([
    ...sections.flatMap((section) => section.names),
    ...problems.map(({ node }) => node ?? ''),
    ...pods.keys(),
    ...byNode.keys(),
  ]);
  names.delete('');
  return [...names].toSorted(compareText).map((name) => {
    const [pod, agent] = [pods.get(name), byNode.get(name)];
    const isAlive = agent?.isRenewed === true;
    const own = guards.filter(({ guard, installed }) => guard.node !== undefined && installed !== false);
    return {
      name,
      agent: agentState(agent),
      agentRenewed: timeOf(agent?.renewedMs),
      agentPod: pod === undefined ? null : { name: pod.name, ready: pod.ready },
      guards: isAlive
        ? Object.fromEntries(own.map(({ guard: { name: of } }) => [of, nodeGuard(agent.guards.get(of))]))
        : {},
      losses: isAlive ? lossesOf(agent) : [],
      ...fieldsOf(sections.map((section) => section.of(name).fields)),
    };
  });
}

function nodeGuard(state: AgentGuardState | undefined): NodeGuardReport {
  const { mode = '', blindSpots = [] } = state?.coverage ?? {};
  return {
    state: state?.state ?? 'off',
    reason: state?.reason ?? '',
    mode: mode === '' ? null : mode,
    blindSpots,
  };
}

function lossesOf({ losses = {}, guards }: AgentView): LossReport[] {
  const all: [string | null, Losses][] = [
    [null, losses],
    ...[...guards].map(([name, { coverage }]): [string, Losses] => [name, coverage?.losses ?? {}]),
  ];
  return all.flatMap(([guard, of]) =>
    Object.entries(of).flatMap(([what, count]) => (count > 0 ? [{ guard, what, count }] : [])),
  );
}

function agentState(agent: ProcessView | undefined): NodeReport['agent'] {
  if (agent === undefined) return 'not-seen';
  if (agent.isRenewed) return 'running';
  return agent.holder === '' ? 'stopped' : 'dead';
}

function timeOf(ms: number | null | undefined): string | null {
  return ms === undefined || ms === null ? null : new Date(ms).toISOString();
}

/** Whether the guard's objects may not be read: then it is unknown whether they are guarded. */
export function isUnread({ installed, section }: ReadGuard): boolean {
  return installed !== false && section !== undefined && section.objects === undefined;
}

function guardReport(read: ReadGuard, { agents, operator }: Found, { failing }: Verdict): GuardReport {
  const { guard, installed, section } = read;
  const { name } = guard;
  const alive = (agents ?? []).filter(({ isRenewed }) => isRenewed);
  const on: string[] = [];
  const notOn: GuardNodeReport[] = [];
  if (guard.node !== undefined && installed !== false) {
    for (const { nodeName, guards } of alive) {
      const { state = 'off', reason = '' } = guards.get(name) ?? {};
      if (state === 'running') on.push(nodeName);
      else notOn.push({ name: nodeName, state, reason });
    }
  }
  const isOperating = guard.cluster !== undefined && operator?.isRenewed === true;
  const ofOperator = isOperating ? operator.guards.get(name) : undefined;
  const isAlive = (guard.node !== undefined && alive.length > 0) || isOperating;
  const runs = on.length > 0 || (guard.node === undefined && ofOperator?.state === 'running');
  const isOff = notOn.every(({ state }) => state === 'off') && ofOperator === undefined;
  return {
    name,
    state:
      installed === false
        ? 'not-installed'
        : agents === undefined || operator === undefined
          ? 'unknown'
          : runs
            ? 'on'
            : isAlive && isOff
              ? 'off'
              : 'not-running',
    objects: section?.objects?.length ?? null,
    notGuarded: failing,
    guarded: failing === 0 && !isUnread(read),
    on: on.toSorted(compareText),
    notOn: notOn.toSorted((a, b) => compareText(a.name, b.name)),
    operator: isOperating ? { state: ofOperator?.state ?? 'off', reason: ofOperator?.reason ?? '' } : null,
  };
}

function fieldsOf(all: readonly (Readonly<Record<string, unknown>> | undefined)[]): object {
  return Object.assign({}, ...all) as object;
}
