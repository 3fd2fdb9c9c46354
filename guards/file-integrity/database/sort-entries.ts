/**
 * Sorts entries by the bytes of their paths. AIDE walks its tree instead, where `/a/b` comes before `/a!`.
 *
 * Waiting entries are kept encoded, some 50 bytes for one with a sha256, rather than as objects.
 */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Batches } from '../model/batches.ts';
import type { Entry } from '../model/entry.ts';
import { decodeEntries, EntryEncoder } from './entry-codec.ts';

/** Number of entries that are sorted together as objects; they are then encoded in blocks. */
const runEntries = 32_768;
const blockBytes = 16 * 1024;

/**
 * The same entries, sorted. Yields nothing until all are read.
 *
 * @throws RampartError CORRUPT if a path occurs twice; the errors of `entries`; the reason of `signal`
 */
export async function* sortEntries(
  entries: Batches<Entry>,
  signal?: AbortSignal,
): AsyncGenerator<readonly Entry[], void, undefined> {
  const runs: Buffer[][] = [];
  let waiting: Entry[] = [];
  let sorted = true;
  for await (const batch of entries) {
    signal?.throwIfAborted();
    for (const entry of batch) {
      const last = waiting.at(-1);
      if (last !== undefined && last.path > entry.path) sorted = false;
      waiting.push(entry);
      if (waiting.length < runEntries) continue;
      runs.push(encodeRun(waiting, sorted));
      waiting = [];
      sorted = true;
    }
  }
  if (waiting.length > 0) runs.push(encodeRun(waiting, sorted));
  waiting = [];
  yield* merge(runs, signal);
}

function encodeRun(entries: Entry[], sorted: boolean): Buffer[] {
  if (!sorted) entries.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const blocks: Buffer[] = [];
  const encoder = new EntryEncoder();
  for (const entry of entries) {
    encoder.add(entry);
    if (encoder.sizeBytes >= blockBytes) blocks.push(Buffer.from(encoder.take()));
  }
  if (encoder.count > 0) blocks.push(Buffer.from(encoder.take()));
  return blocks.reverse();
}

/** Reads a sorted run: its blocks are released as they are consumed. */
class RunReader {
  readonly #blocks: Buffer[];
  #entries: Entry[] = [];
  #at = 0;
  current: Entry | undefined;

  constructor(blocks: Buffer[]) {
    this.#blocks = blocks;
    this.advance();
  }

  advance(): void {
    if (this.#at >= this.#entries.length) {
      const block = this.#blocks.pop();
      this.#entries = block === undefined ? [] : decodeEntries(block);
      this.#at = 0;
    }
    this.current = this.#entries[this.#at++];
  }
}

function* merge(runs: Buffer[][], signal: AbortSignal | undefined): Generator<Entry[]> {
  // Sorted by their current paths, the first one last, so that removing it does not move the others. There are few
  // runs.
  const readers = runs.map((blocks) => new RunReader(blocks));
  readers.sort((a, b) => (before(a, b) ? 1 : -1));
  let batch: Entry[] = [];
  let last: string | undefined;
  while (readers.length > 0) {
    const first = readers.pop();
    const entry = first?.current;
    if (first === undefined || entry === undefined) continue;
    if (entry.path === last) throw twice(entry.path);
    last = entry.path;
    batch.push(entry);
    if (batch.length >= 1000) {
      signal?.throwIfAborted();
      yield batch;
      batch = [];
    }
    first.advance();
    if (first.current === undefined) continue;
    let at = readers.length;
    for (let other = readers[at - 1]; other !== undefined && before(other, first); other = readers[at - 1]) {
      readers[at] = other;
      at--;
    }
    readers[at] = first;
  }
  if (batch.length > 0) yield batch;
}

function before(a: RunReader, b: RunReader): boolean {
  return (a.current?.path ?? '') < (b.current?.path ?? '');
}

function twice(path: string): RampartError {
  return new RampartError(errorCodes.CORRUPT, {
    what: 'cannot read a database',
    why: `it contains ${JSON.stringify(path)} twice`,
    next: 'Recreate it',
  });
}
