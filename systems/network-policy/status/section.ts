/**
 * This guard's section of `rampart status`.
 *
 * @module
 */
import type { SectionReport, StatusSection } from '../../../shared/guard/status-section.ts';
import { podFacts } from '../../../shared/kube/facts.ts';
import { pods } from '../../../shared/kube/object.ts';
import { paint, renderTable, type Row } from '../../../shared/observe/table.ts';
import { printable } from '../../../shared/observe/printable.ts';
import { type NetworkPolicy, networkPolicies } from '../api.ts';
import { PolicyEngine } from '../engine/engine.ts';
import type { PodObject } from '../engine/objects.ts';

/** A NetworkPolicy, as `--format json` has it. */
export interface PolicyReport {
  readonly namespace: string;
  readonly name: string;
  /** `Ingress`, `Egress`: the directions in which its pods are isolated. */
  readonly directions: readonly string[];
  /** Pods that it selects, on any node; `null` where pods may not be read. */
  readonly pods: number | null;
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
    return section(readable ? reports(found, known ? kept : undefined) : undefined);
  },
};

/** By namespace and name. */
export function reports(
  policies: readonly NetworkPolicy[],
  known: readonly PodObject[] | undefined,
): PolicyReport[] {
  // One node for all pods: then the rules name the policies of each.
  const engine = new PolicyEngine('all');
  for (const policy of policies) engine.upsertPolicy(policy);
  for (const pod of known ?? []) engine.upsertPod({ ...pod, spec: { ...pod.spec, nodeName: 'all' } });
  const selected = new Map<string, number>();
  for (const { ingress = [], egress = [] } of engine.rules.pods.values()) {
    for (const key of new Set([...ingress, ...egress])) selected.set(key, (selected.get(key) ?? 0) + 1);
  }
  const problems = Map.groupBy(engine.problems(), ({ policy }) => policy);
  return policies
    .map(({ metadata: { namespace = '', name = '' }, spec }) => ({
      namespace,
      name,
      directions: spec?.policyTypes ?? ['Ingress'],
      pods: known === undefined ? null : (selected.get(`${namespace}/${name}`) ?? 0),
      problems: (problems.get(`${namespace}/${name}`) ?? []).map(({ field, message }) => ({
        field,
        message,
      })),
    }))
    .toSorted((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
}

function section(all: readonly PolicyReport[] | undefined): SectionReport {
  const policies = all ?? [];
  const failing = policies.filter(({ problems }) => problems.length > 0).length;
  return {
    fields: { networkPolicies: all ?? null },
    isAsked: policies.length > 0,
    guarded: failing === 0,
    headline({ colour }) {
      if (policies.length === 0) return '';
      if (failing > 0) {
        return paint(
          'red',
          `${failing} of ${policies.length} NetworkPolicies cannot be expressed as a whole.`,
          colour,
        );
      }
      const many = policies.length === 1 ? '1 NetworkPolicy' : `${policies.length} NetworkPolicies`;
      return paint('green', `${many} can be expressed as a whole.`, colour);
    },
    table(options) {
      if (policies.length === 0) return '';
      const rows = policies.flatMap(({ namespace, name, directions, pods: count, problems }): Row[] => [
        {
          cells: [
            `${namespace}/${name}`,
            directions.join(', '),
            String(count ?? '-'),
            String(problems.length),
          ],
        },
      ]);
      const [head = '', ...lines] = renderTable(rows, {
        head: ['NETWORK POLICY', 'ISOLATES', 'PODS', 'PROBLEMS'],
        ...options,
      }).split('\n');
      return [
        head,
        ...lines.flatMap((line, index) => [
          line,
          ...(policies[index]?.problems ?? []).map(({ field, message }) =>
            printable(`    ${field}: ${message}`),
          ),
        ]),
      ].join('\n');
    },
    foot: [],
  };
}
