/** Removes what an iptables backend left that is no longer in use. */
import type { KeptNamespace } from '../namespace.ts';
import { familyEdits } from './edits.ts';
import { setEdits } from './ipset.ts';
import { IptablesKernel } from './kernel.ts';
import { families } from './names.ts';
import { isEnforcing, noFamilyRules } from './rules.ts';
import { installedIptables, type Variant } from './variant.ts';

/** @param except - A variant that is not examined. */
export async function isIptablesEnforcing(
  namespace: KeptNamespace,
  except: Variant | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  for (const iptables of await installedIptables(namespace, signal)) {
    if (iptables.variant === except) continue;
    const found = await new IptablesKernel(iptables, namespace).readRules(signal);
    if (families.some((family) => isEnforcing(found[family]))) return true;
  }
  return false;
}

/**
 * Removes our iptables rules and, unless one of the two variants of iptables is kept, our sets.
 *
 * @param keep - The variant in use.
 * @returns a line for each thing that was removed
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
