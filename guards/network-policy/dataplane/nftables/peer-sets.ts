/**
 * The sets of peers. Rules with the same peers match the same set: a pod that comes or goes is then one element, however many
 * policies allow it.
 */
import type { Address, AddressSet, Family, Peers, PeersChange, PeersKey } from '../../engine/rules.ts';
import { rangeText } from './addresses.ts';
import { families, peersName } from './names.ts';
import type { AddressElements, ElementSet, RangeElements } from './nft-sets.ts';
import type { TableObjects } from './objects.ts';
import type { Match, Side } from './rule.ts';

/** More blocks than this become a set. */
const blocksAsRules = 8;

/** Matches for the packet's address on this side, one of which must succeed: by sets and by blocks. Empty: no peer is allowed. */
export function peerMatches(
  key: PeersKey,
  { pods, blocks }: Peers,
  { family, side }: { readonly family: Family; readonly side: Side },
): Match[] {
  const name = peersName(key);
  const inSet = (set: string): Match => ({ kind: 'address in set', family, side, set });
  const podSet = pods[family].length > 0 ? [inSet(podSetName(name, family))] : [];
  if (blocks[family].length > blocksAsRules) return [...podSet, inSet(blockSetName(name, family))];
  return [...podSet, ...blocks[family].map((range): Match => ({ kind: 'address', family, side, range }))];
}

/**
 * Pods come and go: they are a set of addresses, in which one can change without reading the others. Blocks do not change, and
 * a few become rules: nft takes long to list many sets of ranges (docs/decisions/0011-nftables-by-libnftables.md).
 */
export function peerSets(key: PeersKey, { pods, blocks }: Peers): ElementSet[] {
  const name = peersName(key);
  return families.flatMap((family) => [
    ...(pods[family].length > 0 ? [addressSet(podSetName(name, family), family, pods[family])] : []),
    ...(blocks[family].length > blocksAsRules
      ? [rangeSet(blockSetName(name, family), family, blocks[family])]
      : []),
  ]);
}

/** Changed elements of sets that stay, as sets of only these elements. */
export interface ElementChanges {
  readonly gone: readonly ElementSet[];
  readonly come: readonly ElementSet[];
  /** Call once the kernel has the changes: applies them to the sets. */
  readonly done: () => void;
}

/**
 * The cost depends on what has changed, not on the number of peers.
 *
 * @param sets - The sets before the change.
 * @returns undefined if sets come or go, so that rules change, too
 */
export function elementChanges(sets: TableObjects, change: PeersChange): ElementChanges | undefined {
  const changed: { whole: AddressElements; gone: readonly Address[]; come: readonly Address[] }[] = [];
  for (const family of families) {
    const { gone, come } = change[family];
    if (gone.length + come.length === 0) continue;
    const whole = podSetIn(sets, family);
    if (whole === undefined || whole.elements.size + come.length === gone.length) return undefined;
    changed.push({ whole, gone, come });
  }
  return {
    gone: changed.map(({ whole, gone }) => ({ ...whole, elements: elementsOf(gone) })),
    come: changed.map(({ whole, come }) => ({ ...whole, elements: elementsOf(come) })),
    done() {
      for (const { whole, gone, come } of changed) {
        const elements = whole.elements as Map<Address, undefined>;
        for (const address of gone) elements.delete(address);
        for (const address of come) elements.set(address, undefined);
      }
    },
  };
}

function podSetIn(sets: TableObjects, family: Family): AddressElements | undefined {
  for (const set of sets.values()) {
    if (set.kind === 'set' && set.holds === 'addresses' && set.family === family) return set;
  }
  return undefined;
}

function podSetName(name: string, family: Family): string {
  return `${name}-pods-${family}`;
}

function blockSetName(name: string, family: Family): string {
  return `${name}-blocks-${family}`;
}

export function rangeSet(name: string, family: Family, ranges: AddressSet): RangeElements {
  const elements = new Map(ranges.map((range) => [rangeText(family, range), range]));
  return { kind: 'set', holds: 'ranges', name, family, elements };
}

function addressSet(name: string, family: Family, addresses: readonly Address[]): AddressElements {
  return { kind: 'set', holds: 'addresses', name, family, elements: elementsOf(addresses) };
}

function elementsOf(addresses: readonly Address[]): Map<Address, undefined> {
  const elements = new Map<Address, undefined>();
  for (const address of addresses) elements.set(address, undefined);
  return elements;
}
