/** Reads and writes AIDE's databases as rows: the bytes of a row, including unknown columns, are unchanged. */
import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { decodeName } from '../database/aide-text.ts';
import type { ByteString } from '../model/entry.ts';

interface Rows {
  readonly columns: string;
  readonly rows: readonly Row[];
}
interface Row {
  readonly path: ByteString;
  readonly text: string;
}

/**
 * Yields the rows in the order of the file, in batches.
 *
 * Checks that the database is complete: AIDE exits with 0 even if the disk was full, and reads a truncated database
 * without an error.
 *
 * @throws {RampartError} CORRUPT if it is incomplete
 */
async function* readRows(path: string, signal: AbortSignal): AsyncGenerator<Rows, void, undefined> {
  let columns: string | undefined;
  let nameAt = -1;
  let ended = false;
  let rest = '';
  const file = createReadStream(path, { signal });
  const text = createGunzip();
  const packing = pipeline(file, text);
  packing.catch(() => undefined);
  try {
    for await (const chunk of text as AsyncIterable<Buffer>) {
      const lines = (rest + chunk.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      const rows: Row[] = [];
      for (const line of lines) {
        if (line.startsWith('@@db_spec ')) {
          columns = line.slice('@@db_spec '.length).trim();
          nameAt = columns.split(' ').indexOf('name');
        } else if (line === '@@end_db') ended = true;
        else if (line.startsWith('/')) {
          if (nameAt !== 0) throw notWhole(path, 'its rows do not start with their names');
          const end = line.indexOf(' ');
          rows.push({ path: decodeName(end === -1 ? line : line.slice(0, end)), text: line });
        }
      }
      if (columns !== undefined) yield { columns, rows };
    }
    await packing;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof RampartError) throw error;
    throw notWhole(path, messageOf(error), error);
  } finally {
    text.destroy();
    file.destroy();
  }
  if (!ended) throw notWhole(path, 'it ends without @@end_db');
}

function notWhole(path: string, why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.CORRUPT, {
    what: `the database ${path} is incomplete`,
    why,
    next: 'Check whether its disk is full',
    ...(cause !== undefined && { cause }),
  });
}

/**
 * The parent directories of all entries, and the entries that are directories themselves. @throws {RampartError}
 * CORRUPT if it is incomplete
 */
export async function directoriesIn(path: string, signal: AbortSignal): Promise<Set<ByteString>> {
  const found = new Set<ByteString>();
  for await (const { columns, rows } of readRows(path, signal)) {
    const modeAt = columns.split(' ').indexOf('perm');
    for (const row of rows) {
      if (row.path !== '/') found.add(row.path.slice(0, Math.max(1, row.path.lastIndexOf('/'))));
      // Each row has the whole mode, whichever attributes are selected.
      if (/^4\d{4}$/.test(row.text.split(' ', modeAt + 1)[modeAt] ?? '')) found.add(row.path);
    }
  }
  return found;
}

/** Number of entries. @throws {RampartError} CORRUPT if it is incomplete */
export async function countRows(path: string, signal: AbortSignal): Promise<number> {
  let count = 0;
  for await (const { rows } of readRows(path, signal)) count += rows.length;
  return count;
}

export interface Merge {
  readonly old: string;
  /** Database with the current entries of `paths`, and perhaps of other paths. */
  readonly now: string;
  /** Database to create; its rows need not be in AIDE's order. */
  readonly into: string;
  readonly paths: ReadonlySet<ByteString>;
  readonly signal: AbortSignal;
}

/**
 * Writes `old` with the entries of `paths` taken from `now`; all other rows stay.
 *
 * @returns the number of rows in the result
 * @throws {RampartError} CORRUPT; UNSUPPORTED if AIDE has other columns now
 */
export async function mergeRows({ old, now, into, paths, signal }: Merge): Promise<number> {
  const fresh = new Map<ByteString, string>();
  let freshColumns: string | undefined;
  for await (const { columns, rows } of readRows(now, signal)) {
    freshColumns = columns;
    for (const { path, text } of rows) if (paths.has(path)) fresh.set(path, text);
  }
  let count = fresh.size;
  async function* merged(): AsyncGenerator<string, void, undefined> {
    let started = false;
    for await (const { columns, rows } of readRows(old, signal)) {
      if (!started) {
        started = true;
        if (freshColumns !== columns && fresh.size > 0) throw otherColumns(columns, freshColumns);
        yield `@@begin_db\n@@db_spec ${columns} \n`;
      }
      const kept = rows.filter(({ path }) => !paths.has(path));
      count += kept.length;
      if (kept.length > 0) yield kept.map(({ text }) => `${text}\n`).join('');
    }
    let batch = '';
    for (const text of fresh.values()) {
      batch += `${text}\n`;
      if (batch.length < 65_536) continue;
      yield batch;
      batch = '';
    }
    yield `${batch}@@end_db\n`;
  }
  const bytes = async function* (): AsyncGenerator<Buffer, void, undefined> {
    for await (const text of merged()) yield Buffer.from(text, 'latin1');
  };
  await pipeline(bytes, createGzip(), createWriteStream(into, { mode: 0o600, flags: 'wx' }), { signal });
  return count;
}

function otherColumns(before: string, now: string | undefined): RampartError {
  return new RampartError(errorCodes.UNSUPPORTED, {
    what: 'the findings cannot be accepted into the baseline',
    why: `AIDE now records other attributes (${now ?? 'none'}) than when the baseline was created (${before})`,
    next: 'Initialize again',
  });
}
