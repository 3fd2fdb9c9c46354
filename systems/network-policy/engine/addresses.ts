/**
 * Addresses and blocks of them, from text to numbers and back.
 *
 * @module
 */
import { isIPv4, isIPv6 } from 'node:net';

import type { Address, Family } from './rules.ts';

export interface IpAddress {
  readonly family: Family;
  readonly value: bigint;
  /** Canonical. */
  readonly text: Address;
}

/** A closed interval of addresses of one family. */
export interface Interval {
  readonly low: bigint;
  readonly high: bigint;
  /** Of an interval of one address, where it is known. */
  readonly text?: Address;
}

export interface Block extends Interval {
  readonly family: Family;
}

const bitsOf = { 4: 32, 6: 128 } as const;
/** `::ffff:0:0/96` without its last 32 bits: IPv4 addresses written as IPv6. */
const mappedPrefix = 0xffffn;

/** Undefined for what is no address of a pod. An IPv4-mapped one is the IPv4 address that it stands for. */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return { family: 4, value: addressValue(text), text };
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const value = addressValue(text);
  const [family, own] =
    value >> 32n === mappedPrefix ? [4 as const, value & 0xffffffffn] : [6 as const, value];
  return { family, value: own, text: addressText(family, own) };
}

/** The number of an address that is known to be one. */
export function addressValue(text: Address): bigint {
  if (!text.includes(':')) return BigInt(ipv4Value(text));
  const [head = '', tail] = text.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const groups = [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right];
  return groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n);
}

function groupsOf(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [parseInt(group, 16)];
    const value = ipv4Value(group);
    return [value >>> 16, value & 0xffff];
  });
}

function ipv4Value(text: string): number {
  const [a = '', b = '', c = '', d = ''] = text.split('.');
  return ((Number(a) << 24) | (Number(b) << 16) | (Number(c) << 8) | Number(d)) >>> 0;
}

/** The canonical text: for IPv6 that of RFC 5952. */
export function addressText(family: Family, value: bigint): Address {
  if (family === 4) {
    const number = Number(value);
    return `${number >>> 24}.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`;
  }
  const groups = Array.from({ length: 8 }, (_, at) =>
    Number((value >> BigInt(112 - 16 * at)) & 0xffffn).toString(16),
  );
  const zeros = longestZeros(groups);
  if (zeros.length < 2) return groups.join(':');
  return `${groups.slice(0, zeros.at).join(':')}::${groups.slice(zeros.at + zeros.length).join(':')}`;
}

function longestZeros(groups: readonly string[]): { readonly at: number; readonly length: number } {
  let best = { at: 0, length: 0 };
  for (let at = 0; at < groups.length; at++) {
    let length = 0;
    while (groups[at + length] === '0') length++;
    if (length > best.length) best = { at, length };
  }
  return best;
}

/** A CIDR, or why it is none. */
export function parseBlock(text: string): Block | string {
  const [address = '', prefix = '', ...rest] = text.split('/');
  const family = isIPv4(address) ? 4 : isIPv6(address) && !address.includes('%') ? 6 : undefined;
  if (family === undefined || rest.length > 0 || !/^(?:0|[1-9]\d{0,2})$/.test(prefix)) {
    return 'is not an address block such as 10.9.8.0/24 or 2001:db8::/64';
  }
  const [bits, length] = [bitsOf[family], Number(prefix)];
  if (length > bits) return `has a prefix longer than ${bits} bits`;
  const low = addressValue(address);
  const size = 1n << BigInt(bits - length);
  if (low % size !== 0n) {
    return `has bits set after its prefix; the block is ${addressText(family, low - (low % size))}/${length}`;
  }
  if (family === 6 && length >= 96 && low >> 32n === mappedPrefix) {
    return `is IPv4 written as IPv6; the block is ${addressText(4, low & 0xffffffffn)}/${length - 96}`;
  }
  return { family, low, high: low + size - 1n };
}
