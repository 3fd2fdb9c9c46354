/** Reads the objects of a store whose process is not running. */
import { DatabaseSync } from 'node:sqlite';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { withStorageErrors } from '../../sqlite/failure.ts';
import { Reader } from './reader.ts';
import { migrations } from './schema.ts';

const PORTION = 500;

/** Writes nothing, and does not block a process that opens the store meanwhile. */
export class StoredObjects implements Disposable {
  readonly #database: DatabaseSync;
  readonly #reader: Reader;

  /** @throws {RampartError} `SYSTEM` if the store does not exist, `UNSUPPORTED` if it is of another release. */
  constructor(path: string) {
    const what = `cannot read the store ${path}`;
    this.#database = withStorageErrors(
      what,
      () => new DatabaseSync(path, { readOnly: true, timeout: 10_000 }),
    );
    try {
      this.#reader = withStorageErrors(what, () => {
        const { user_version: format } = this.#database.prepare('PRAGMA user_version').get() as {
          user_version: number;
        };
        if (format === migrations.length) return new Reader(this.#database, path);
        throw new RampartError(errorCodes.UNSUPPORTED, {
          what,
          why: `its format is ${format}; this release reads format ${migrations.length}`,
        });
      });
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  /** The JSON of each object. @param resource - `pods`, `deployments.apps`. */
  *texts(resource: string, namespace?: string): Generator<string, void> {
    let after = { namespace: namespace ?? '', name: '' };
    for (;;) {
      const request = { resource, namespace, after, limit: PORTION, version: undefined };
      const { items, last } = this.#reader.portion(request);
      for (const { text } of items) yield text;
      if (last === undefined) return;
      after = { namespace: last.namespace, name: last.name };
    }
  }

  get(resource: string, namespace: string, name: string): string | undefined {
    return this.#reader.get({ resource, namespace, name })?.text;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}
