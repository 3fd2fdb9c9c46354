/**
 * Writes a database that AIDE 0.16 to 0.19 reads, for those who go on with AIDE.
 *
 * @module
 */
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { AttributeSet } from '../attributes.ts';
import { type Batches, unpack } from '../batches.ts';
import type { Entry } from '../entry.ts';
import { aideColumns } from './aide-columns.ts';
import type { AideColumn } from './aide-columns.ts';
import { replaceFile } from './replace-file.ts';

export interface WriteAideDatabaseOptions {
  readonly path: string;
  readonly entries: Batches<Entry>;
  /** All attributes that an entry may have: they make the columns. */
  readonly attributes: AttributeSet;
  readonly gzip?: boolean;
  /** Lines of comments at the top, without their `#`. */
  readonly comments?: readonly string[];
  readonly signal?: AbortSignal;
}

/**
 * Puts it in the place of what is there, at once and whole, as `replaceFile` does.
 *
 * @throws RampartError FULL, SYSTEM; what `entries` throws; the reason of `signal`
 */
export async function writeAideDatabase(options: WriteAideDatabaseOptions): Promise<{ entries: number }> {
  const { path, entries, attributes, gzip = false, comments = [], signal } = options;
  const columns = aideColumns.filter(({ neededFor }) => (neededFor & attributes) !== 0 || neededFor === -1);
  let count = 0;
  async function* text(): AsyncGenerator<Buffer, void, undefined> {
    const notes = comments.flatMap((comment) => comment.split('\n')).map((line) => `# ${line}\n`);
    const names = columns.map(({ name }) => name).join(' ');
    yield Buffer.from(`@@begin_db\n${notes.join('')}@@db_spec ${names} \n`);
    for await (const batch of entries) {
      signal?.throwIfAborted();
      const rows = unpack(batch);
      count += rows.length;
      yield Buffer.from(rows.map((entry) => rowOf(entry, columns)).join(''), 'latin1');
    }
    yield Buffer.from('@@end_db\n');
  }
  await replaceFile(path, async (file) => {
    const write = async (parts: AsyncIterable<Buffer>): Promise<void> => {
      for await (const part of parts) await file.writeFile(part);
    };
    if (gzip) await pipeline(text, createGzip(), write);
    else await write(text());
  });
  return { entries: count };
}

function rowOf(entry: Entry, columns: readonly AideColumn[]): string {
  const fields = columns.map((column) =>
    column.neededFor === -1 || (column.neededFor & entry.attributes) !== 0 ? column.write(entry) : '0',
  );
  return `${fields.join(' ')}\n`;
}
