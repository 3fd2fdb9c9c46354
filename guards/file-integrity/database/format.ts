/**
 * The file format of a baseline.
 *
 * ```
 * magic, version               8 bytes
 * frame: header                JSON, see BaselineHeader
 * frame: entries  ...          see entry-codec.ts, sorted by the bytes of their paths
 * frame: footer                JSON, see BaselineCounts
 * frame: signature             over the SHA-256 of the SHA-256 of all frames before it
 *
 * frame = kind (1), length of the payload (4, little endian), payload, CRC-32 of these and of the frame's number (4)
 * ```
 *
 * The CRC detects damage, and where it is. The signature proves that Rampart wrote all frames, in this order.
 */
import { createHash, hash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { AttributeSet } from '../model/attributes.ts';
import type { SignatureScheme } from './signature.ts';

/** Its first byte is not valid text, so that editors do not open the file as text and save it. */
export const magic = Buffer.from('\x89RMPFIB', 'latin1');
export const formatVersion = 1;
export const preambleBytes = magic.length + 1;

export const frameKinds = { header: 1, entries: 2, footer: 3, signature: 4 } as const;
export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

/** Size of the part of a frame before its payload. */
export const frameHeadBytes = 5;
export const frameTailBytes = 4;
/** Upper limit of a payload: a block is full at 64 KiB, and its last entry may have 1 MiB of extended attributes. */
export const longestPayloadBytes = 4 * 1024 * 1024;

/** What a baseline records about itself. */
export interface BaselineHeader {
  /** Version of Rampart that wrote it. */
  readonly rampartVersion: string;
  readonly madeAtMs: number;
  /** Digest of the configuration that it was created with, as computed by the caller. */
  readonly configDigest: string;
  /** Further facts from the caller: the node, who accepted which change. */
  readonly about: Readonly<Record<string, string>>;
  readonly scheme: SignatureScheme;
  readonly keyId: string;
}

export interface BaselineCounts {
  readonly entries: number;
  /** All attributes that occur in the entries. */
  readonly attributes: AttributeSet;
  /** Total size of files with a checksum, as far as recorded: what a scan will have to read. */
  readonly contentBytes: number;
}

export function preamble(): Buffer {
  return Buffer.concat([magic, Buffer.from([formatVersion])]);
}

/** Builds the frames of a file, and the digest to sign. */
export class FrameWriter {
  readonly #digest: Hash = createHash('sha256').update(preamble());
  #frames = 0;

  frame(kind: FrameKind, payload: Uint8Array): Buffer {
    const frame = Buffer.allocUnsafe(frameHeadBytes + payload.length + frameTailBytes);
    frame[0] = kind;
    frame.writeUInt32LE(payload.length, 1);
    frame.set(payload, frameHeadBytes);
    const end = frameHeadBytes + payload.length;
    frame.writeUInt32LE(crc32(frame.subarray(0, end), this.#frames), end);
    this.#frames++;
    this.#digest.update(digestOf(frame));
    return frame;
  }

  /** Digest of all frames so far; later frames are not included. */
  digest(): Buffer {
    return this.#digest.copy().digest();
  }
}

export function digestOf(data: Uint8Array | string): Buffer {
  return hash('sha256', data, 'buffer');
}

/** Whether the CRC is right. It covers the frame and its position, so that swapped frames are detected too. */
export function hasCrc(frame: Buffer, index: number): boolean {
  const end = frame.length - frameTailBytes;
  return crc32(frame.subarray(0, end), index) === frame.readUInt32LE(end);
}
