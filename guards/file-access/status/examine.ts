/** Derives from the objects of the API what is guarded, and why something is not. No I/O, no clock. */
import { compareText } from '../../../lib/output/compare-text.ts';
import { holderName, holderOf, type HolderReport } from '../../../guard/lease-holder.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import type { KivePolicy } from '../api.ts';
import { type CompiledPolicy, compilePolicy, TrapIndex } from '../policy/matching.ts';
import { isCurrentPart, lastAlertTimeOf, partsOf } from '../cluster/policy-status.ts';
import { type CallbackProblem, type NodePart, type PolicyStatus, statusOf } from '../policy-status-schema.ts';
import { defaultScope, type PolicyScope, unlimitedScope } from '../policy/policy-scope.ts';
import { describeProblem, noMatchMessage, validatePolicy } from '../policy/validation.ts';
import type { FileAccessFields, FileAccessNodeFields, PolicyProblemReport, PolicyReport } from './report.ts';
import type { Snapshot } from './snapshot.ts';

export interface Examined extends FileAccessFields {
  /** Nodes that it knows of. */
  readonly nodeNames: readonly string[];
  readonly nodeOf: (name: string) => FileAccessNodeFields;
}

export function examine(snapshot: Snapshot): Examined {
  const kernels = kernelsOf(snapshot);
  const nodeOf = nodeFields(snapshot, kernels);
  const loaders = new Map<string, HolderReport>();
  // Once for each node: of a thousand policies each may ask for a thousand nodes.
  const loaderOf = (node: string): HolderReport => {
    let loader = loaders.get(node);
    if (loader === undefined) loaders.set(node, (loader = nodeOf(node).loader));
    return loader;
  };
  const compiled = snapshot.policies.map((policy) => ({
    policy,
    compiled: compilePolicy(policy, scopeOf(policy)),
  }));
  const matching = matchingContainers(snapshot, compiled);
  const parts = snapshot.parts && Map.groupBy(snapshot.parts, keyOfPart);
  const dataCounts = countBy(snapshot.data, ({ policy }) => policy);
  const policies = compiled
    .map((one) =>
      policyReport(one, {
        parts: parts && partsOf(one.policy.metadata.uid, parts.get(one.compiled.key) ?? []),
        data: dataCounts && (dataCounts.get(one.compiled.key) ?? 0),
        matching: matching.get(one.compiled.key) ?? new Map(),
        loaderOf,
      }),
    )
    .toSorted((a, b) => compareText(a.namespace, b.namespace) || compareText(a.name, b.name));
  return {
    policies,
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

/** By policy and node: how many running containers a trap is for, as far as pods may be read. */
function matchingContainers(
  { pods }: Snapshot,
  policies: readonly { readonly compiled: CompiledPolicy }[],
): ReadonlyMap<string, ReadonlyMap<string, number>> {
  const index = new TrapIndex();
  for (const { compiled } of policies) index.set(compiled);
  const found = new Map<string, Map<string, number>>();
  for (const { view, nodeName, containers } of pods ?? []) {
    const traps = index.forPod(view);
    for (const container of containers) {
      const keys = new Set(traps.for(container).map((trap) => `${trap.policyNamespace}/${trap.policyName}`));
      for (const key of keys) {
        const nodes = found.get(key) ?? new Map<string, number>();
        found.set(key, nodes.set(nodeName, (nodes.get(nodeName) ?? 0) + 1));
      }
    }
  }
  return found;
}

/** The operator says it; until then, as if nothing were asked for with `--kive-policy-namespaces`. */
function scopeOf(policy: KivePolicy): PolicyScope {
  return statusOf(policy).scope === 'Cluster' ? unlimitedScope : defaultScope;
}

function keyOfPart({ namespace, name }: NodePart): string {
  return `${namespace}/${name}`;
}

/** What is known of a policy besides its object. */
interface Surroundings {
  /** What nodes say of it; undefined where that may not be read. */
  readonly parts: readonly NodePart[] | undefined;
  readonly data: number | undefined;
  /** By node: running containers that a trap is for. */
  readonly matching: ReadonlyMap<string, number>;
  readonly loaderOf: (node: string) => HolderReport;
}

function policyReport(
  { policy }: { readonly policy: KivePolicy },
  { parts, data, matching, loaderOf }: Surroundings,
): PolicyReport {
  const { namespace = '', name = '', generation = 0 } = policy.metadata;
  const status = statusOf(policy);
  const condition = status.conditions?.find(({ type }) => type === 'Ready');
  const ready = condition && {
    status: condition.status,
    reason: condition.reason,
    message: condition.message,
    isCurrent: (condition.observedGeneration ?? 0) >= generation,
  };
  const deleting = isDeleting(policy);
  const problems = deleting ? [] : problemsOf(policy, { parts, matching, loaderOf });
  if (!deleting && problems.length === 0) {
    // Without the parts of nodes the word of the operator is all there is.
    if (ready?.isCurrent !== true) {
      if (parts === undefined) {
        const message = 'The operator has not looked at this version of the policy yet.';
        problems.push({ kind: 'not-ready', message });
      }
    } else if (ready.status === 'False' || (parts === undefined && ready.status !== 'True')) {
      problems.push({ kind: 'not-ready', message: `${ready.reason}: ${ready.message}` });
    }
  }
  const totals = totalsOf(status, parts);
  return {
    namespace,
    name,
    guarded: problems.length === 0,
    deleting,
    ready: ready ?? null,
    traps: policy.spec.traps.length,
    containers: totals.containers,
    files: totals.files,
    kiveData: data ?? null,
    lastAlertTime: lastAlertTimeOf(status.lastAlertTime, parts ?? []) ?? null,
    problems,
    nodes: (parts ?? []).map((part) => ({
      name: part.node,
      containers: part.matchedContainers,
      files: part.watchedFiles,
      problemCount: part.problemCount,
      isCurrent: isCurrentPart(part, policy),
      lastAlertTime: part.lastAlertTime ?? null,
    })),
  };
}

/** As nodes say now, or where that may not be read, as the operator summed it up. */
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

function problemsOf(
  policy: KivePolicy,
  { parts, matching, loaderOf }: Omit<Surroundings, 'data'>,
): PolicyProblemReport[] {
  const problems: PolicyProblemReport[] = [];
  const { traps } = policy.spec;
  const refused = validatePolicy(policy, scopeOf(policy));
  for (const [trap, faults] of refused) {
    for (const fault of faults) {
      const path = traps[trap]?.path;
      problems.push({
        kind: 'trap-refused',
        message: describeProblem(fault).replace(/\.?$/, '.'),
        trap,
        ...(path !== undefined && { path }),
      });
    }
  }
  const status = statusOf(policy);
  if (parts === undefined) problems.push(...toldProblems(status));
  for (const part of parts ?? []) problems.push(...partProblems(part, policy));
  const heard = new Set(parts?.map(({ node }) => node));
  for (const [node, containers] of [...matching].toSorted(([a], [b]) => compareText(a, b))) {
    if (parts === undefined || heard.has(node)) continue;
    const what = containers === 1 ? '1 container matches' : `${containers} containers match`;
    problems.push({
      kind: 'node-silent',
      node,
      message: `${what} there, but no agent has reported on it.`,
    });
  }
  const nodes = new Set([
    ...(parts ?? []).filter((part) => part.matchedContainers > 0).map(({ node }) => node),
    ...matching.keys(),
  ]);
  for (const node of [...nodes].toSorted(compareText)) {
    const why = noLoader(loaderOf(node));
    if (why !== undefined) problems.push({ kind: 'no-loader', node, message: why });
  }
  // Where all traps are refused, none of them matches anything.
  const works = refused.size < traps.length;
  if (totalsOf(status, parts).containers === 0 && matching.size === 0 && works) {
    problems.push({ kind: 'no-match', message: noMatchMessage(policy, scopeOf(policy)) });
  }
  return problems;
}

/** What the operator has gathered of all nodes: the first problems, and how many there are. */
function toldProblems({
  problems = [],
  callbackProblems = [],
  problemCount = 0,
}: PolicyStatus): PolicyProblemReport[] {
  const more = problemCount - problems.length;
  return [
    ...problems.map((problem) => fileMissing(problem.node, problem)),
    ...(more > 0 ? [moreMissing(more)] : []),
    ...callbackProblems.map((problem) => callbackFailing(problem.node, problem)),
  ];
}

function partProblems(part: NodePart, policy: KivePolicy): PolicyProblemReport[] {
  const { node, problems = [], callbackProblems = [] } = part;
  const more = part.problemCount - problems.length;
  return [
    ...problems.map((problem) => fileMissing(node, problem)),
    ...(more > 0 ? [moreMissing(more, node)] : []),
    ...callbackProblems.map((problem) => callbackFailing(node, problem)),
    ...(isCurrentPart(part, policy)
      ? []
      : [
          {
            kind: 'node-behind' as const,
            node,
            message: 'Its agent has reported only on an older version of the policy.',
          },
        ]),
  ];
}

function fileMissing(
  node: string,
  { trap, path, container, message }: NonNullable<NodePart['problems']>[number],
): PolicyProblemReport {
  return { kind: 'file-missing', node, container, path, trap, message };
}

function moreMissing(more: number, node?: string): PolicyProblemReport {
  const files = more === 1 ? '1 more file is' : `${more} more files are`;
  const whose = node === undefined ? 'the logs of the agents say' : 'the log of its agent says';
  const message = `${files} not watched; ${whose} which.`;
  return { kind: 'file-missing', ...(node !== undefined && { node }), message };
}

function callbackFailing(node: string, { callback, message }: CallbackProblem): PolicyProblemReport {
  return {
    kind: 'callback-failing',
    node,
    message: `alerts for ${callback} are not delivered: ${message}`,
  };
}

function noLoader(loader: HolderReport): string | undefined {
  const { state, renewedSecondsAgo } = loader;
  if (state === 'free') return 'No agent raises alerts for its kernel: the lease has no holder.';
  if (state !== 'stale') return undefined;
  return (
    `No agent appears to raise alerts for its kernel: the agent of ${holderName(loader)} has not renewed the lease` +
    `${renewedSecondsAgo === null ? '' : ` for ${Math.round(renewedSecondsAgo)} s`}.`
  );
}

function orphans({ data, policies, namespace }: Snapshot): number | null {
  if (data === undefined || namespace !== undefined) return null;
  const known = new Set(policies.map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name ?? ''}`));
  return data.filter(({ policy }) => !known.has(policy)).length;
}

function countBy<T>(all: readonly T[] | undefined, key: (one: T) => string): Map<string, number> | undefined {
  if (all === undefined) return undefined;
  const counts = new Map<string, number>();
  for (const one of all) counts.set(key(one), (counts.get(key(one)) ?? 0) + 1);
  return counts;
}

/** Leases of kernels are named after their boot id; no other lock is. */
const bootId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The kernel of each node that anything is known of. */
function kernelsOf({
  nodes,
  data,
  leases,
}: Pick<Snapshot, 'nodes' | 'data' | 'leases'>): ReadonlyMap<string, string> {
  const kernels = new Map<string, string>();
  // Least sure first: agents call themselves by their node's name and more.
  for (const { name, holder: who } of leases ?? []) {
    if (bootId.test(name) && who.includes('_')) kernels.set(who.slice(0, who.lastIndexOf('_')), name);
  }
  for (const { nodeName, kernel } of data ?? []) if (nodeName !== '') kernels.set(nodeName, kernel);
  for (const { name, kernel } of nodes ?? []) if (kernel !== undefined) kernels.set(name, kernel);
  return kernels;
}

/** What is known of a node, by its name. */
function nodeFields(
  { data, leases }: Pick<Snapshot, 'data' | 'leases'>,
  kernels: ReadonlyMap<string, string>,
): (name: string) => FileAccessNodeFields {
  const files = new Map<string, { count: number; readonly containers: Set<string> }>();
  for (const { nodeName, container } of data ?? []) {
    let of = files.get(nodeName);
    if (of === undefined) files.set(nodeName, (of = { count: 0, containers: new Set() }));
    of.count++;
    of.containers.add(container);
  }
  const isKnown = data !== undefined;
  return (name) => ({
    kernel: kernels.get(name) ?? null,
    loader: holderOf(leases, kernels.get(name)),
    containers: isKnown ? (files.get(name)?.containers.size ?? 0) : null,
    files: isKnown ? (files.get(name)?.count ?? 0) : null,
  });
}
