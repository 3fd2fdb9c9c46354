/**
 * Netlink messages and their attributes, from and to bytes (include/uapi/linux/netlink.h).
 *
 * Headers and lengths are in the byte order of the machine, which is little-endian on all that Rampart runs on; what
 * netfilter puts into attributes is mostly in network order.
 */

/** NLM_F_*. */
export const messageFlags = {
  REQUEST: 0x1,
  ACK: 0x4,
  REPLACE: 0x100,
  EXCL: 0x200,
  CREATE: 0x400,
  /** NLM_F_ROOT | NLM_F_MATCH */
  DUMP: 0x300,
  /** In an answer: the dumped list has changed during the dump. */
  DUMP_INTR: 0x10,
} as const;

/** The types of netlink itself, which are below 16. */
export const messageTypes = { ERROR: 2, DONE: 3, OVERRUN: 4 } as const;

export interface NetlinkMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** The port of the socket that it answers, or that made the reported change. */
  readonly port: number;
  /** The bytes after the header; a view, valid as long as its source. */
  readonly body: Buffer;
}

const HEADER_BYTES = 16;
const ATTRIBUTE_HEADER_BYTES = 4;
const NESTED = 0x8000;
/** Masks the flags for nested attributes and for network byte order out of a type. */
const TYPE_MASK = 0x3fff;

const aligned = (sizeBytes: number): number => (sizeBytes + 3) & ~3;

/** The messages of one read, in order. Stops at a message that is cut off. */
export function* messagesOf(bytes: Buffer): Iterable<NetlinkMessage> {
  for (let at = 0; at + HEADER_BYTES <= bytes.length;) {
    const sizeBytes = bytes.readUInt32LE(at);
    if (sizeBytes < HEADER_BYTES || at + sizeBytes > bytes.length) return;
    yield {
      type: bytes.readUInt16LE(at + 4),
      flags: bytes.readUInt16LE(at + 6),
      sequence: bytes.readUInt32LE(at + 8),
      port: bytes.readUInt32LE(at + 12),
      body: bytes.subarray(at + HEADER_BYTES, at + sizeBytes),
    };
    at += aligned(sizeBytes);
  }
}

/** A message with its header, its parts aligned. */
export function netlinkMessage(
  { type, flags, sequence }: Pick<NetlinkMessage, 'type' | 'flags' | 'sequence'>,
  ...parts: readonly Uint8Array[]
): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  const body = padded(parts);
  header.writeUInt32LE(HEADER_BYTES + body.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(flags, 6);
  header.writeUInt32LE(sequence, 8);
  return Buffer.concat([header, body]);
}

export function attribute(type: number, value: Uint8Array): Buffer {
  const header = Buffer.alloc(ATTRIBUTE_HEADER_BYTES);
  header.writeUInt16LE(ATTRIBUTE_HEADER_BYTES + value.length, 0);
  header.writeUInt16LE(type, 2);
  return padded([Buffer.concat([header, value])]);
}

export function nested(type: number, ...attributes: readonly Uint8Array[]): Buffer {
  return attribute(type | NESTED, Buffer.concat(attributes));
}

export function bytes8(value: number): Buffer {
  return Buffer.of(value);
}

/** In network order. */
export function bytes16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

/** In network order. */
export function bytes32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** In the byte order of the machine, as rtnetlink has them. */
export function hostBytes32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

export function textBytes(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}

/** The text of an attribute, up to its NUL. */
export function textOf(value: Buffer | undefined): string {
  if (value === undefined) return '';
  const end = value.indexOf(0);
  return value.toString('utf8', 0, end < 0 ? value.length : end);
}

/** Attributes keyed by type; of a repeated type, the last one. Stops at an attribute that is cut off. */
export function attributesOf(bytes: Buffer): Map<number, Buffer> {
  const attributes = new Map<number, Buffer>();
  for (let at = 0; at + ATTRIBUTE_HEADER_BYTES <= bytes.length;) {
    const sizeBytes = bytes.readUInt16LE(at);
    if (sizeBytes < ATTRIBUTE_HEADER_BYTES || at + sizeBytes > bytes.length) break;
    attributes.set(
      bytes.readUInt16LE(at + 2) & TYPE_MASK,
      bytes.subarray(at + ATTRIBUTE_HEADER_BYTES, at + sizeBytes),
    );
    at += aligned(sizeBytes);
  }
  return attributes;
}

function padded(parts: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => [part, Buffer.alloc(aligned(part.byteLength) - part.byteLength)]),
  );
}
