/** Addresses, keys and verdicts of nft's language as bytes. */
import type { VerdictName } from './nftables-batch.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { addressGroups, addressValue, ipv4Value, parseBlock } from '../../engine/addresses.ts';
import type { Family } from '../../engine/rules.ts';

export interface FamilyRange {
  readonly family: Family;
  readonly low: bigint;
  readonly high: bigint;
  /** Of a block: the length of its prefix. */
  readonly prefix?: number;
}

/** `10.0.0.0/8`, `10.0.0.1-10.0.0.9`, or one address. @throws {RampartError} `UNSUPPORTED` */
export function elementRange(text: string): FamilyRange {
  const family = text.includes(':') ? 6 : 4;
  const [address = '', prefix] = text.split('/');
  if (prefix !== undefined) {
    const block = parseBlock(text);
    if (typeof block !== 'string') return { ...block, prefix: Number(prefix) };
    // An IPv4-mapped block does not come from a policy, but it can from consecutive addresses.
    const size = 1n << BigInt(128 - Number(prefix));
    return {
      family,
      low: addressValue(address),
      high: addressValue(address) + size - 1n,
      prefix: Number(prefix),
    };
  }
  const [first = '', last = first] = text.split('-');
  const [low, high] = [addressValue(first), addressValue(last)];
  if (low > high) throw unreadable(text);
  return { family, low, high };
}

export function addressBytes(family: Family, value: bigint): Buffer {
  const bytes = Buffer.alloc(family === 4 ? 4 : 16);
  if (family === 4) bytes.writeUInt32BE(Number(value));
  else {
    bytes.writeBigUInt64BE(value >> 64n, 0);
    bytes.writeBigUInt64BE(value & 0xffff_ffff_ffff_ffffn, 8);
  }
  return bytes;
}

/** `10.0.0.1`, or `10.0.0.1 . 6 . 80`: each field padded to four bytes. */
export function elementKey(type: string, key: string): Buffer {
  const family = type.startsWith('ipv4_addr') ? 4 : 6;
  const [address = '', protocol, port] = key.split(' . ');
  const bytes = Buffer.allocUnsafe(family === 4 ? 4 : 16);
  if (family === 4) bytes.writeUInt32BE(ipv4Value(address));
  else {
    addressGroups(address).forEach((group, at) => {
      bytes[2 * at] = group >>> 8;
      bytes[2 * at + 1] = group & 0xff;
    });
  }
  if (protocol === undefined || port === undefined) return bytes;
  const rest = Buffer.alloc(8);
  rest[0] = numberOf(protocol, 255);
  rest.writeUInt16BE(numberOf(port, 65_535), 4);
  return Buffer.concat([bytes, rest]);
}

/** `accept`, `goto CHAIN` */
export function verdictOf(text: string): [VerdictName, string?] {
  const [name = '', chain] = text.split(' ');
  const takesChain = name === 'goto' || name === 'jump';
  if (takesChain && chain !== undefined) return [name, chain];
  if (name === 'accept' || name === 'drop' || name === 'return') return [name];
  throw unreadable(text);
}

/** As nft keeps comments of chains and rules: type, length, text. */
export function commentData(comment: string): Buffer {
  return Buffer.from([0, Buffer.byteLength(comment) + 1, ...Buffer.from(`${comment}\0`)]);
}

/** @throws {RampartError} `UNSUPPORTED` */
export function numberOf(text: string, most: number): number {
  const number = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(number <= most)) throw unreadable(text);
  return number;
}

export function unreadable(text: string): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, {
    what: 'nftables cannot express a rule',
    why: `it would be \`${text}\``,
  });
}
