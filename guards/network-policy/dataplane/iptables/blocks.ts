/** Splits address ranges into CIDR blocks, the only form that a hash:net accepts. */
import { covers, rangesOf, union } from '../../engine/address-sets.ts';
import { addressText, addressValue } from '../../engine/addresses.ts';
import type { AddressRange, AddressSet, ByFamily, Family, Peers } from '../../engine/rules.ts';

const widths = { 4: 32, 6: 128 } as const;

const members = new WeakMap<Peers, ByFamily<ReadonlySet<string>>>();

/**
 * The members of these peers' sets. Pods with consecutive addresses form a block, too. Computed once: the sets of
 * all policies with these peers share them.
 */
export function peerMembers(peers: Peers, family: Family): ReadonlySet<string> {
  let both = members.get(peers);
  if (both === undefined) {
    both = { 4: membersOf(peers, 4), 6: membersOf(peers, 6) };
    members.set(peers, both);
  }
  return both[family];
}

function membersOf({ pods, blocks }: Peers, family: Family): ReadonlySet<string> {
  const intervals = [
    ...blocks[family].map(({ first, last }) => ({ low: addressValue(first), high: addressValue(last) })),
    ...pods[family].map((text) => ({ low: addressValue(text), high: addressValue(text), text })),
  ];
  return new Set(blocksOf(family, rangesOf(family, union(intervals))));
}

/** In ipset's notation: a block of a single address has no prefix length. */
export function blocksOf(family: Family, ranges: AddressSet): string[] {
  return ranges.flatMap((range) => (range.first === range.last ? [range.first] : split(family, range)));
}

/** In iptables' notation: always with the prefix length. */
export function blockMatch(family: Family, block: string): string {
  return block.includes('/') ? block : `${block}/${widths[family]}`;
}

function split(family: Family, range: AddressRange): string[] {
  const width = widths[family];
  const last = addressValue(range.last);
  const blocks: string[] = [];
  for (let low = addressValue(range.first); low <= last;) {
    // hash:net cannot hold the block of all addresses (/0): it is split into two halves.
    let bits = low === 0n ? width - 1 : trailingZeros(low, width - 1);
    while (low + (1n << BigInt(bits)) - 1n > last) bits--;
    const text = addressText(family, low);
    blocks.push(bits === 0 ? text : `${text}/${width - bits}`);
    low += 1n << BigInt(bits);
  }
  return blocks;
}

function trailingZeros(value: bigint, max: number): number {
  let zeros = 0;
  while (zeros < max && ((value >> BigInt(zeros)) & 1n) === 0n) zeros++;
  return zeros;
}

/** Whether all addresses are within the ranges, which are sorted and disjoint. */
export function coversAll(ranges: AddressSet, addresses: readonly string[]): boolean {
  const intervals = ranges.map(({ first, last }) => ({ low: addressValue(first), high: addressValue(last) }));
  return addresses.every((address) => covers(intervals, addressValue(address)));
}
