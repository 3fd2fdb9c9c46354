/** Addresses as nft lists them: a range that is a block is written as its prefix. */
import { addressValue } from '../../engine/addresses.ts';
import type { AddressRange, Family } from '../../engine/rules.ts';

const widths = { 4: 32n, 6: 128n } as const;

export function rangeText(family: Family, { first, last }: AddressRange): string {
  if (first === last) return first;
  const [low, high] = [addressValue(first), addressValue(last)];
  const size = high - low + 1n;
  const isBlock = (size & (size - 1n)) === 0n && low % size === 0n;
  return isBlock ? `${first}/${widths[family] - BigInt(size.toString(2).length - 1)}` : `${first}-${last}`;
}
