/** Addresses and address blocks, from text to numbers and back. */
import { isIPv4, isIPv6 } from 'node:net';

import type { Address, Family } from './rules.ts';

export interface IpAddress {
  readonly family: Family;
  readonly value: bigint;
  readonly text: Address;
}

/** A closed interval of addresses of one family. */
export interface Interval {
  readonly low: bigint;
  readonly high: bigint;
  /** The text of the address, if the interval has only one and its text is known. */
  readonly text?: Address;
}

export interface Block extends Interval {
  readonly family: Family;
  /** If a block applies other than its text suggests: the block that applies, and why. */
  readonly readAs?: { readonly block: string; readonly why: string };
}

const bitsOf = { 4: 32, 6: 128 } as const;
const wordShifts = [96n, 64n, 32n, 0n] as const;
/** `::ffff:0:0/96` without its last 32 bits: IPv4 addresses written as IPv6. */
const mappedPrefix = 0xffffn;

/**
 * Parses an address; undefined if it cannot be the address of a pod. An IPv4-mapped address becomes the IPv4
 * address that it stands for.
 */
export function parseAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return { family: 4, value: addressValue(text), text };
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const groups = addressGroups(text);
  const value = valueOfGroups(groups);
  if (value >> 32n !== mappedPrefix) return { family: 6, value, text: textOfGroups(groups) };
  const own = value & 0xffffffffn;
  return { family: 4, value: own, text: addressText(4, own) };
}

/** Whether an address in canonical text is of fe80::/10: each interface has its own, and no router forwards it (RFC 4291). */
export function isLinkLocal(address: Address): boolean {
  return /^fe[89ab]/.test(address);
}

/** The number of a valid address. */
export function addressValue(text: Address): bigint {
  if (!text.includes(':')) return BigInt(ipv4Value(text));
  return valueOfGroups(addressGroups(text));
}

function valueOfGroups(groups: readonly number[]): bigint {
  const word = (at: number): bigint => BigInt((groups[at] as number) * 65_536 + (groups[at + 1] as number));
  return (word(0) << 96n) | (word(2) << 64n) | (word(4) << 32n) | word(6);
}

/** The eight 16-bit numbers of a valid IPv6 address. */
export function addressGroups(text: Address): number[] {
  // Many addresses are parsed: reading single bytes avoids short-lived strings.
  const groups = [0, 0, 0, 0, 0, 0, 0, 0];
  let [count, tailAt] = [0, -1];
  for (let at = 0; at < text.length;) {
    if (text.charCodeAt(at) === COLON) {
      if (text.charCodeAt(at + 1) === COLON) tailAt = count;
      at++;
      continue;
    }
    const begin = at;
    let group = 0;
    let code = text.charCodeAt(at);
    while (at < text.length && code !== COLON && code !== DOT) {
      group = (group << 4) | hexDigit(code);
      code = text.charCodeAt(++at);
    }
    if (at === text.length || code === COLON) groups[count++] = group;
    else {
      const last = ipv4Value(text.slice(begin));
      groups[count++] = last >>> 16;
      groups[count++] = last & 0xffff;
      break;
    }
  }
  if (tailAt !== -1) {
    groups.copyWithin(8 - count + tailAt, tailAt, count);
    groups.fill(0, tailAt, 8 - count + tailAt);
  }
  return groups;
}

const [COLON, DOT] = [0x3a, 0x2e];

/** The value of a valid digit. */
function hexDigit(code: number): number {
  return code <= 0x39 ? code - 0x30 : (code | 0x20) - 0x61 + 10;
}

/** The value of a valid IPv4 address. */
export function ipv4Value(text: Address): number {
  let [value, byte] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === DOT) {
      value = (value << 8) | byte;
      byte = 0;
    } else byte = byte * 10 + code - 0x30;
  }
  return ((value << 8) | byte) >>> 0;
}

/** The canonical text: for IPv6 that of RFC 5952. */
export function addressText(family: Family, value: bigint): Address {
  if (family === 4) {
    const number = Number(value);
    return `${number >>> 24}.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`;
  }
  const groups: number[] = [];
  for (const shift of wordShifts) {
    const word = Number(BigInt.asUintN(32, value >> shift));
    groups.push(word >>> 16, word & 0xffff);
  }
  return textOfGroups(groups);
}

function textOfGroups(groups: readonly number[]): Address {
  const zeros = longestZeros(groups);
  if (zeros.length < 2) return groupsText(groups, 0, 8);
  return `${groupsText(groups, 0, zeros.at)}::${groupsText(groups, zeros.at + zeros.length, 8)}`;
}

function groupsText(groups: readonly number[], from: number, to: number): string {
  let text = '';
  for (let at = from; at < to; at++) text += (at > from ? ':' : '') + (groups[at] as number).toString(16);
  return text;
}

function longestZeros(groups: readonly number[]): { readonly at: number; readonly length: number } {
  let best = { at: 0, length: 0 };
  for (let at = 0; at < groups.length; at++) {
    let length = 0;
    while (groups[at + length] === 0) length++;
    if (length > best.length) best = { at, length };
  }
  return best;
}

/**
 * A CIDR, or why it is not one. It is read as by Kubernetes' own parser (ParseCIDRSloppy of k8s.io/utils/net, Go's net.ParseCIDR): masked, an
 * IPv4-mapped block is one of IPv4, and leading zeros count for nothing.
 */
export function parseBlock(text: string): Block | string {
  const [given = '', prefix = '', ...rest] = text.split('/');
  const isDotted = /^\d{1,4}(?:\.\d{1,4}){3}$/.test(given);
  const address = isDotted ? given.split('.').map(Number).join('.') : given;
  const family = isIPv4(address) ? 4 : isIPv6(address) && !address.includes('%') ? 6 : undefined;
  if (family === undefined || rest.length > 0 || !/^\d{1,3}$/.test(prefix)) {
    return 'is not an address block such as 10.9.8.0/24 or 2001:db8::/64';
  }
  const [bits, length] = [bitsOf[family], Number(prefix)];
  if (length > bits) return `has a prefix longer than ${bits} bits`;
  const size = 1n << BigInt(bits - length);
  const first = addressValue(address);
  const low = first - (first % size);
  const isMapped = family === 6 && length >= 96 && low >> 32n === mappedPrefix;
  const block: Block = isMapped
    ? { family: 4, low: low & 0xffffffffn, high: (low & 0xffffffffn) + size - 1n }
    : { family, low, high: low + size - 1n };
  const whys = [
    ...(first === low ? [] : ['has bits set beyond its prefix']),
    ...(isMapped ? ['is IPv4 written as IPv6'] : []),
    ...(address === given && prefix === String(length) ? [] : ['has leading zeros']),
  ];
  if (whys.length === 0) return block;
  const read = `${addressText(block.family, block.low)}/${isMapped ? length - 96 : length}`;
  return { ...block, readAs: { block: read, why: whys.join(' and ') } };
}
