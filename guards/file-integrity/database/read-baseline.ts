/**
 * Reads a baseline. The whole file is verified before the first entry is returned, and each block again when it is
 * read: only signed content is returned, even if another process writes to the file meanwhile.
 */
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { setOfAideMask } from '../model/aide-mask.ts';
import type { ByteString, Entry } from '../model/entry.ts';
import { BaselineError } from './baseline-error.ts';
import { MalformedBytes } from './bytes.ts';
import { EntryBlock, lastNotAfter } from './entry-block.ts';
import { decodeEntries, firstPathOf } from './entry-codec.ts';
import {
  type BaselineCounts,
  type BaselineHeader,
  digestOf,
  formatVersion,
  frameHeadBytes,
  frameKinds,
  frameTailBytes,
  magic,
  preamble,
  preambleBytes,
} from './format.ts';
import { openBaselineFile, readAt, takeFrame, Window } from './frame-reader.ts';
import { keyId, verifyDigest, type VerifyingKey } from './signature.ts';

/** A block of entries: its position in the file, and the expected digest of its bytes. */
interface Block {
  readonly at: number;
  readonly bytes: number;
  readonly digest: Buffer;
  readonly firstPath: ByteString;
}

interface Contents {
  readonly header: BaselineHeader;
  readonly counts: BaselineCounts;
  readonly digest: string;
  readonly blocks: readonly Block[];
}

/** An open, verified baseline. Whoever opens it disposes it. */
export class Baseline implements AsyncDisposable {
  readonly path: string;
  readonly header: BaselineHeader;
  readonly counts: BaselineCounts;
  readonly sizeBytes: number;
  /** In hexadecimal, as returned by `writeBaseline`. */
  readonly digest: string;
  readonly #file: FileHandle;
  readonly #blocks: readonly Block[];

  constructor(path: string, file: FileHandle, sizeBytes: number, contents: Contents) {
    this.path = path;
    this.#file = file;
    this.sizeBytes = sizeBytes;
    this.header = contents.header;
    this.counts = contents.counts;
    this.digest = contents.digest;
    this.#blocks = contents.blocks;
  }

  /**
   * All entries, sorted by the bytes of their paths, one block at a time. May be called any number of times.
   *
   * @throws BaselineError if the file is modified meanwhile; the reason of `signal`
   */
  async *entries(signal?: AbortSignal): AsyncGenerator<EntryBlock, void, undefined> {
    for (const block of this.#blocks) {
      signal?.throwIfAborted();
      yield await this.#read(block);
    }
  }

  /**
   * The entries of those paths that the baseline has. Reads one block for each path; if the paths are sorted, each
   * block is read only once.
   *
   * @throws BaselineError if the file is modified meanwhile; the reason of `signal`
   */
  async find(paths: readonly ByteString[], signal?: AbortSignal): Promise<Map<ByteString, Entry>> {
    const found = new Map<ByteString, Entry>();
    let last: Block | undefined;
    let entries: readonly Entry[] = [];
    for (const path of paths) {
      signal?.throwIfAborted();
      const block = this.#blocks[lastNotAfter(this.#blocks, path, (one) => one.firstPath)];
      if (block === undefined) continue;
      if (block !== last) entries = (await this.#read(block)).unpack();
      last = block;
      const entry = entries[lastNotAfter(entries, path, (one) => one.path)];
      if (entry?.path === path) found.set(path, entry);
    }
    return found;
  }

  /**
   * The entries below a directory, in order; reads only the blocks that contain them.
   *
   * @throws BaselineError if the file is modified meanwhile; the reason of `signal`
   */
  async *below(
    directory: ByteString,
    signal?: AbortSignal,
  ): AsyncGenerator<readonly Entry[], void, undefined> {
    const first = directory === '/' ? '/' : `${directory}/`;
    // '0' is the character after '/', so this path sorts after everything below the directory.
    const end = directory === '/' ? '0' : `${directory}0`;
    const start = Math.max(
      0,
      lastNotAfter(this.#blocks, first, (one) => one.firstPath),
    );
    for (const block of this.#blocks.slice(start)) {
      if (block.firstPath >= end) return;
      signal?.throwIfAborted();
      const entries = (await this.#read(block)).unpack();
      yield entries.filter(({ path }) => path > first && path < end);
    }
  }

  async #read({ at, bytes, digest }: Block): Promise<EntryBlock> {
    const frame = Buffer.allocUnsafeSlow(bytes);
    const read = await readAt(this.path, this.#file, frame, at);
    if (read < bytes || !digestOf(frame).equals(digest)) {
      throw new BaselineError(
        'damaged',
        this.path,
        `bytes ${at} to ${at + bytes} changed while it was being read`,
      );
    }
    const payload = frame.subarray(frameHeadBytes, frame.length - frameTailBytes);
    return new EntryBlock(payload, {
      decode: () => reading(this.path, at, () => decodeEntries(payload)),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
}

/**
 * Opens a baseline and verifies the whole file.
 *
 * @throws BaselineError if it is unusable; RampartError SYSTEM if it cannot be read, INPUT for an invalid key
 */
export async function openBaseline(path: string, key: VerifyingKey): Promise<Baseline> {
  const expectedKeyId = keyId(key);
  const file = await openBaselineFile(path);
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw new BaselineError('foreign', path, 'it is not a regular file');
    const { size } = stat;
    const contents = await verify(path, file, size, key, expectedKeyId);
    return new Baseline(path, file, size, contents);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function verify(
  path: string,
  file: FileHandle,
  sizeBytes: number,
  key: VerifyingKey,
  expectedKeyId: string,
): Promise<Contents> {
  const window = new Window(path, file);
  checkPreamble(path, await window.take(Math.min(preambleBytes, sizeBytes)));
  const digest = createHash('sha256').update(preamble());
  const blocks: Block[] = [];
  let header: unknown;
  let footer: unknown;
  let signature: Buffer | undefined;
  let at = preambleBytes;

  for (let index = 0; at < sizeBytes; index++) {
    const frame = await takeFrame(path, window, at, sizeBytes, index);
    const kind = frame[0];
    const payload = frame.subarray(frameHeadBytes, frame.length - frameTailBytes);
    if (kind === frameKinds.signature && footer !== undefined) {
      signature = Buffer.from(payload);
      at += frame.length;
      break;
    }
    const frameDigest = digestOf(frame);
    digest.update(frameDigest);
    if (kind === frameKinds.header && index === 0) header = parse(path, payload);
    else if (kind === frameKinds.entries && header !== undefined && footer === undefined) {
      blocks.push({ at, bytes: frame.length, digest: frameDigest, firstPath: firstPath(path, payload, at) });
    } else if (kind === frameKinds.footer && header !== undefined && footer === undefined)
      footer = parse(path, payload);
    else throw new BaselineError('damaged', path, `there is an unexpected block at byte ${at}`);
    at += frame.length;
  }
  if (header === undefined || footer === undefined)
    throw new BaselineError('truncated', path, `it ends after ${at} bytes`);
  if (signature === undefined || signature.length === 0) {
    throw new BaselineError('unsigned', path, 'it has no signature');
  }
  if (at < sizeBytes) {
    throw new BaselineError('damaged', path, `there is data after its signature, at byte ${at}`);
  }
  const sum = digest.digest();
  const checked = checkHeader(path, header);
  checkKeys(path, checked, key, expectedKeyId);
  if (!verifyDigest(sum, signature, key)) {
    throw new BaselineError('wrong signature', path, 'its signature does not match its content');
  }
  return { header: checked, counts: checkFooter(path, footer), digest: sum.toString('hex'), blocks };
}

function checkPreamble(path: string, start: Buffer): void {
  if (start.length === 0) throw new BaselineError('truncated', path, 'it is empty');
  if (!start.subarray(0, magic.length).equals(magic.subarray(0, start.length))) {
    throw new BaselineError('foreign', path, 'it is not a baseline of Rampart');
  }
  if (start.length < preambleBytes)
    throw new BaselineError('truncated', path, `it ends after ${start.length} bytes`);
  const version = start[magic.length];
  if (version !== formatVersion) {
    throw new BaselineError(
      'newer',
      path,
      `it has format ${version}; this version of Rampart supports format ${formatVersion}`,
    );
  }
}

function checkKeys(path: string, header: BaselineHeader, key: VerifyingKey, expectedKeyId: string): void {
  if (header.scheme !== key.scheme) {
    throw new BaselineError(
      'wrong signature',
      path,
      `it is signed with ${header.scheme}; expected ${key.scheme}`,
    );
  }
  if (header.keyId !== expectedKeyId) {
    throw new BaselineError(
      'wrong signature',
      path,
      `it is signed with key ${header.keyId}; expected ${expectedKeyId}`,
    );
  }
}

function checkHeader(path: string, value: unknown): BaselineHeader {
  const header = value as Partial<BaselineHeader> | null;
  if (
    typeof header?.rampartVersion === 'string' &&
    typeof header.madeAtMs === 'number' &&
    typeof header.configDigest === 'string' &&
    typeof header.about === 'object' &&
    typeof header.scheme === 'string' &&
    typeof header.keyId === 'string'
  ) {
    return header as BaselineHeader;
  }
  throw new BaselineError('damaged', path, 'its header is incomplete');
}

function checkFooter(path: string, value: unknown): BaselineCounts {
  const { entries, attributes, contentBytes = 0 } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof entries === 'number' && typeof attributes === 'number' && typeof contentBytes === 'number') {
    return { entries, attributes: setOfAideMask(attributes).set, contentBytes };
  }
  throw new BaselineError('damaged', path, 'its footer is incomplete');
}

function parse(path: string, payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch (error) {
    throw new BaselineError('damaged', path, 'its header or footer is not JSON', error);
  }
}

function firstPath(path: string, payload: Buffer, at: number): ByteString {
  return reading(path, at, () => firstPathOf(payload));
}

function reading<T>(path: string, at: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof MalformedBytes)) throw error;
    throw new BaselineError(
      'damaged',
      path,
      `the block at byte ${at} cannot be read: ${error.message}`,
      error,
    );
  }
}
