/** Address ranges in nft's notation: a range that is a CIDR block is written as its prefix. */
import { addressText, addressValue } from '../../engine/addresses.ts';
import type { Address, AddressRange, Family } from '../../engine/rules.ts';

const widths = { 4: 32, 6: 128 } as const;

export function rangeText(family: Family, range: AddressRange): string {
  const { first, last } = range;
  if (first === last) return first;
  const prefix = prefixLength(family, range);
  return prefix === undefined ? `${first}-${last}` : `${first}/${prefix}`;
}

/** Prefix length of a range; undefined if the range is not a CIDR block. */
export function prefixLength(family: Family, { first, last }: AddressRange): number | undefined {
  const [low, high] = [addressValue(first), addressValue(last)];
  const size = high - low + 1n;
  const isBlock = size > 0n && (size & (size - 1n)) === 0n && low % size === 0n;
  return isBlock ? widths[family] - (size.toString(2).length - 1) : undefined;
}

export function blockRange(first: Address, prefix: number): AddressRange {
  const family = first.includes(':') ? 6 : 4;
  const size = 1n << BigInt(widths[family] - prefix);
  return { first, last: addressText(family, addressValue(first) + size - 1n) };
}
