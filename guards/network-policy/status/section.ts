/** This guard's section of `rampart status`. */
import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { podFacts } from '../../../lib/kube/object/facts.ts';
import { pods } from '../../../lib/kube/object/object.ts';
import { type Cell, paint, renderTable, type Row } from '../../../lib/output/table.ts';
import { agoText } from '../../../lib/output/ago.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type NetworkPolicy, networkPolicies } from '../api.ts';
import { PolicyEngine } from '../engine/engine.ts';
import { objectKey, type PodObject } from '../engine/objects.ts';
import { type NodeReport, readNodeFacts } from './node-facts.ts';

/** A NetworkPolicy, as in `--format json`. */
export interface PolicyReport {
  readonly namespace: string;
  readonly name: string;
  /** `Ingress`, `Egress`: the directions in which its pods are isolated. */
  readonly directions: readonly string[];
  /** Pods that it selects, on any node; `null` if pods may not be read. */
  readonly pods: number | null;
  /** The same by node; `null` if pods may not be read. */
  readonly podsByNode: Readonly<Record<string, number>> | null;
  readonly problems: readonly { readonly field: string; readonly message: string }[];
}

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
    const agents = await context.agents();
    const nodes = new Map(
      (agents ?? []).flatMap(({ nodeName, guards }): [string, NodeReport][] => {
        const report = readNodeFacts(guards.get('network-policy')?.facts);
        return report === undefined ? [] : [[nodeName, report]];
      }),
    );
    const all = readable ? reports(found, known ? kept : undefined) : undefined;
    return section(all, nodes, context.timeMs);
  },
};

/** By namespace and name. */
export function reports(
  policies: readonly NetworkPolicy[],
  known: readonly PodObject[] | undefined,
): PolicyReport[] {
  // One node for all pods, so that the rules name the policies of each.
  const engine = new PolicyEngine('all');
  for (const policy of policies) engine.upsertPolicy(policy);
  for (const pod of known ?? []) engine.upsertPod({ ...pod, spec: { ...pod.spec, nodeName: 'all' } });
  const nodeOf = new Map((known ?? []).map((pod) => [objectKey(pod), pod.spec?.nodeName ?? '']));
  const selected = new Map<string, Record<string, number>>();
  for (const { pod, ingress = [], egress = [] } of engine.rules.pods.values()) {
    const node = nodeOf.get(pod) ?? '';
    for (const key of new Set([...ingress, ...egress])) {
      const byNode = selected.get(key) ?? {};
      byNode[node] = (byNode[node] ?? 0) + 1;
      selected.set(key, byNode);
    }
  }
  const byNodeOf = (key: string): Readonly<Record<string, number>> => selected.get(key) ?? {};
  const problems = Map.groupBy(engine.problems(), ({ policy }) => policy);
  return policies
    .map(({ metadata: { namespace = '', name = '' }, spec }) => ({
      namespace,
      name,
      directions: spec?.policyTypes ?? ['Ingress'],
      pods: known === undefined ? null : sum(Object.values(byNodeOf(`${namespace}/${name}`))),
      podsByNode: known === undefined ? null : byNodeOf(`${namespace}/${name}`),
      problems: (problems.get(`${namespace}/${name}`) ?? []).map(({ field, message }) => ({
        field,
        message,
      })),
    }))
    .toSorted((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

function nodeCells(node: NodeReport | undefined, nowMs: number): Cell[] {
  if (node === undefined) return ['-', '-', '-'];
  const { backend, programmed, lastFullSync, fullSyncSeconds, driftRepaired, problems } = node;
  const synced =
    lastFullSync === null
      ? 'none yet'
      : `${agoText(nowMs - Date.parse(lastFullSync))}, in ${Math.round(fullSyncSeconds * 1000)} ms`;
  const name = printable(programmed ? backend : `${backend}, no rules`);
  return [
    problems.length > 0 ? { text: name, style: 'red' } : name,
    synced,
    driftRepaired > 0 ? { text: String(driftRepaired), style: 'yellow' } : '0',
  ];
}

/** More nodes are not listed line by line. */
const MANY_NODES = 8;

function podLines({ podsByNode }: PolicyReport): string[] {
  const nodes = Object.entries(podsByNode ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (nodes.length < 2 || nodes.length > MANY_NODES) return [];
  return [`pods: ${nodes.map(([node, count]) => `${count} on ${node}`).join(', ')}`];
}

export function section(
  all: readonly PolicyReport[] | undefined,
  nodes: ReadonlyMap<string, NodeReport>,
  nowMs: number,
): SectionReport {
  const policies = all ?? [];
  const loose = [...nodes].filter(([, { enforced }]) => !enforced).map(([name]) => name);
  const failing = policies.filter(({ problems }) => problems.length > 0).length;
  return {
    fields: { networkPolicies: all ?? null },
    isAsked: policies.length > 0,
    guarded: failing === 0 && (policies.length === 0 || loose.length === 0),
    headline({ colour }) {
      if (policies.length === 0) return '';
      if (failing > 0) {
        return paint(
          'red',
          `${failing} of ${policies.length} NetworkPolicies cannot be fully expressed.`,
          colour,
        );
      }
      if (loose.length > 0) {
        const where = loose.length === 1 ? `on ${loose[0]}` : `on ${loose.length} nodes`;
        return paint('red', `NetworkPolicies are not enforced as written ${where}.`, colour);
      }
      const many = policies.length === 1 ? '1 NetworkPolicy' : `${policies.length} NetworkPolicies`;
      return paint('green', `${many} can be fully expressed.`, colour);
    },
    table(options) {
      if (policies.length === 0) return '';
      const rows = policies.map((policy): Row => {
        const { namespace, name, directions, pods: count, problems } = policy;
        return {
          cells: [
            `${namespace}/${name}`,
            directions.join(', '),
            String(count ?? '-'),
            String(problems.length),
          ],
          note: [
            ...podLines(policy),
            ...problems.map(({ field, message }) => printable(`${field}: ${message}`)),
          ].join('\n'),
        };
      });
      return renderTable(rows, { head: ['NETWORK POLICY', 'ISOLATES', 'PODS', 'PROBLEMS'], ...options });
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
          // That is what its lease says.
          isRunning: false,
        };
      },
    },
  };
}
