/**
 * The file of a baseline.
 *
 * ```
 * magic, version               8 bytes
 * frame: header                JSON, see BaselineHeader
 * frame: entries  ...          see entry-codec.ts, sorted by the bytes of their paths
 * frame: footer                JSON, see BaselineCounts
 * frame: signature             over the SHA-256 of the SHA-256 of all frames before it
 *
 * frame = kind (1), length of the payload (4, little endian), payload, CRC-32 of all that and of the frame's number (4)
 * ```
 *
 * The CRC detects damage and its place. The signature proves that Rampart wrote it, completely and in this
 * order.
 */
import { createHash, hash, type Hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { AttributeSet } from '../model/attributes.ts';
import type { SignatureScheme } from './signature.ts';

/** Its first byte is not text, so that editors do not open and save the file. */
export const magic = Buffer.from('\x89RMPFIB', 'latin1');
export const formatVersion = 1;
export const preambleBytes = magic.length + 1;

export const frameKinds = { header: 1, entries: 2, footer: 3, signature: 4 } as const;
export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

/** Bytes of a frame before and after its payload. */
export const frameHeadBytes = 5;
export const frameTailBytes = 4;
/** No frame is longer: a block is full with 64 KiB, and its last entry may have 1 MiB of extended attributes. */
export const longestPayloadBytes = 4 * 1024 * 1024;

/** A baseline's facts about itself. */
export interface BaselineHeader {
  /** Version of Rampart that wrote it. */
  readonly rampartVersion: string;
  readonly madeAtMs: number;
  /** Digest of the configuration that it was made with, as computed by the caller. */
  readonly configDigest: string;
  /** Further facts for the caller: the node, who accepted which change. */
  readonly about: Readonly<Record<string, string>>;
  readonly scheme: SignatureScheme;
  readonly keyId: string;
}

export interface BaselineCounts {
  readonly entries: number;
  /** All attributes that some entry has. */
  readonly attributes: AttributeSet;
  /** Size of files with a checksum, if known: the amount that a scan will read. */
  readonly contentBytes: number;
}

export function preamble(): Buffer {
  return Buffer.concat([magic, Buffer.from([formatVersion])]);
}

/** Makes the frames of a file, and the digest that is signed. */
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

  /** Digest of all frames so far. No further frame counts. */
  digest(): Buffer {
    return this.#digest.copy().digest();
  }
}

export function digestOf(data: Uint8Array | string): Buffer {
  return hash('sha256', data, 'buffer');
}

/** The CRC of a frame is its own and that of its place, so that two that changed places are seen. */
export function hasCrc(frame: Buffer, index: number): boolean {
  const end = frame.length - frameTailBytes;
  return crc32(frame.subarray(0, end), index) === frame.readUInt32LE(end);
}
