/** This guard's section of `rampart status`. */
import type { GuardedObject, OwnProblem } from '../../../guard/guarded.ts';
import { problemTexts } from '../../../guard/problem-text.ts';
import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { changedAtMs } from '../../../lib/kube/object/changed-at.ts';
import { podFacts } from '../../../lib/kube/object/facts.ts';
import { namespaces, type ObjectMeta, pods } from '../../../lib/kube/object/object.ts';
import { type Cell, paint, renderTable, type Row } from '../../../lib/output/table.ts';
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { counted } from '../../../lib/output/words.ts';
import { type NetworkPolicy, networkPolicies } from '../api.ts';
import { PolicyEngine } from '../engine/engine.ts';
import { monitorAnnotation, monitorModeOf, type PolicyMode } from '../engine/monitor.ts';
import { type NamespaceObject, objectKey, type PodObject } from '../engine/objects.ts';
import { type NodeReport, readNodeFacts } from './node-facts.ts';

/** A NetworkPolicy in the output of `-o json`. */
export interface PolicyReport {
  readonly guarded: boolean;
  readonly namespace: string;
  readonly name: string;
  /** `monitor`: because of the policy's annotation, that of its Namespace, or the mode of a node with pods that it selects. */
  readonly mode: PolicyMode;
  /** `Ingress`, `Egress`: the directions in which the policy isolates its pods. */
  readonly directions: readonly string[];
  /** Number of pods that the policy selects, on any node; `null` if pods may not be read. */
  readonly pods: number | null;
  /** Number of pods that the policy selects on each node; `null` if pods may not be read. */
  readonly podsByNode: Readonly<Record<string, number>> | null;
  /** Fields that apply in another way than their text suggests. */
  readonly warnings: readonly string[];
}

/** A policy for which it is not decided yet whether it is guarded. */
export interface Examined extends Omit<PolicyReport, 'guarded'> {
  readonly policy: NetworkPolicy;
  /** Fields of the policy that cannot be expressed. */
  readonly notExpressed: readonly { readonly field: string; readonly message: string }[];
  /** For each node, how many of the policy's pods have existed long enough to have rules. */
  readonly settledPods: Readonly<Record<string, number>>;
}

/** How long a pod may take to get rules: agents report every 10 s how many pods they know. */
const SETTLE_MS = 30_000;

export const networkPolicyStatus: StatusSection = {
  async read(context) {
    const { namespace } = context;
    const found: NetworkPolicy[] = [];
    const readable = await context.orForbidden('networkpolicies', async () => {
      await context.list(networkPolicies, (policy) => void found.push(policy), { namespace });
      return true;
    });
    const kept: PodObject[] = [];
    const known = await context.orForbidden('pods', async () => {
      if (found.length > 0) await context.list(pods, (pod) => void kept.push(podFacts(pod) as PodObject));
      return true;
    });
    const places: NamespaceObject[] = [];
    await context.orForbidden('namespaces', async () => {
      if (found.length > 0)
        await context.list(namespaces, ({ metadata }) => void places.push({ metadata: modeFacts(metadata) }));
      return true;
    });
    const agents = await context.agents();
    const nodes = new Map(
      (agents ?? []).flatMap(({ nodeName, guards }): [string, NodeReport][] => {
        const report = readNodeFacts(guards.get('network-policy')?.facts);
        return report === undefined ? [] : [[nodeName, report]];
      }),
    );
    const all = readable ? examine(found, known ? kept : undefined, context.timeMs, places) : undefined;
    return section(all, nodes, context.timeMs);
  },
};

/** The policies, sorted by namespace and name. */
export function examine(
  policies: readonly NetworkPolicy[],
  known: readonly PodObject[] | undefined,
  nowMs: number,
  places: readonly NamespaceObject[] = [],
): Examined[] {
  // All pods are placed on one node, so that the rules show the policies of each pod.
  const engine = new PolicyEngine('all');
  for (const place of places) engine.upsertNamespace(place);
  const monitored = new Set(
    places
      .filter(({ metadata }) => monitorModeOf(metadata) === 'monitor')
      .map(({ metadata }) => metadata.name),
  );
  for (const policy of policies) engine.upsertPolicy(policy);
  for (const pod of known ?? []) engine.upsertPod({ ...pod, spec: { ...pod.spec, nodeName: 'all' } });
  const byKey = new Map((known ?? []).map((pod) => [objectKey(pod), pod]));
  const selected = new Map<string, PodObject[]>();
  for (const { pod: podKey, ingress = [], egress = [] } of engine.rules.pods.values()) {
    const pod = byKey.get(podKey);
    if (pod === undefined) continue;
    for (const key of new Set([...ingress, ...egress])) {
      const of = selected.get(key);
      if (of === undefined) selected.set(key, [pod]);
      else of.push(pod);
    }
  }
  const isSettled = ({ metadata }: PodObject): boolean =>
    nowMs - Date.parse(String(metadata.creationTimestamp ?? '')) > SETTLE_MS;
  const problems = Map.groupBy(engine.problems(), ({ policy }) => policy);
  const warnings = Map.groupBy(engine.warnings(), ({ policy }) => policy);
  return policies
    .map((policy) => {
      const { namespace = '', name = '' } = policy.metadata;
      const key = `${namespace}/${name}`;
      const of = selected.get(key) ?? [];
      return {
        policy,
        namespace,
        name,
        mode: monitored.has(namespace) ? 'monitor' : monitorModeOf(policy.metadata),
        directions: policy.spec?.policyTypes ?? ['Ingress'],
        pods: known === undefined ? null : of.length,
        podsByNode: known === undefined ? null : countByNode(of),
        settledPods: countByNode(of.filter(isSettled)),
        notExpressed: problems.get(key) ?? [],
        warnings: (warnings.get(key) ?? []).map(({ field, message }) => `${field}: ${message}`),
      };
    })
    .toSorted((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
}

function countByNode(all: readonly PodObject[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { spec } of all) counts[spec?.nodeName ?? ''] = (counts[spec?.nodeName ?? ''] ?? 0) + 1;
  return counts;
}

function guardedObject(
  { policy, namespace, name, podsByNode, settledPods, notExpressed }: Examined,
  nodes: ReadonlyMap<string, NodeReport>,
): GuardedObject {
  const own: OwnProblem[] = notExpressed.map(({ field, message }) => ({
    ...{ kind: 'not-expressed', field, why: message.replace(/\.$/, '') },
    next: 'Change this rule; until then it allows nothing',
  }));
  if (podsByNode === null) {
    own.push({
      ...{ kind: 'unknown', why: 'which pods it selects is unknown: pods may not be read' },
      next: 'Allow this user to list pods',
    });
  }
  const needed = Object.entries(podsByNode ?? {})
    .filter(([node]) => node !== '')
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (const [node] of needed) {
    const report = nodes.get(node);
    if (report === undefined) continue;
    const by = { by: 'agent', node } as const;
    for (const why of report.notEnforced) {
      own.push({ ...by, kind: 'not-enforced', why, next: 'Look into the log of its agent' });
    }
    const missing = (settledPods[node] ?? 0) - report.pods;
    if (missing > 0) {
      const why = `the agent knows ${report.pods} pods there, although this policy selects ${settledPods[node]}`;
      own.push({ ...by, kind: 'outdated', why, next: 'Look into the log of its agent' });
    }
  }
  return {
    ...{ kind: 'NetworkPolicy', namespace, name },
    revision: policy.metadata.resourceVersion ?? '',
    changedMs: changedAtMs(policy),
    needs: needed.map(([node, count]) => ({
      process: 'agent',
      node,
      why: count === 1 ? 'it selects 1 pod there' : `it selects ${count} pods there`,
      seen: nodes.get(node)?.policiesVersion ?? undefined,
    })),
    problems: own,
  };
}

function nodeCells(node: NodeReport | undefined, nowMs: number): Cell[] {
  if (node === undefined) return ['-', '-', '-'];
  const { backend, mode, programmed, lastFullSync, fullSyncSeconds, driftRepaired, problems } = node;
  const synced =
    lastFullSync === null
      ? 'none yet'
      : `${agoText(nowMs - Date.parse(lastFullSync))}, in ${Math.round(fullSyncSeconds * 1000)} ms`;
  const isMonitoring = mode === 'monitor';
  const name = printable(`${backend}${isMonitoring ? ', monitor' : ''}${programmed ? '' : ', no rules'}`);
  return [
    problems.length > 0
      ? { text: name, style: 'red' }
      : isMonitoring
        ? { text: name, style: 'yellow' }
        : name,
    synced,
    driftRepaired > 0 ? { text: String(driftRepaired), style: 'yellow' } : '0',
  ];
}

/** With more nodes than this, they are not listed one per line. */
const MANY_NODES = 8;

function podLines({ podsByNode }: Examined): string[] {
  const nodes = Object.entries(podsByNode ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (nodes.length < 2 || nodes.length > MANY_NODES) return [];
  return [`pods: ${nodes.map(([node, count]) => `${count} on ${node}`).join(', ')}`];
}

/** The cells of a policy without problems. */
const fineCells = {
  enforce: { text: 'yes', style: 'green' },
  monitor: { text: 'monitor', style: 'yellow' },
} as const satisfies Record<PolicyMode, Cell>;

function fineWords(enforced: number, monitored: number): string {
  const are = (count: number): string => (count === 1 ? 'is' : 'are');
  const policies = (count: number): string => counted(count, 'NetworkPolicy', 'NetworkPolicies');
  if (enforced === 0) return `${policies(monitored)} ${are(monitored)} monitored, not enforced.`;
  const whose = enforced === 1 ? 'its' : 'their';
  const rest = monitored === 0 ? '' : `; ${monitored} ${are(monitored)} monitored`;
  return `${policies(enforced)} ${are(enforced)} enforced on all ${whose} nodes${rest}.`;
}

/** Nodes in monitor mode that have pods of the policy. */
function monitoringNodes({ podsByNode }: Examined, nodes: ReadonlyMap<string, NodeReport>): string[] {
  return Object.keys(podsByNode ?? {}).filter((node) => nodes.get(node)?.mode === 'monitor');
}

function modeOf(policy: Examined, nodes: ReadonlyMap<string, NodeReport>): PolicyMode {
  return monitoringNodes(policy, nodes).length > 0 ? 'monitor' : policy.mode;
}

/** The nodes on which the policy is monitored; empty if its annotation makes it monitored everywhere. */
function modeLines(policy: Examined, nodes: ReadonlyMap<string, NodeReport>): string[] {
  const on = monitoringNodes(policy, nodes).toSorted();
  if (policy.mode === 'monitor' || on.length === 0) return [];
  const shown = on.length > MANY_NODES ? `${on.length} nodes` : on.join(', ');
  return [`monitored on ${shown} (--network-policy-mode monitor)`];
}

/** Keeps only the fields that are needed: there are many objects. */
function modeFacts({ name, annotations }: ObjectMeta): NamespaceObject['metadata'] {
  const value = annotations?.[monitorAnnotation];
  return { name, ...(value !== undefined && { annotations: { [monitorAnnotation]: value } }) };
}

export function section(
  all: readonly Examined[] | undefined,
  nodes: ReadonlyMap<string, NodeReport>,
  nowMs: number,
): SectionReport {
  const policies = all ?? [];
  return {
    objects: all?.map((one) => guardedObject(one, nodes)),
    fields: (verdict) => ({
      networkPolicies:
        all?.map((one): PolicyReport => {
          const { namespace, name, directions, pods: count, podsByNode, warnings } = one;
          const guarded = verdict.of({ kind: 'NetworkPolicy', namespace, name }).length === 0;
          const mode = modeOf(one, nodes);
          return { namespace, name, mode, guarded, directions, pods: count, podsByNode, warnings };
        }) ?? null,
    }),
    headline({ failing, problems }, { colour }) {
      const count = policies.length;
      if (count === 0) return '';
      if (failing === 0) {
        const monitored = policies.filter((one) => modeOf(one, nodes) === 'monitor').length;
        return paint(monitored === 0 ? 'green' : 'yellow', fineWords(count - monitored, monitored), colour);
      }
      const what = problems.every(({ kind }) => kind === 'not-expressed')
        ? `${failing === 1 ? 'has' : 'have'} rules that cannot be enforced.`
        : `${failing === 1 ? 'is' : 'are'} not enforced as written.`;
      return paint('red', `${failing} of ${count} NetworkPolicies ${what}`, colour);
    },
    table(verdict, options) {
      if (policies.length === 0) return '';
      const rows = policies.map((policy): Row => {
        const { namespace, name, directions, pods: count } = policy;
        const problems = verdict.of({ kind: 'NetworkPolicy', namespace, name });
        return {
          cells: [
            `${namespace}/${name}`,
            directions.join(', '),
            String(count ?? '-'),
            problems.length === 0 ? fineCells[modeOf(policy, nodes)] : { text: 'no', style: 'red' },
          ],
          note: [
            ...podLines(policy),
            ...modeLines(policy, nodes),
            ...policy.warnings.map(printable),
            ...problemTexts(problems, nowMs),
          ].join('\n'),
        };
      });
      return renderTable(rows, { head: ['NETWORK POLICY', 'ISOLATES', 'PODS', 'ENFORCED'], ...options });
    },
    foot: [...nodes].flatMap(([name, { problems }]) =>
      problems.map((problem) => printable(`network-policy on ${name}: ${problem}`)),
    ),
    nodes: {
      names: policies.length > 0 ? [...nodes.keys()] : [],
      columns: policies.length > 0 ? ['NETWORK', 'LAST FULL SYNC', 'REPAIRED'] : [],
      of(name) {
        const node = nodes.get(name);
        return {
          fields: { networkPolicy: node ?? null },
          cells: policies.length > 0 ? nodeCells(node, nowMs) : [],
          isDoubtful: (node?.problems.length ?? 0) > 0,
        };
      },
    },
  };
}
