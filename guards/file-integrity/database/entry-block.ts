/** Entries as bytes, which most who hand them on need not look into. */
import type { Batch, Batches, PackedBatch } from '../model/batches.ts';
import type { ByteString, Entry, ScanProblem } from '../model/entry.ts';
import { emptyBaseline } from './baseline-error.ts';
import { type BlockFacts, contentBytesOf, decodeEntries, firstPathOf } from './entry-codec.ts';

/** A block as it is sent from one thread to another. */
export interface EncodedBlock extends BlockFacts {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** At least one entry, in the order of their paths' bytes. */
export class EntryBlock implements PackedBatch<Entry> {
  readonly bytes: Buffer;
  readonly #decode: () => readonly Entry[];
  #facts: BlockFacts | undefined;
  #entries: readonly Entry[] | undefined;

  /**
   * @param bytes from EntryEncoder, not modified
   * @param known parts that need no decoding, with the errors of another decoder
   */
  constructor(
    bytes: Uint8Array,
    known: { readonly facts?: BlockFacts; readonly decode?: () => readonly Entry[] } = {},
  ) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#facts = known.facts;
    this.#decode = known.decode ?? ((): readonly Entry[] => decodeEntries(this.bytes));
  }

  /** @throws MalformedBytes */
  get length(): number {
    return this.facts.count;
  }

  /** @throws MalformedBytes */
  get facts(): BlockFacts {
    return (this.#facts ??= factsOf(this.unpack()));
  }

  /** @throws MalformedBytes */
  get firstPath(): ByteString {
    return firstPathOf(this.bytes);
  }

  /** Checksums and values of the entries are views of the bytes. @throws MalformedBytes */
  unpack(): readonly Entry[] {
    return (this.#entries ??= this.#decode());
  }

  [Symbol.iterator](): Iterator<Entry> {
    return this.unpack()[Symbol.iterator]();
  }

  /** Whether both have the same entries in the same bytes. */
  equals(other: EntryBlock): boolean {
    return this.bytes.equals(other.bytes);
  }
}

function factsOf(entries: readonly Entry[]): BlockFacts {
  let [attributes, contentBytes] = [0, 0];
  for (const entry of entries) {
    attributes |= entry.attributes;
    contentBytes += contentBytesOf(entry);
  }
  return { count: entries.length, attributes, contentBytes, lastPath: entries.at(-1)?.path ?? '' };
}

/**
 * The entries of a scan, without its problems.
 *
 * @throws {RampartError} `INPUT` without any; the errors of `batches`
 */
export async function* onlyEntries(
  batches: Batches<Entry | ScanProblem>,
  onProblem: (problem: ScanProblem) => void,
): AsyncGenerator<Batch<Entry>, void, undefined> {
  let [isEmpty, problems] = [true, 0];
  for await (const batch of batches) {
    if (batch instanceof EntryBlock) {
      isEmpty = false;
      yield batch;
      continue;
    }
    const entries: Entry[] = [];
    for (const item of batch) {
      if ('code' in item) {
        problems++;
        onProblem(item);
      } else entries.push(item);
    }
    if (entries.length > 0) isEmpty = false;
    yield entries;
  }
  if (isEmpty) throw emptyBaseline(problems);
}

/** The index of the last one that does not come after `path`; -1 if all do. */
export function lastNotAfter<T>(
  sorted: readonly T[],
  path: ByteString,
  pathOf: (one: T) => ByteString,
): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (pathOf(sorted[middle] as T) <= path) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
