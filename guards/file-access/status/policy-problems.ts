/** Why a KivePolicy does not guard everything that it names: its problems, with their remedies. */
import { holderName, type HolderReport } from '../../../guard/lease-holder.ts';
import type { OwnProblem } from '../../../guard/guarded.ts';
import { compareText } from '../../../lib/output/compare-text.ts';
import { counted } from '../../../lib/output/words.ts';
import type { KivePolicy } from '../api.ts';
import { defaultScope, type PolicyScope, unlimitedScope } from '../policy/policy-scope.ts';
import { noMatchMessage, validatePolicy } from '../policy/validation.ts';
import {
  type CallbackProblem,
  isMatched,
  type NodePart,
  PARTLY_WATCHED,
  type PolicyStatus,
  statusOf,
} from '../policy-status-schema.ts';
import type { RefusedFiles } from './refused-files.ts';
import type { Snapshot } from './snapshot.ts';

/** Numbers of containers on a node that a trap matches. */
export interface Matching {
  readonly running: number;
  /** Number of containers that the node's agent has had time to examine. */
  readonly settled: number;
}

/** The known facts about a policy besides its object. */
export interface Surroundings {
  /** The nodes' reports on the policy; undefined if they may not be read. */
  readonly parts: readonly NodePart[] | undefined;
  readonly reported: Snapshot['reported'];
  readonly refused: Snapshot['refused'];
  readonly data: number | undefined;
  /** Keyed by node. */
  readonly matching: ReadonlyMap<string, Matching>;
  /** Nodes whose own files the policy guards, not only those of containers: all nodes if a trap has `host: true`, otherwise none. */
  readonly hosts: readonly string[];
  readonly loaderOf: (node: string) => HolderReport;
}

/** The scope that the operator published in the status; until then, the one without `--kive-policy-namespaces`. */
export function scopeOf(policy: KivePolicy): PolicyScope {
  return statusOf(policy).scope === 'Cluster' ? unlimitedScope : defaultScope;
}

/** Why a policy is not fully in effect, according to the nodes' reports on it, pods and leases. */
export function problemsOf(
  policy: KivePolicy,
  { parts, matching, hosts, loaderOf, refused: untaken }: Surroundings,
): OwnProblem[] {
  const problems: OwnProblem[] = [];
  const { traps } = policy.spec;
  const refused = validatePolicy(policy, scopeOf(policy));
  for (const { field, what, why, next } of [...refused.values()].flat()) {
    problems.push({
      ...{ kind: 'trap-refused', field },
      why: `${what} is invalid: ${why}`,
      next: next.replace(/\.$/, ''),
    });
  }
  const status = statusOf(policy);
  if (parts === undefined) problems.push(...gatheredProblems(status));
  for (const part of parts ?? [])
    problems.push(...partProblems(part), ...unknownContainers(part, matching.get(part.node)));
  const nodes = new Set([
    ...(parts ?? []).filter(isMatched).map(({ node }) => node),
    ...matching.keys(),
    ...hosts,
  ]);
  for (const node of [...nodes].toSorted(compareText)) {
    const loader = loaderOf(node);
    const why = noLoader(loader);
    const next = 'Look into the log of its agent';
    if (why !== undefined) problems.push({ kind: 'no-loader', by: 'agent', node, why, next });
    const ofLoader = untaken.get(holderName(loader));
    if (ofLoader !== undefined) problems.push(...notTaken(policy, node, ofLoader));
  }
  // If all traps are refused, it is no separate problem that nothing matches.
  const works = refused.size < traps.length;
  const isFound =
    (parts?.some(isMatched) ?? (status.matchedNodes ?? 0) > 0) || matching.size + hosts.length > 0;
  if (!isFound && works) {
    const why = noMatchMessage(policy, scopeOf(policy)).replace(/\.$/, '');
    problems.push({
      kind: 'no-match',
      why,
      next: 'Compare matchAny of its traps with the labels of the pods',
    });
  }
  return problems;
}

/** The problems in the operator's summary of all nodes: the first ones, and the number of the others. */
function gatheredProblems({
  problems = [],
  callbackProblems = [],
  problemCount = 0,
}: PolicyStatus): OwnProblem[] {
  const more = problemCount - problems.length;
  return [
    ...problems.map((problem) => fileMissing(problem.node, problem)),
    ...(more > 0 ? [moreMissing(more)] : []),
    ...callbackProblems.map((problem) => callbackFailing(problem.node, problem)),
  ].map((problem) => ({ ...problem, by: 'operator' }));
}

function partProblems({ node, problems = [], callbackProblems = [], problemCount }: NodePart): OwnProblem[] {
  const more = problemCount - problems.length;
  return [
    ...problems.map((problem) => fileMissing(node, problem)),
    ...(more > 0 ? [moreMissing(more, node)] : []),
    ...callbackProblems.map((problem) => callbackFailing(node, problem)),
  ];
}

/** Reports matching containers that the runtime has not yet reported to the node's agent. */
function unknownContainers(
  { node, matchedContainers }: NodePart,
  { settled }: Matching = { running: 0, settled: 0 },
): OwnProblem[] {
  if (settled <= matchedContainers) return [];
  const why = `the agent knows ${matchedContainers} of ${counted(settled, 'container')} there that traps match`;
  return [{ kind: 'outdated', by: 'agent', node, why, next: 'Look into the log of its agent' }];
}

function fileMissing(
  node: string,
  { trap, path, container, message }: NonNullable<NodePart['problems']>[number],
): OwnProblem {
  const where = `${path}${container === '' ? '' : ` in ${container}`}`;
  const field = `spec.traps[${trap}]`;
  if (message.startsWith(PARTLY_WATCHED)) {
    return {
      ...{ kind: 'file-missing', by: 'agent', node, field },
      why: `${where} is ${message}`,
      next: 'Name a directory with fewer files and directories in it, or raise fs.inotify.max_user_watches',
    };
  }
  return {
    ...{ kind: 'file-missing', by: 'agent', node, field },
    why: `${where} is not watched: ${message.replace(/\.$/, '')}`,
    next: 'It is watched as soon as it exists; correct the path if it never will',
  };
}

function moreMissing(more: number, node?: string): OwnProblem {
  return {
    ...{ kind: 'file-missing', by: 'agent', ...(node !== undefined && { node }) },
    why: `${counted(more, 'more file')} ${more === 1 ? 'is' : 'are'} not watched`,
    next: `The ${node === undefined ? 'logs of the agents say' : 'log of its agent says'} which`,
  };
}

/** Reports files that the sensor refused. The loader of the kernel counts them for all policies together. */
function notTaken(
  { metadata }: KivePolicy,
  node: string,
  { count, why, policies }: RefusedFiles,
): OwnProblem[] {
  if (policies?.has(`${metadata.namespace}/${metadata.name}`) === false) return [];
  return [
    {
      ...{ kind: 'file-refused', by: 'agent', node },
      why: `the sensor of its kernel has no room for ${counted(count, 'file')}, of this policy or of others: ${why.replace(/\.$/, '')}`,
      next: 'Let traps match fewer files; they are watched as soon as there is room',
    },
  ];
}

function callbackFailing(node: string, { callback, message }: CallbackProblem): OwnProblem {
  return {
    ...{ kind: 'callback-failing', by: 'agent', node },
    why: `alerts for ${callback} are not delivered: ${message.replace(/\.$/, '')}`,
    next: 'Alerts are kept and sent when it accepts them',
  };
}

function noLoader(loader: HolderReport): string | undefined {
  const { state, renewedSecondsAgo } = loader;
  if (state === 'free') return 'no agent raises alerts for its kernel: the lease has no holder';
  if (state !== 'stale') return undefined;
  const age = renewedSecondsAgo === null ? '' : ` for ${Math.round(renewedSecondsAgo)} s`;
  return `no agent raises alerts for its kernel: the agent of ${holderName(loader)} has not renewed the lease${age}`;
}
