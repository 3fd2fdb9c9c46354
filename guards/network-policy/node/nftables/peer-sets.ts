/**
 * The sets of peers. Rules with the same peers match the same set: a pod that comes or goes is then one element, however many
 * policies allow it.
 */
import type { Address, AddressSet, Family, Peers, PeersChange, PeersKey } from '../../engine/rules.ts';
import { rangeText } from './addresses.ts';
import { families, peersName } from './names.ts';
import type { ElementSet, TableObjects } from './objects.ts';

/** nft's types of addresses. */
export const addressType = { 4: 'ipv4_addr', 6: 'ipv6_addr' } as const;
/** More blocks than this become a set. */
const blocksAsRules = 8;

/** What rules match an address against, each separately: sets and blocks. None: nobody is allowed. */
export function peerMatches(key: PeersKey, { pods, blocks }: Peers, family: Family): string[] {
  const name = peersName(key);
  const podSet = pods[family].length > 0 ? [`@${podSetName(name, family)}`] : [];
  const texts = blocks[family].map((range) => rangeText(family, range));
  return [...podSet, ...(texts.length > blocksAsRules ? [`@${name}-blocks-${family}`] : texts)];
}

/**
 * Pods come and go: they are a set of addresses, in which one can change without reading the others. Blocks do not change, and
 * a few become rules: nft takes long to list many sets of ranges (docs/decisions/0011-nftables-by-libnftables.md).
 */
export function peerSets(key: PeersKey, { pods, blocks }: Peers): ElementSet[] {
  const name = peersName(key);
  return families.flatMap((family) => [
    ...(pods[family].length > 0 ? [addressSet(podSetName(name, family), family, pods[family], false)] : []),
    ...(blocks[family].length > blocksAsRules
      ? [rangeSet(`${name}-blocks-${family}`, family, blocks[family])]
      : []),
  ]);
}

/** Changed elements of sets that stay, as sets of only these elements. */
export interface ElementChanges {
  readonly gone: readonly ElementSet[];
  readonly come: readonly ElementSet[];
  /** Call when the kernel has them: applies them to the sets. */
  readonly done: () => void;
}

/**
 * The cost depends on what has changed, not on the number of peers.
 *
 * @param sets - Those of `before`.
 * @returns undefined if sets come or go, so that rules change, too
 */
export function elementChanges(
  sets: TableObjects,
  [before, after]: readonly [Peers, Peers],
  change: PeersChange,
): ElementChanges | undefined {
  if (families.some((family) => before.pods[family].length > 0 !== after.pods[family].length > 0)) {
    return undefined;
  }
  const changed = families.flatMap((family) => {
    for (const whole of sets.values()) {
      const isOfPods = whole.kind === 'set' && whole.type === addressType[family] && !whole.interval;
      if (isOfPods) return [{ ...change[family], whole }];
    }
    return [];
  });
  return {
    gone: changed.map(({ whole, gone }) => ({ ...whole, elements: elementsOf(gone) })),
    come: changed.map(({ whole, come }) => ({ ...whole, elements: elementsOf(come) })),
    done() {
      for (const { whole, gone, come } of changed) {
        const elements = whole.elements as Map<string, string>;
        for (const address of gone) elements.delete(address);
        for (const address of come) elements.set(address, '');
      }
    },
  };
}

function podSetName(name: string, family: Family): string {
  return `${name}-pods-${family}`;
}

export function rangeSet(name: string, family: Family, ranges: AddressSet): ElementSet {
  const texts = ranges.map((range) => rangeText(family, range));
  return addressSet(name, family, texts, true);
}

function addressSet(
  name: string,
  family: Family,
  elements: readonly string[],
  interval: boolean,
): ElementSet {
  return { kind: 'set', name, type: addressType[family], interval, elements: elementsOf(elements) };
}

function elementsOf(addresses: readonly Address[]): Map<string, string> {
  const elements = new Map<string, string>();
  for (const address of addresses) elements.set(address, '');
  return elements;
}
