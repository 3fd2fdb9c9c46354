/** Kube-router's leftovers: its rules stay in the kernel after it ends, and go on refusing packets. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { IptablesKernel } from '../dataplane/iptables/kernel.ts';
import { declaredChains, filterTable, ownChains } from '../dataplane/iptables/listing.ts';
import { families, isOurSet } from '../dataplane/iptables/names.ts';
import { installedIptables } from '../dataplane/iptables/variant.ts';
import { isKubeRouterChain, isKubeRouterSet, kubeRouterTables } from './kube-router-names.ts';
import type { KeptNamespace } from '../dataplane/namespace.ts';
import { Nftables } from '../dataplane/nftables/nftables.ts';

interface Removal {
  /** Only report what would be removed. */
  readonly isDry: boolean;
  readonly signal?: AbortSignal;
}

/**
 * Removes kube-router's rules for network policies, each table in one transaction. The rules of its Service proxy
 * stay.
 *
 * @returns a line for each thing that was removed
 */
export async function removeKubeRouterRules(
  namespace: KeptNamespace,
  removal: Removal,
): Promise<readonly string[]> {
  return [...removeTables(namespace, removal), ...(await removeIptables(namespace, removal))];
}

function removeTables(namespace: KeptNamespace, { isDry }: Removal): string[] {
  try {
    using nft = namespace.run(() => new Nftables());
    const there = nft.list('list tables').split('\n');
    const found = kubeRouterTables.filter((name) => there.includes(`table ${name}`));
    if (!isDry && found.length > 0) nft.run(found.map((name) => `delete table ${name}\n`).join(''));
    return found.map((name) => `table ${name}`);
  } catch (error) {
    // Without libnftables, this cannot be known. A machine that has such tables usually has the library.
    if (error instanceof RampartError && error.code === errorCodes.UNSUPPORTED) return [];
    throw error;
  }
}

async function removeIptables(
  namespace: KeptNamespace,
  { isDry, signal }: Removal,
): Promise<readonly string[]> {
  const found: string[] = [];
  const installed = await installedIptables(namespace, signal);
  for (const iptables of installed) {
    const kernel = new IptablesKernel(iptables, namespace);
    const edits: Record<4 | 6, readonly string[]> = { 4: [], 6: [] };
    for (const family of families) {
      const { chains, rules } = itsRules(filterTable(await kernel.save(family, [], signal)));
      edits[family] = [
        ...chains.map((name) => `:${name} - [0:0]`),
        ...rules.map(([chain, rule]) => `-D ${chain} ${rule}`),
        ...chains.map((name) => `-X ${name}`),
      ];
      const program = iptables.restore[family].replace('-restore', '');
      found.push(
        ...rules.map(([chain, rule]) => `${program} rule in ${chain}: ${rule}`),
        ...chains.map((name) => `${program} chain ${name}`),
      );
    }
    if (!isDry) await kernel.restoreRules(edits, signal);
  }
  if (installed.length === 0) return found;
  const kernel = new IptablesKernel(undefined, namespace);
  const sets = (await kernel.setNames(signal)).filter((name) => isKubeRouterSet(name) && !isOurSet(name));
  if (!isDry)
    await kernel.restoreSets(
      sets.map((name) => `destroy ${name}`),
      signal,
    );
  return [...found, ...sets.map((name) => `ipset ${name}`)];
}

/** Kube-router's chains, and the rules in other chains that jump to them. */
function itsRules(table: string): {
  readonly chains: readonly string[];
  readonly rules: readonly (readonly [chain: string, rule: string])[];
} {
  const own = ownChains(table);
  const chains = new Set(declaredChains(table).filter((name) => isKubeRouterChain(name) && !own.has(name)));
  const rules: [string, string][] = [];
  for (const [, chain = '', rule = ''] of table.matchAll(/^-A (\S+) (.*)$/gm)) {
    const [, target = ''] = /(?:^| )-[jg] (\S+)/.exec(rule.replaceAll(/"(?:\\.|[^"\\])*"/g, '')) ?? [];
    if (!chains.has(chain) && chains.has(target)) rules.push([chain, rule]);
  }
  return { chains: [...chains], rules };
}
