/**
 * Ranges of addresses as blocks: all that a hash:net takes.
 *
 * @module
 */
import { addressText, addressValue } from '../../engine/addresses.ts';
import type { AddressRange, AddressSet, Family } from '../../engine/rules.ts';

const widths = { 4: 32, 6: 128 } as const;

/** As ipset lists them: a block of one address without its length. */
export function blocksOf(family: Family, ranges: AddressSet): string[] {
  return ranges.flatMap((range) => (range.first === range.last ? [range.first] : split(family, range)));
}

/** As iptables lists them: with the length always. */
export function blockMatch(family: Family, block: string): string {
  return block.includes('/') ? block : `${block}/${widths[family]}`;
}

function split(family: Family, range: AddressRange): string[] {
  const width = widths[family];
  const last = addressValue(range.last);
  const blocks: string[] = [];
  for (let low = addressValue(range.first); low <= last;) {
    // hash:net has no block of all addresses: two halves.
    let bits = low === 0n ? width - 1 : trailingZeros(low, width - 1);
    while (low + (1n << BigInt(bits)) - 1n > last) bits--;
    const text = addressText(family, low);
    blocks.push(bits === 0 ? text : `${text}/${width - bits}`);
    low += 1n << BigInt(bits);
  }
  return blocks;
}

function trailingZeros(value: bigint, most: number): number {
  let zeros = 0;
  while (zeros < most && ((value >> BigInt(zeros)) & 1n) === 0n) zeros++;
  return zeros;
}

/** Whether all addresses are within the ranges, which are sorted and disjoint. */
export function coversAll(ranges: AddressSet, addresses: readonly string[]): boolean {
  const intervals = ranges.map(({ first, last }) => [addressValue(first), addressValue(last)] as const);
  return addresses.every((address) => {
    const value = addressValue(address);
    return intervals.some(([low, high]) => low <= value && value <= high);
  });
}
