/** Encoded entries: most code only passes them on and need not decode them. */
import type { Batch, Batches, PackedBatch } from '../model/batches.ts';
import type { ByteString, Entry, ScanProblem } from '../model/entry.ts';
import { emptyBaseline } from './baseline-error.ts';
import { type BlockFacts, contentBytesOf, decodeEntries, firstPathOf } from './entry-codec.ts';

/** A block as threads send it to each other. */
export interface EncodedBlock extends BlockFacts {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** One or more entries, sorted by the bytes of their paths. */
export class EntryBlock implements PackedBatch<Entry> {
  readonly bytes: Buffer;
  readonly #decode: () => readonly Entry[];
  #facts: BlockFacts | undefined;
  #entries: readonly Entry[] | undefined;

  /**
   * @param bytes from EntryEncoder; must not be modified
   * @param known `facts` if they need not be computed by decoding; `decode` to use another decoder, with its own errors
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

  /** Decodes the entries, once. Their checksums and attribute values are views of the bytes. @throws MalformedBytes */
  unpack(): readonly Entry[] {
    return (this.#entries ??= this.#decode());
  }

  [Symbol.iterator](): Iterator<Entry> {
    return this.unpack()[Symbol.iterator]();
  }

  /** Whether both have the same bytes, and so the same entries. */
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
 * The entries of a scan; its problems are passed to `onProblem`.
 *
 * @throws {RampartError} `INPUT` if there is no entry; the errors of `batches`
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

/** The index of the last item that does not sort after `path`; -1 if all do. */
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
