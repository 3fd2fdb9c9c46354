/** Addresses as nft lists them: a range that is a block is written as its prefix. */
import type { AddressRange, Family } from '../../engine/rules.ts';

const widths = { 4: 32n, 6: 128n } as const;

export function rangeText(family: Family, { first, last }: AddressRange): string {
  if (first === last) return first;
  const [low, high] = [parse(family, first), parse(family, last)];
  const size = high - low + 1n;
  const isBlock = (size & (size - 1n)) === 0n && low % size === 0n;
  return isBlock ? `${first}/${widths[family] - BigInt(size.toString(2).length - 1)}` : `${first}-${last}`;
}

function parse(family: Family, address: string): bigint {
  if (family === 4) {
    return address.split('.').reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  }
  // The last 32 bits may be written as an IPv4 address.
  const dotted = /^(.*:)([\d.]+)$/.exec(address);
  if (dotted?.[1] !== undefined && dotted[2]?.includes('.')) {
    return parse(6, `${dotted[1]}0:0`) | parse(4, dotted[2]);
  }
  const [head = '', tail] = address.split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [before, after] = [groups(head), groups(tail ?? '')];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].reduce((sum, group) => (sum << 16n) | BigInt(`0x${group}`), 0n);
}
