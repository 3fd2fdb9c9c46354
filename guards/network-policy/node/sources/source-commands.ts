/** Commands for the table that checks sources, in nft's language. */
import type { Address } from '../../engine/rules.ts';
import { families, sourceTableName } from '../../dataplane/nftables/names.ts';
import { takenSets } from './source-rules.ts';

/** The chain to which a pod's chain sends packets that the pod may not send. */
export function refuseChain(chain: string): string {
  return `refuse-${chain}`;
}

export function familyOf(address: Address): 4 | 6 {
  return address.includes(':') ? 6 : 4;
}

export function addressCommands(verb: 'add' | 'delete', addresses: readonly Address[]): string[] {
  return families.flatMap((family) =>
    elementCommand(verb, family, new Set(addresses.filter((address) => familyOf(address) === family))),
  );
}

export function elementCommand(
  verb: 'add' | 'delete',
  set: keyof typeof takenSets,
  elements: ReadonlySet<string>,
): string[] {
  if (elements.size === 0) return [];
  return [`${verb} element ${sourceTableName} ${takenSets[set].name} { ${[...elements].join(', ')} }`];
}

export function ruleCommands(chain: string, rules: readonly string[]): string[] {
  return rules.map((rule) => `add rule ${sourceTableName} ${chain} ${rule}`);
}
