/**
 * The nodes: which kernel, whose agent, who alerts.
 *
 * @module
 */
import { guards } from '../guards.ts';
import type { HolderReport, NodeReport } from './report.ts';
import type { LeaseView, Snapshot } from './snapshot.ts';

/** Of operators; all others are those of kernels. */
const operatorLeases: ReadonlySet<string> = new Set(guards.map(({ lease = '' }) => lease));

const nobody: HolderReport = { state: 'free', holder: null, renewedSecondsAgo: null };
const unknown: HolderReport = { ...nobody, state: 'unknown' };

/** The kernel of each node that anything is known of. */
export function kernelsOf({ nodes, data, leases }: Snapshot): ReadonlyMap<string, string> {
  const kernels = new Map<string, string>();
  // Least sure first: agents call themselves by their node's name and more.
  for (const { name, holder: who } of leases ?? []) {
    if (!operatorLeases.has(name) && who.includes('_')) kernels.set(who.slice(0, who.lastIndexOf('_')), name);
  }
  for (const { nodeName, kernel } of data ?? []) if (nodeName !== '') kernels.set(nodeName, kernel);
  for (const { name, kernel } of nodes ?? []) if (kernel !== undefined) kernels.set(name, kernel);
  return kernels;
}

/** Who holds the lease of this name. */
export function holder({ leases, timeMs }: Snapshot, name: string | undefined): HolderReport {
  if (leases === undefined || name === undefined) return unknown;
  const lease: LeaseView | undefined = leases.find((one) => one.name === name);
  if (lease === undefined) return nobody;
  const renewedSecondsAgo =
    lease.renewedMs === undefined ? null : Math.round((timeMs - lease.renewedMs) / 100) / 10;
  if (lease.holder === '') return { ...nobody, renewedSecondsAgo };
  return { state: lease.isRenewed ? 'held' : 'stale', holder: lease.holder, renewedSecondsAgo };
}

/** Holders call themselves by their node or host and a random part, which tells a person nothing. */
export function holderName({ holder: who }: HolderReport): string {
  return (who ?? '').replace(/_[0-9a-f-]{36}$/, '');
}

/** The nodes of these names, and those that an agent is or was on. */
export function nodeReports(
  snapshot: Snapshot,
  named: readonly string[],
  kernels: ReadonlyMap<string, string>,
): NodeReport[] {
  const files = new Map<string, { count: number; readonly containers: Set<string> }>();
  for (const { nodeName, container } of snapshot.data ?? []) {
    let of = files.get(nodeName);
    if (of === undefined) files.set(nodeName, (of = { count: 0, containers: new Set() }));
    of.count++;
    of.containers.add(container);
  }
  const pods = new Map((snapshot.agentPods ?? []).map((pod) => [pod.nodeName, pod]));
  const names = new Set([...named, ...files.keys(), ...pods.keys(), ...kernels.keys()]);
  names.delete('');
  return [...names].toSorted().map((name) => {
    const pod = pods.get(name);
    const loader = holder(snapshot, kernels.get(name));
    const isLoader = loader.state === 'held' && (loader.holder ?? '').startsWith(`${name}_`);
    const isKnown = snapshot.data !== undefined;
    return {
      name,
      kernel: kernels.get(name) ?? null,
      agent: isLoader || pod?.ready === true ? 'running' : 'not-seen',
      agentPod: pod === undefined ? null : { name: pod.name, ready: pod.ready },
      loader,
      containers: isKnown ? (files.get(name)?.containers.size ?? 0) : null,
      files: isKnown ? (files.get(name)?.count ?? 0) : null,
    };
  });
}
