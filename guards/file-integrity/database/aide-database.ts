/**
 * Reads a database of AIDE, 0.16 to 0.19, plain or gzip.
 *
 * For an empty or truncated database, AIDE reports that everything was added. Here this is an error with its line.
 */
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { errorCodes, fileError, RampartError } from '../../../lib/errors/errors.ts';
import { emptyDraft, type Draft, type Entry } from '../model/entry.ts';
import { attributesOfColumns, readerOfColumn } from './aide-columns.ts';

/** Longer than any line of AIDE, which has at most 64 KiB of extended attributes in base64, a long name and a link target. */
const longestLine = 1 << 20;
/** Limit of columns; AIDE has some 40. */
const maxColumns = 256;

/**
 * Yields the entries in the order of the file, which is that of AIDE's tree; `sortEntries` sorts them by path. The file
 * is read on demand, so an incomplete file is detected only at its end. `onColumns` is called with the columns before
 * the first entry. Refused checksums are not read, so an entry may have no checksum.
 *
 * @throws RampartError NOT_FOUND, CORRUPT (with the line), SYSTEM
 */
export async function* readAideDatabase(
  path: string,
  options: { readonly signal?: AbortSignal; readonly onColumns?: (names: readonly string[]) => void } = {},
): AsyncGenerator<readonly Entry[], void, undefined> {
  const parser = new AideParser(path, options.onColumns);
  let rest = '';
  for await (const chunk of openText(path, options.signal)) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > longestLine) throw parser.fault('the line is too long');
    const batch: Entry[] = [];
    for (const line of lines) {
      const entry = parser.line(line);
      if (entry !== undefined) batch.push(entry);
    }
    if (batch.length > 0) yield batch;
  }
  if (rest !== '') {
    const entry = parser.line(rest);
    if (entry !== undefined) yield [entry];
  }
  parser.end();
}

async function* openText(
  path: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, void, undefined> {
  const file = createReadStream(path, { highWaterMark: 256 * 1024, ...(signal !== undefined && { signal }) });
  let unpacked: Readable | undefined;
  let packing: Promise<void> | undefined;
  try {
    const chunks = file[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>;
    const first = await chunks.next();
    if (first.done === true) return;
    if (first.value[0] !== 0x1f || first.value[1] !== 0x8b) {
      yield first.value.toString('latin1');
      for await (const chunk of chunks) yield chunk.toString('latin1');
      return;
    }
    const gunzip = createGunzip();
    unpacked = gunzip;
    const head = first.value;
    packing = pipeline(async function* () {
      yield head;
      yield* chunks;
    }, gunzip);
    // Prevents an unhandled rejection: the stream reports the error first, and `packing` is awaited below.
    packing.catch(() => undefined);
    for await (const chunk of gunzip as AsyncIterable<Buffer>) yield chunk.toString('latin1');
    await packing;
  } catch (error) {
    signal?.throwIfAborted();
    throw readFault(path, error);
  } finally {
    unpacked?.destroy();
    file.destroy();
  }
}

function readFault(path: string, error: unknown): unknown {
  if (error instanceof RampartError || !(error instanceof Error) || !('code' in error)) return error;
  const { code } = error;
  const what = `the AIDE database ${path} cannot be read`;
  if (code === 'ENOENT') {
    return new RampartError(errorCodes.NOT_FOUND, {
      what,
      why: 'it does not exist',
      next: 'Run aide --init, or give the path of database_out',
      cause: error,
    });
  }
  if (typeof code === 'string' && code.startsWith('Z_')) {
    return damaged(path, `its gzip data is damaged or truncated (${error.message})`, error);
  }
  return fileError(what, error, 'Changes are unknown until it can be read');
}

function damaged(path: string, why: string, cause?: unknown): RampartError {
  return new RampartError(errorCodes.CORRUPT, {
    what: `the AIDE database ${path} cannot be used`,
    why,
    next: 'Restore a backup, or recreate it with aide --init once you trust the state of the node',
    cause,
  });
}

interface Column {
  readonly name: string;
  /** Undefined if the column is ignored. */
  readonly read: ReturnType<typeof readerOfColumn>;
}

/** Parses the lines of a database, in order. */
class AideParser {
  readonly #path: string;
  #line = 0;
  #started = false;
  #ended = false;
  #columns: readonly Column[] | undefined;
  #template: Draft = emptyDraft;

  readonly #onColumns: ((names: readonly string[]) => void) | undefined;

  constructor(path: string, onColumns: ((names: readonly string[]) => void) | undefined) {
    this.#path = path;
    this.#onColumns = onColumns;
  }

  line(text: string): Entry | undefined {
    this.#line++;
    const line = text.trimEnd();
    if (line === '' || (line.startsWith('#') && !line.startsWith('#/'))) return undefined;
    if (this.#ended) throw this.fault('there is data after @@end_db');
    if (line.startsWith('@@')) return this.#directive(line);
    if (this.#columns === undefined) throw this.fault('an entry comes before @@db_spec');
    return this.#entry(line, this.#columns);
  }

  /** @throws RampartError CORRUPT if the database is incomplete */
  end(): void {
    if (this.#line === 0) throw damaged(this.#path, 'it is empty');
    if (this.#columns === undefined) throw this.fault('it ends without a @@db_spec');
    if (!this.#ended) throw this.fault('it ends without @@end_db: it was truncated');
  }

  fault(why: string): RampartError {
    return damaged(this.#path, `line ${this.#line}: ${why}`);
  }

  #directive(line: string): undefined {
    const [directive = '', ...names] = line.split(/\s+/);
    switch (directive) {
      case '@@begin_db':
        if (this.#started) throw this.fault('there is a second @@begin_db');
        this.#started = true;
        return;
      case '@@db_spec':
        if (!this.#started) throw this.fault('@@db_spec comes before @@begin_db');
        if (this.#columns !== undefined) throw this.fault('there is a second @@db_spec');
        this.#spec(names);
        return;
      case '@@end_db':
        if (this.#columns === undefined) throw this.fault('@@end_db comes before @@db_spec');
        this.#ended = true;
        return;
      default:
        throw this.fault(`${directive} is unknown`);
    }
  }

  #spec(names: readonly string[]): void {
    if (names.length > maxColumns) throw this.fault(`@@db_spec names more than ${maxColumns} columns`);
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined) throw this.fault(`@@db_spec names ${twice} twice`);
    if (!names.includes('name')) throw this.fault('@@db_spec does not contain name');
    this.#onColumns?.(names);
    this.#columns = names.map((name) => ({ name, read: readerOfColumn(name) }));
    if (!names.includes('attr')) this.#template = { ...emptyDraft, attributes: attributesOfColumns(names) };
  }

  #entry(line: string, columns: readonly Column[]): Entry {
    const fields = line.split(' ');
    if (fields.length !== columns.length) {
      throw this.fault(
        `it has ${fields.length} fields, but @@db_spec names ${columns.length}: it was truncated or changed`,
      );
    }
    const draft: Draft = { ...this.#template };
    for (const [at, { name, read }] of columns.entries()) {
      const field = fields[at] ?? '';
      if (read !== undefined && (field === '' || !read(field, draft))) {
        throw this.fault(`its ${name} is invalid: ${JSON.stringify(field.slice(0, 100))}`);
      }
    }
    return draft;
  }
}
