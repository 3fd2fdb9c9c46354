/**
 * The nodes: which kernel, and who alerts on it.
 *
 * @module
 */
import { holderOf } from '../../../shared/guard/lease-holder.ts';
import type { FileAccessNodeFields } from './report.ts';
import type { Snapshot } from './snapshot.ts';

/** Leases of kernels are named after their boot id; no other lock is. */
const bootId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The kernel of each node that anything is known of. */
export function kernelsOf({
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
export function nodeFields(
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
