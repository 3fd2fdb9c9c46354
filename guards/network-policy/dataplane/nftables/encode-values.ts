/** Addresses, elements and comments as bytes. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { addressGroups, ipv4Value } from '../../engine/addresses.ts';
import type { Address, Family } from '../../engine/rules.ts';

export const maxPort = 65_535;
export const maxProtocol = 255;

export function addressBytes(family: Family, value: bigint): Buffer {
  const bytes = Buffer.alloc(family === 4 ? 4 : 16);
  if (family === 4) bytes.writeUInt32BE(Number(value));
  else {
    bytes.writeBigUInt64BE(value >> 64n, 0);
    bytes.writeBigUInt64BE(value & 0xffff_ffff_ffff_ffffn, 8);
  }
  return bytes;
}

/** Like `addressBytes` of its value, without a bigint: it is called tens of thousands of times. */
export function addressTextBytes(family: Family, address: Address): Buffer {
  const bytes = Buffer.allocUnsafe(family === 4 ? 4 : 16);
  if (family === 4) bytes.writeUInt32BE(ipv4Value(address));
  else {
    addressGroups(address).forEach((group, at) => {
      bytes[2 * at] = group >>> 8;
      bytes[2 * at + 1] = group & 0xff;
    });
  }
  return bytes;
}

/** Also false for `undefined`, which is the number of a protocol that is unknown here. */
export function fits(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= max;
}

/** A key of three fields, each padded to four bytes. */
export function endpointBytes(
  address: Buffer,
  { protocol, port }: { readonly protocol: number; readonly port: number },
): Buffer {
  const rest = Buffer.alloc(8);
  rest[0] = protocol;
  rest.writeUInt16BE(port, 4);
  return Buffer.concat([address, rest]);
}

/** As nft keeps comments of chains and rules: type, length, text. */
export function commentData(comment: string): Buffer {
  return Buffer.from([0, Buffer.byteLength(comment) + 1, ...Buffer.from(`${comment}\0`)]);
}

/** @param text - The rule or command in nft's language. */
export function inexpressible(text: string): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, {
    what: 'nftables cannot express a rule',
    why: `it would be \`${text}\``,
  });
}
