/** Writes a baseline while its entries arrive; needs memory for a few blocks only. */
import type { FileHandle } from 'node:fs/promises';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { aideMaskOf } from '../model/aide-mask.ts';
import type { Batches } from '../model/batches.ts';
import type { Entry } from '../model/entry.ts';
import { EntryBlock } from './entry-block.ts';
import { type BlockFacts, EntryEncoder } from './entry-codec.ts';
import {
  type BaselineCounts,
  type BaselineHeader,
  frameKinds,
  FrameWriter,
  longestPayloadBytes,
  preamble,
} from './format.ts';
import { replaceFile } from './replace-file.ts';
import { keyId, signDigest, type SigningKey } from './signature.ts';

export interface WriteBaselineOptions {
  /** Its directory must exist; an existing file is replaced. */
  readonly path: string;
  readonly key: SigningKey;
  readonly header: Pick<BaselineHeader, 'rampartVersion' | 'madeAtMs' | 'configDigest'> & {
    readonly about?: Readonly<Record<string, string>>;
  };
  /** Sorted by the bytes of their paths, without duplicates. */
  readonly entries: Batches<Entry>;
  readonly signal?: AbortSignal;
}

export interface WrittenBaseline {
  readonly entries: number;
  readonly sizeBytes: number;
  /** In hexadecimal. A copy kept elsewhere distinguishes this baseline from older ones, which are signed too. */
  readonly digest: string;
}

/**
 * Blocks of at least this size are written unchanged. That is fast, and in a later check the blocks of the scan can
 * equal those of the baseline. Smaller ones are combined, so that a baseline does not consist of many small blocks.
 */
const wholeBlockBytes = 8 * 1024;
/** Bytes are passed to the kernel in chunks of this size. */
const writeBytes = 512 * 1024;

/**
 * @throws RampartError FULL, SYSTEM (the previous file is unchanged); INPUT if the entries are not sorted or
 * the key is invalid; LIMIT for an entry that is too long; the reason of `signal`; the errors of `entries`
 */
export async function writeBaseline(options: WriteBaselineOptions): Promise<WrittenBaseline> {
  const { path, key, header, signal } = options;
  const frames = new FrameWriter();
  // Sign once before anything is written, so that an invalid key is reported immediately.
  const full: BaselineHeader = { about: {}, ...header, scheme: key.scheme, keyId: keyId(key) };
  signDigest(frames.digest(), key);

  let result: WrittenBaseline | undefined;
  await replaceFile(path, async (file) => {
    const output = new Output(file);
    output.add(preamble());
    output.add(frames.frame(frameKinds.header, json(full)));
    const { entries, attributes, contentBytes } = await writeEntries(options, frames, output);
    const footer = { entries, attributes: aideMaskOf(attributes), contentBytes };
    output.add(frames.frame(frameKinds.footer, json(footer)));
    const digest = frames.digest();
    output.add(frames.frame(frameKinds.signature, signDigest(digest, key)));
    await output.flush();
    signal?.throwIfAborted();
    result = { entries, sizeBytes: output.sizeBytes, digest: digest.toString('hex') };
  });
  if (result === undefined) throw new Error('unreachable');
  return result;
}

async function writeEntries(
  { entries, path, signal }: WriteBaselineOptions,
  frames: FrameWriter,
  output: Output,
): Promise<BaselineCounts> {
  const encoder = new EntryEncoder();
  const total = { entries: 0, attributes: 0, contentBytes: 0 };
  let last: string | undefined;
  const add = (block: Uint8Array, { count, attributes, contentBytes, lastPath }: BlockFacts): void => {
    if (block.length > longestPayloadBytes) throw tooLong(path, lastPath, block.length);
    output.add(frames.frame(frameKinds.entries, block));
    total.entries += count;
    total.attributes |= attributes;
    total.contentBytes += contentBytes;
  };
  const endBlock = (): void => {
    const { facts } = encoder;
    if (facts.count > 0) add(encoder.take(), facts);
  };
  const checkOrder = (next: string): void => {
    if (last !== undefined && !(last < next)) throw unsorted(path, last, next);
  };
  for await (const batch of entries) {
    signal?.throwIfAborted();
    if (batch instanceof EntryBlock && batch.bytes.length >= wholeBlockBytes) {
      endBlock();
      checkOrder(batch.firstPath);
      add(batch.bytes, batch.facts);
      last = batch.facts.lastPath;
    } else {
      for (const entry of batch) {
        checkOrder(entry.path);
        last = entry.path;
        encoder.add(entry);
        if (encoder.isFull) endBlock();
      }
    }
    if (output.waiting >= writeBytes) await output.flush();
  }
  endBlock();
  return total;
}

class Output {
  readonly #file: FileHandle;
  #parts: Buffer[] = [];
  waiting = 0;
  sizeBytes = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  add(part: Buffer): void {
    this.#parts.push(part);
    this.waiting += part.length;
    this.sizeBytes += part.length;
  }

  async flush(): Promise<void> {
    const parts = this.#parts;
    let rest = Buffer.concat(parts);
    this.#parts = [];
    this.waiting = 0;
    // If the disk is nearly full, a write may be partial; only the write after it fails.
    while (rest.length > 0) {
      const { bytesWritten } = await this.#file.write(rest);
      rest = rest.subarray(bytesWritten);
    }
  }
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function unsorted(path: string, before: string, after: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `cannot write the baseline ${path}`,
    why: `its entries are not sorted: ${JSON.stringify(after)} comes after ${JSON.stringify(before)}`,
    next: 'This is a bug in Rampart: please report it',
  });
}

/**
 * Applies only to a single entry, because a block is ended when it is full. Our scans never produce such an entry; a
 * database from elsewhere may.
 */
function tooLong(path: string, entry: string, bytes: number): RampartError {
  return new RampartError(errorCodes.LIMIT, {
    what: `cannot write the baseline ${path}`,
    why: `the entry of ${JSON.stringify(entry)} has ${bytes} bytes; the limit is ${longestPayloadBytes}`,
    next: 'Exclude extended attributes (xattrs) for it in the configuration',
  });
}
