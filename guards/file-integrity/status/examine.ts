/** Derives from the objects of the API what is known about each node. No I/O, no clock. */
import { compareText } from '../../../lib/output/compare-text.ts';
import type { NodeView } from '../../../guard/status-section.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { FileIntegrityStatus } from '../api.ts';
import { isForNode } from '../results/for-node.ts';
import { describeAuthor } from '../cluster/report-entries.ts';
import type { IntegrityNodeReport, IntegrityReport } from './report.ts';
import type { IntegrityNodeView, IntegrityView } from './snapshot.ts';
import { someOf } from '../../../lib/output/words.ts';

const NAMED_NODES = 3;

type Problem = IntegrityReport['problems'][number];

/** By namespace, name and group. */
export function integrityReports(
  integrities: readonly IntegrityView[],
  nodes: readonly NodeView[],
): IntegrityReport[] {
  return integrities
    .map((view) => integrityReport(view, nodes))
    .toSorted(
      (a, b) =>
        compareText(a.namespace, b.namespace) || compareText(a.name, b.name) || compareText(a.group, b.group),
    );
}

function integrityReport(
  { group, integrity, nodes: views }: IntegrityView,
  known: readonly NodeView[],
): IntegrityReport {
  const { namespace = '', name = '' } = integrity.metadata;
  const nodes = views.map(nodeReport).toSorted((a, b) => compareText(a.name, b.name));
  const deleting = isDeleting(integrity);
  const problems = deleting
    ? []
    : [
        ...problemsOf(integrity, known),
        ...silentNodes(integrity, views, known),
        ...views.flatMap(nodeProblems),
      ];
  const isKnown = nodes.length > 0 && nodes.every(({ condition }) => isResult(condition));
  return {
    group,
    namespace,
    name,
    guarded: problems.length === 0,
    deleting,
    phase: integrity.status?.phase ?? null,
    paused: integrity.status?.conditions?.some(isPaused) === true,
    intact: nodes.some(({ condition }) => condition === 'Failed') ? false : isKnown ? true : null,
    problems,
    nodes,
  };
}

function problemsOf({ spec, status }: IntegrityView['integrity'], known: readonly NodeView[]): Problem[] {
  switch (status?.phase) {
    case undefined:
      return [{ message: 'The operator has not processed it yet.' }];
    case 'Pending':
      return reasonsOf(status) ?? [{ message: nowhere(spec, known) ?? 'Nothing runs yet.' }];
    case 'Error': {
      // Where it is one of the nodes, that says so itself.
      const isOfNode = status.nodeStatus?.some(({ condition }) => condition === 'Errored') === true;
      return (
        reasonsOf(status) ??
        (isOfNode ? [] : [{ message: 'It has an error; kubectl describe shows its events.' }])
      );
    }
    case 'Initializing':
    case 'Active':
      // Another configuration than the one that is asked for.
      return reasonsOf(status) ?? [];
  }
}

/** Why no node is guarded, where none is chosen. */
function nowhere(spec: IntegrityView['integrity']['spec'], known: readonly NodeView[]): string | undefined {
  if (known.length === 0 || known.some((node) => isChosen(spec, node))) return undefined;
  const selector = Object.entries(spec.nodeSelector ?? {}).map(([name, value]) => `${name}=${value}`);
  const names = known.map(({ name }) => name).toSorted(compareText);
  const nodes = someOf(names, NAMED_NODES);
  return selector.length === 0
    ? `No node is selected: spec.tolerations do not tolerate the taints of any node (${nodes}).`
    : `No node is selected by spec.nodeSelector ${selector.join(', ')} and spec.tolerations (there are ${nodes}).`;
}

function isChosen(spec: IntegrityView['integrity']['spec'], { labels = {}, taints = [] }: NodeView): boolean {
  return isForNode(spec, { metadata: { labels }, spec: { taints: [...taints] } });
}

/** Nodes that it is for, and of which nobody has told anything: mostly no agent runs there. */
function silentNodes(
  { spec, status }: IntegrityView['integrity'],
  views: readonly IntegrityNodeView[],
  known: readonly NodeView[],
): Problem[] {
  // While baselines are made, nobody has.
  if (status?.phase !== 'Active') return [];
  const told = new Set(
    views.filter(({ lastResult }) => lastResult !== undefined).map(({ nodeName }) => nodeName),
  );
  const silent = known
    .filter((node) => !told.has(node.name) && isChosen(spec, node))
    .map(({ name }) => name)
    .toSorted(compareText);
  if (silent.length === 0) return [];
  const nodes = `${silent.length === 1 ? 'node' : 'nodes'} ${someOf(silent, NAMED_NODES)}`;
  return [{ message: `No agent has reported on ${nodes}.` }];
}

function isPaused({ type, status }: { readonly type: string; readonly status: string }): boolean {
  return type === 'Paused' && status === 'True';
}

function reasonsOf({ conditions = [] }: FileIntegrityStatus): Problem[] | undefined {
  const reasons = conditions.filter(({ type, status }) => type === 'Configured' && status === 'False');
  return reasons.length === 0 ? undefined : reasons.map(({ message }) => ({ message }));
}

function nodeProblems({ nodeName: node, lastResult }: IntegrityNodeView): Problem[] {
  if (lastResult?.condition !== 'Errored') return [];
  return [{ node, message: lastResult.errorMessage ?? 'The state of its files is unknown.' }];
}

function isResult(condition: IntegrityNodeReport['condition']): boolean {
  return condition === 'Succeeded' || condition === 'Failed';
}

function nodeReport({
  nodeName,
  lastResult,
  detection,
  findings,
  findingCount,
}: IntegrityNodeView): IntegrityNodeReport {
  return {
    name: nodeName,
    condition: lastResult?.condition ?? null,
    lastProbeTime: lastResult?.lastProbeTime ?? null,
    filesAdded: lastResult?.filesAdded ?? 0,
    filesChanged: lastResult?.filesChanged ?? 0,
    filesRemoved: lastResult?.filesRemoved ?? 0,
    findingCount,
    findings: findings.map(({ author, ...finding }) => ({
      ...finding,
      author: author === undefined ? null : describeAuthor(author),
    })),
    detection:
      detection === undefined ? null : { lostAuthors: 0, directoriesWithoutAuthors: 0, ...detection },
  };
}
