/** What an iptables backend left that is not the one in use now. */
import type { KeptNamespace } from '../namespace.ts';
import { setEdits, familyEdits } from './edits.ts';
import { IptablesKernel } from './kernel.ts';
import { families } from './names.ts';
import { noFamilyRules } from './rules.ts';
import { installedIptables, type Variant } from './variant.ts';

/**
 * Takes away our rules of iptables; with them our sets, unless one of the two kinds of iptables is kept.
 *
 * @param keep - The one in use.
 * @returns a line for each thing that was there
 */
export async function removeIptablesLeftovers(
  namespace: KeptNamespace,
  keep: Variant | undefined,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const iptables of await installedIptables(namespace, signal)) {
    if (iptables.variant === keep) continue;
    const kernel = new IptablesKernel(iptables, namespace);
    const found = await kernel.readRules(signal);
    const edits = { 4: edit(4), 6: edit(6) };
    await kernel.restoreRules(edits, signal);
    for (const family of families) {
      for (const name of [...found[family].tops.keys(), ...found[family].chains.keys()]) {
        removed.push(`${iptables.restore[family].replace('-restore', '')} chain ${name}`);
      }
    }
    function edit(family: 4 | 6): readonly string[] {
      return familyEdits(found[family], noFamilyRules) ?? [];
    }
  }
  if (keep !== undefined) return removed;
  const kernel = new IptablesKernel(undefined, namespace);
  const sets = await kernel.readSets(signal);
  await kernel.restoreSets(setEdits(sets, new Map()).after, signal);
  return [...removed, ...[...sets.keys()].map((name) => `ipset ${name}`)];
}
