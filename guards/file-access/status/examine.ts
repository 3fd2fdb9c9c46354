/** Derives from the objects of the API what is guarded, and why something is not. */
import { compareText } from '../../../lib/output/compare-text.ts';
import { holderOf, type HolderReport } from '../../../guard/lease-holder.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { KivePolicy } from '../api.ts';
import { type CompiledPolicy, compilePolicy, TrapIndex } from '../policy/matching.ts';
import { hostId } from '../kive-data.ts';
import { isCurrentPart, lastAlertTimeOf, partsOf } from '../cluster/policy-status.ts';
import type { GuardedObject, Need } from '../../../guard/guarded.ts';
import { changedAtMs } from '../../../lib/kube/object/changed-at.ts';
import { isMatched, type NodePart, type PolicyStatus, statusOf } from '../policy-status-schema.ts';
import { type Matching, problemsOf, scopeOf, type Surroundings } from './policy-problems.ts';
import type { FileAccessNodeFields, Unjudged } from './report.ts';
import type { Snapshot } from './snapshot.ts';

export interface Examined extends Unjudged {
  /** Policies that are not being deleted. */
  readonly objects: readonly GuardedObject[];
  /** All nodes that occur in the snapshot. */
  readonly nodeNames: readonly string[];
  readonly nodeOf: (name: string) => FileAccessNodeFields;
}

export function examine(snapshot: Snapshot): Examined {
  const kernels = kernelsOf(snapshot);
  const nodeOf = nodeFields(snapshot, kernels);
  const loaders = new Map<string, HolderReport>();
  // Computed once for each node: each of a thousand policies may ask for a thousand nodes.
  const loaderOf = (node: string): HolderReport => {
    let loader = loaders.get(node);
    if (loader === undefined) loaders.set(node, (loader = nodeOf(node).loader));
    return loader;
  };
  const compiled = (snapshot.policies ?? []).map((policy) => ({
    policy,
    compiled: compilePolicy(policy, scopeOf(policy)),
  }));
  const matching = matchingContainers(snapshot, compiled);
  const parts = snapshot.parts && Map.groupBy(snapshot.parts, keyOfPart);
  const dataCounts = countBy(snapshot.data, ({ policy }) => policy);
  const examined = compiled
    .map(({ policy, compiled: { key, traps } }) => {
      const surroundings = {
        ...{ reported: snapshot.reported, refused: snapshot.refused },
        parts: parts && partsOf(policy.metadata.uid, parts.get(key) ?? []),
        data: dataCounts && (dataCounts.get(key) ?? 0),
        matching: matching.get(key) ?? new Map<string, Matching>(),
        hosts: traps.some(({ host }) => host) ? snapshot.hosts : [],
        loaderOf,
      };
      return { report: policyReport(policy, surroundings), object: guardedObject(policy, surroundings) };
    })
    .toSorted(
      ({ report: a }, { report: b }) => compareText(a.namespace, b.namespace) || compareText(a.name, b.name),
    );
  const policies = examined.map(({ report }) => report);
  return {
    policies,
    objects: examined.filter(({ report }) => !report.deleting).map(({ object }) => object),
    filteredAccesses: snapshot.filtered,
    kiveData: { total: snapshot.data?.length ?? null, orphans: orphans(snapshot) },
    nodeNames: [
      ...policies.flatMap(({ nodes }) => nodes.map(({ name }) => name)),
      ...[...matching.values()].flatMap((nodes) => [...nodes.keys()]),
      ...(snapshot.data ?? []).map(({ nodeName }) => nodeName),
      ...kernels.keys(),
    ],
    nodeOf,
  };
}

/** The matching containers in the pods that may be read, keyed by policy and node. */
function matchingContainers(
  { pods }: Snapshot,
  policies: readonly { readonly compiled: CompiledPolicy }[],
): ReadonlyMap<string, ReadonlyMap<string, Matching>> {
  const index = new TrapIndex();
  for (const { compiled } of policies) index.set(compiled);
  const found = new Map<string, Map<string, Matching>>();
  for (const { view, nodeName, containers, settled: all } of pods ?? []) {
    const traps = index.forPod(view);
    for (const container of containers) {
      const keys = new Set(traps.for(container).map((trap) => `${trap.policyNamespace}/${trap.policyName}`));
      for (const key of keys) {
        const nodes = found.get(key) ?? new Map<string, Matching>();
        const { running, settled } = nodes.get(nodeName) ?? { running: 0, settled: 0 };
        const isSettled = all.includes(container);
        found.set(key, nodes.set(nodeName, { running: running + 1, settled: settled + Number(isSettled) }));
      }
    }
  }
  return found;
}

function keyOfPart({ namespace, name }: NodePart): string {
  return `${namespace}/${name}`;
}

function policyReport(policy: KivePolicy, { parts, data }: Surroundings): Unjudged['policies'][number] {
  const { namespace = '', name = '', generation = 0 } = policy.metadata;
  const status = statusOf(policy);
  const condition = status.conditions?.find(({ type }) => type === 'Ready');
  const totals = totalsOf(status, parts);
  return {
    namespace,
    name,
    deleting: isDeleting(policy),
    ready:
      condition === undefined
        ? null
        : {
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            isCurrent: (condition.observedGeneration ?? 0) >= generation,
          },
    traps: policy.spec.traps.length,
    containers: totals.containers,
    files: totals.files,
    kiveData: data ?? null,
    lastAlertTime: lastAlertTimeOf(status.lastAlertTime, parts ?? []) ?? null,
    nodes: (parts ?? []).map((part) => ({
      name: part.node,
      containers: part.matchedContainers,
      host: part.host ?? false,
      files: part.watchedFiles,
      problemCount: part.problemCount,
      isCurrent: isCurrentPart(part, policy),
      lastAlertTime: part.lastAlertTime ?? null,
    })),
  };
}

function guardedObject(policy: KivePolicy, surroundings: Surroundings): GuardedObject {
  const { namespace = '', name = '', generation = 0 } = policy.metadata;
  const problems = problemsOf(policy, surroundings);
  const condition = statusOf(policy).conditions?.find(({ type }) => type === 'Ready');
  // The operator's condition is reported only if the nodes' own reports, which are newer, show no problem: it may know
  // of another one.
  if (
    problems.length === 0 &&
    condition !== undefined &&
    (condition.status === 'False' || (surroundings.parts === undefined && condition.status !== 'True')) &&
    (condition.observedGeneration ?? 0) >= generation
  ) {
    problems.push({
      kind: 'not-ready',
      by: 'operator',
      why: `${condition.reason}: ${condition.message}`,
      next: `kubectl -n ${namespace} describe kivepolicy ${name}`,
      sinceMs: Date.parse(condition.lastTransitionTime),
    });
  }
  return {
    ...{ kind: 'KivePolicy', namespace, name, revision: generation, changedMs: changedAtMs(policy) },
    needs: needsOf(policy, surroundings),
    problems,
  };
}

/**
 * The agents that must act on the policy: those of nodes on which a trap matches containers or the node itself. Without
 * the right to read their reports, the operator's summary is needed too.
 */
function needsOf(policy: KivePolicy, { parts, reported, matching, hosts }: Surroundings): Need[] {
  const generation = policy.metadata.generation ?? 0;
  if (parts === undefined) {
    const { conditions } = statusOf(policy);
    const seen = conditions?.find(({ type }) => type === 'Ready')?.observedGeneration;
    const why = 'what the agents report may not be read';
    return [
      { process: 'operator', why, seen },
      ...[...matching].map(([node, { running }]) => ({
        ...{ process: 'agent' as const, node, why: matches(running), seen: generation },
      })),
      ...hosts
        .filter((node) => !matching.has(node))
        .map((node) => ({ process: 'agent' as const, node, why: matches(0), seen: generation })),
    ];
  }
  const containers = new Map(
    parts.filter(isMatched).map(({ node, matchedContainers }) => [node, matchedContainers]),
  );
  for (const node of hosts) if (!containers.has(node)) containers.set(node, 0);
  for (const [node, { running }] of matching) containers.set(node, running);
  return [...containers]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([node, count]) => {
      const part = parts.find((one) => one.node === node);
      const isOwn = reported?.has(node) !== false;
      const seen = part && isOwn ? (part.observedGeneration ?? generation) : undefined;
      return { process: 'agent', node, why: matches(count), seen };
    });
}

/** @param containers - 0 if only the node itself is matched. */
function matches(containers: number): string {
  if (containers === 0) return 'a trap is for the node itself';
  return containers === 1 ? 'a trap matches 1 container there' : `traps match ${containers} containers there`;
}

/** From the current reports of nodes or, if these may not be read, from the operator's summary. */
function totalsOf(
  status: PolicyStatus,
  parts: readonly NodePart[] | undefined,
): { readonly containers: number; readonly files: number } {
  if (parts === undefined) {
    return { containers: status.matchedContainers ?? 0, files: status.watchedFiles ?? 0 };
  }
  return {
    containers: parts.reduce((all, part) => all + part.matchedContainers, 0),
    files: parts.reduce((all, part) => all + part.watchedFiles, 0),
  };
}

function orphans({ data, policies, namespace }: Snapshot): number | null {
  if (data === undefined || policies === undefined || namespace !== undefined) return null;
  const known = new Set(policies.map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name ?? ''}`));
  return data.filter(({ policy }) => !known.has(policy)).length;
}

function countBy<T>(all: readonly T[] | undefined, key: (one: T) => string): Map<string, number> | undefined {
  if (all === undefined) return undefined;
  const counts = new Map<string, number>();
  for (const one of all) counts.set(key(one), (counts.get(key(one)) ?? 0) + 1);
  return counts;
}

/** Leases of kernels are named after the boot id; no other lease has such a name. */
const bootId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The kernel of each node for which it is known. */
function kernelsOf({
  nodes,
  data,
  leases,
}: Pick<Snapshot, 'nodes' | 'data' | 'leases'>): ReadonlyMap<string, string> {
  const kernels = new Map<string, string>();
  // In order of increasing reliability; later entries override. Agents identify themselves by their node's name, `_`
  // and more.
  for (const { name, holder: who } of leases ?? []) {
    if (bootId.test(name) && who.includes('_')) kernels.set(who.slice(0, who.lastIndexOf('_')), name);
  }
  for (const { nodeName, kernel } of data ?? []) if (nodeName !== '') kernels.set(nodeName, kernel);
  for (const { name, kernel } of nodes ?? []) if (kernel !== undefined) kernels.set(name, kernel);
  return kernels;
}

/** The known facts about a node, looked up by its name. */
function nodeFields(
  { data, leases }: Pick<Snapshot, 'data' | 'leases'>,
  kernels: ReadonlyMap<string, string>,
): (name: string) => FileAccessNodeFields {
  const files = new Map<string, { count: number; readonly containers: Set<string> }>();
  for (const { nodeName, container } of data ?? []) {
    let of = files.get(nodeName);
    if (of === undefined) files.set(nodeName, (of = { count: 0, containers: new Set() }));
    of.count++;
    if (container !== hostId) of.containers.add(container);
  }
  const isKnown = data !== undefined;
  return (name) => ({
    kernel: kernels.get(name) ?? null,
    loader: holderOf(leases, kernels.get(name)),
    containers: isKnown ? (files.get(name)?.containers.size ?? 0) : null,
    files: isKnown ? (files.get(name)?.count ?? 0) : null,
  });
}
