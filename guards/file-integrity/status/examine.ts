/** Derives what is known about each node from the objects of the API. */
import { compareText } from '../../../lib/output/compare-text.ts';
import type { GuardedObject, Need, OwnProblem } from '../../../guard/guarded.ts';
import type { AgentView, NodeView } from '../../../guard/status-section.ts';
import type { Condition } from '../../../lib/kube/object/conditions.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { changedAtMs } from '../../../lib/kube/object/changed-at.ts';
import type { FileIntegrity, FileIntegrityStatus } from '../api.ts';
import type { ChangeAuthor } from '../model/finding.ts';
import { isForNode } from '../results/for-node.ts';
import { describeAuthor } from '../cluster/report-entries.ts';
import { readNodeFacts } from '../results/node-facts.ts';
import type { IntegrityNodeReport, Unjudged } from './report.ts';
import type { IntegrityNodeView, IntegrityView } from './snapshot.ts';
import { someOf } from '../../../lib/output/words.ts';

const NAMED_NODES = 3;

export interface Surroundings {
  readonly nodes: readonly NodeView[];
  /** Undefined if leases may not be read. */
  readonly agents: readonly AgentView[] | undefined;
}

export interface Examined {
  readonly report: Unjudged;
  /** Undefined if the FileIntegrity is being deleted. */
  readonly object: GuardedObject | undefined;
}

/** Sorted by namespace, name and group. */
export function examineIntegrities(
  integrities: readonly IntegrityView[],
  surroundings: Surroundings,
): Examined[] {
  return integrities
    .map((view) => ({
      report: integrityReport(view, surroundings),
      object: isDeleting(view.integrity) ? undefined : guardedObject(view, surroundings),
    }))
    .toSorted(
      ({ report: a }, { report: b }) =>
        compareText(a.namespace, b.namespace) || compareText(a.name, b.name) || compareText(a.group, b.group),
    );
}

function integrityReport(
  { group, integrity, nodes: views }: IntegrityView,
  { agents = [] }: Surroundings,
): Unjudged {
  const { namespace = '', name = '' } = integrity.metadata;
  const progressOf = new Map(
    agents.flatMap(({ nodeName, isRenewed, guards }) => {
      const progress = readNodeFacts(guards.get('file-integrity')?.facts).progress;
      return isRenewed && progress?.object === `${namespace}/${name}` ? [[nodeName, progress]] : [];
    }),
  );
  const nodes = views
    .map((view) => nodeReport(view, progressOf.get(view.nodeName)))
    .toSorted((a, b) => compareText(a.name, b.name));
  const isKnown = nodes.length > 0 && nodes.every(({ condition }) => isResult(condition));
  return {
    group,
    namespace,
    name,
    deleting: isDeleting(integrity),
    phase: integrity.status?.phase ?? null,
    paused: integrity.status?.conditions?.some(isPaused) === true,
    intact: nodes.some(({ condition }) => condition === 'Failed') ? false : isKnown ? true : null,
    nodes,
  };
}

/** What status waits for: the agents of the selected nodes, and the operator, which writes their results to the API. */
function guardedObject(view: IntegrityView, { nodes, agents = [] }: Surroundings): GuardedObject {
  const { integrity, nodes: views } = view;
  const { namespace = '', name = '', generation = 0, uid = '' } = integrity.metadata;
  const results = new Map(views.map((one) => [one.nodeName, one]));
  const names =
    nodes.length > 0
      ? nodes.filter((node) => isChosen(integrity.spec, node)).map((node) => node.name)
      : [...new Set([...results.keys(), ...agents.map(({ nodeName }) => nodeName)])];
  names.sort(compareText);
  const seen = integrity.status?.conditions?.find(({ type }) => type === 'Configured')?.observedGeneration;
  const needs: Need[] = [
    { process: 'operator', why: 'it writes the results into the API', seen },
    ...names.map((node) => {
      const facts = agents.find(({ nodeName }) => nodeName === node)?.guards.get('file-integrity')?.facts;
      return {
        process: 'agent' as const,
        node,
        why: 'spec.nodeSelector and spec.tolerations select it',
        seen: readNodeFacts(facts).generations.get(uid.slice(0, 8)),
      };
    }),
  ];
  const own = problemsOf(integrity, nodes);
  const held = integrity.status?.conditions?.find(isPaused);
  return {
    ...{ kind: 'FileIntegrity', namespace, name, revision: generation, changedMs: changedAtMs(integrity) },
    needs,
    problems: [
      ...own,
      ...(held === undefined ? [] : [pausedProblem(held)]),
      // Without a usable configuration, nodes are not expected to have results.
      ...names.flatMap((node) => nodeProblems(node, results.get(node), own.length === 0)),
    ],
  };
}

function pausedProblem({ message, lastTransitionTime }: Condition): OwnProblem {
  return {
    ...{ kind: 'paused', why: message.replace(/\.$/, ''), sinceMs: Date.parse(lastTransitionTime) },
    next: 'Remove the annotation when the maintenance is over',
  };
}

function problemsOf(integrity: FileIntegrity, known: readonly NodeView[]): OwnProblem[] {
  const { spec, status, metadata } = integrity;
  const reasons = reasonsOf(status);
  const nowhere = nowhereOf(spec, known);
  if (nowhere !== undefined) return [...reasons, nowhere];
  // If a node has the error, the problem of that node reports it.
  const isOfNode = status?.nodeStatus?.some(({ condition }) => condition === 'Errored') === true;
  if (status?.phase === 'Error' && reasons.length === 0 && !isOfNode) {
    return [
      {
        ...{ kind: 'error', by: 'operator', why: 'it has an error' },
        next: `kubectl -n ${metadata.namespace} describe fileintegrity ${metadata.name} shows its events`,
      },
    ];
  }
  return reasons;
}

/** Why no node is guarded; undefined if at least one is selected. */
function nowhereOf(spec: FileIntegrity['spec'], known: readonly NodeView[]): OwnProblem | undefined {
  if (known.length === 0 || known.some((node) => isChosen(spec, node))) return undefined;
  const selector = Object.entries(spec.nodeSelector ?? {}).map(([name, value]) => `${name}=${value}`);
  const names = known.map(({ name }) => name).toSorted(compareText);
  const nodes = someOf(names, NAMED_NODES);
  return selector.length === 0
    ? {
        ...{ kind: 'no-node', field: 'spec.tolerations' },
        why: `no node is selected: it tolerates the taints of no node (${nodes})`,
        next: 'Add a toleration',
      }
    : {
        ...{ kind: 'no-node', field: 'spec.nodeSelector' },
        why: `no node is selected by ${selector.join(', ')} and spec.tolerations (there are ${nodes})`,
        next: 'Compare it with the labels of the nodes',
      };
}

function isChosen(spec: FileIntegrity['spec'], { labels = {}, taints = [] }: NodeView): boolean {
  return isForNode(spec, { metadata: { labels }, spec: { taints: [...taints] } }, false);
}

function nodeProblems(
  node: string,
  view: IntegrityNodeView | undefined,
  isConfigured: boolean,
): OwnProblem[] {
  const result = view?.lastResult;
  if (result === undefined) {
    if (!isConfigured) return [];
    const next = 'The column RESULT shows how far it is';
    return [{ kind: 'initializing', by: 'agent', node, why: 'there is no result of this node yet', next }];
  }
  if (result.condition !== 'Errored') return [];
  return [
    {
      ...{ kind: 'errored', by: 'agent', node },
      why: result.errorMessage?.replace(/\.$/, '') ?? 'the state of its files is unknown',
      next: 'Remove the cause; the next scan follows by itself',
      sinceMs: Date.parse(result.lastProbeTime),
    },
  ];
}

/** Why the requested configuration is not in use. */
function reasonsOf({ conditions = [] }: FileIntegrityStatus = {}): OwnProblem[] {
  return conditions
    .filter(({ type, status }) => type === 'Configured' && status === 'False')
    .map(({ message, lastTransitionTime }) => ({
      ...{ kind: 'not-configured', by: 'operator', field: 'spec.config' },
      why: message.replace(/\.$/, ''),
      next: 'Correct the configuration',
      sinceMs: Date.parse(lastTransitionTime),
    }));
}

function isPaused({ type, status }: { readonly type: string; readonly status: string }): boolean {
  return type === 'Paused' && status === 'True';
}

function isResult(condition: IntegrityNodeReport['condition']): boolean {
  return condition === 'Succeeded' || condition === 'Failed';
}

function nodeReport(
  { nodeName, lastResult, detection, findings, findingCount, packageUpdates, reading }: IntegrityNodeView,
  progress: IntegrityNodeReport['progress'] | undefined,
): IntegrityNodeReport {
  return {
    name: nodeName,
    condition: lastResult?.condition ?? null,
    lastProbeTime: lastResult?.lastProbeTime ?? null,
    progress: progress ?? null,
    filesAdded: lastResult?.filesAdded ?? 0,
    filesChanged: lastResult?.filesChanged ?? 0,
    filesRemoved: lastResult?.filesRemoved ?? 0,
    findingCount,
    packageUpdates,
    reading: reading ?? null,
    findings: findings.map(({ last, ...finding }) => ({
      ...withAuthorText(finding),
      ...(last && { last: withAuthorText(last) }),
    })),
    detection:
      detection === undefined ? null : { lostAuthors: 0, directoriesWithoutAuthors: 0, ...detection },
  };
}

function withAuthorText<T extends { readonly author?: ChangeAuthor }>({
  author,
  ...rest
}: T): Omit<T, 'author'> & { readonly author: string | null } {
  return { ...rest, author: author === undefined ? null : describeAuthor(author) };
}
