/**
 * Reads from the database. Each call sees a single, committed state: a commit becomes visible to other connections only
 * when it is on the disk (wal.c, sqlite3WalFrames: the log is synced before the wal-index is written).
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';

import { withStorageErrors } from '../../sqlite/failure.ts';
import { columns, ListStatements, type Row, rowStatement } from './list-statements.ts';
import type { ObjectKey, Revision, StoredObject } from './object.ts';

interface Page {
  readonly items: readonly StoredObject[];
  readonly version: bigint;
  /** Number of objects after the last item, at that version. */
  readonly remaining: number;
}

/** A part of a list, without the number of the remaining objects. */
interface Portion {
  readonly items: readonly StoredObject[];
  readonly version: bigint;
  /** The last object, if the portion is full; `undefined` if there are no more objects. */
  readonly last: { readonly namespace: string; readonly name: string } | undefined;
}

/** The texts of a part of a list. */
interface TextPage {
  /** JSON texts in UTF-8, each with a comma before it; `undefined` if there are no objects. */
  readonly bytes: Uint8Array | undefined;
  readonly count: number;
  readonly version: bigint;
  /** The last object, if the page is full; `undefined` if there are no more objects. */
  readonly last: { readonly namespace: string; readonly name: string } | undefined;
}

export interface PageRequest {
  readonly resource: string;
  readonly namespace: string | undefined;
  /** Only objects after this key. Names are never empty, so a key with an empty name comes before all others of its namespace. */
  readonly after: { readonly namespace: string; readonly name: string };
  /** Limit of objects; `undefined` for all. */
  readonly limit: number | undefined;
  /** The version to read; `undefined` for the newest. The caller has checked that it is not compacted. */
  readonly version: bigint | undefined;
}

/** A page of changes ends when it has this much text, in UTF-16 units. */
const changesSize = 4 * 1024 * 1024;

/** Reads from a database, which the caller closes. */
export class Reader {
  readonly #database: DatabaseSync;
  readonly #where: string;
  readonly #get: StatementSync;
  readonly #revision: StatementSync;
  readonly #changes: StatementSync;
  readonly #changesInNamespace: StatementSync;
  readonly #state: StatementSync;
  readonly #lists: Readonly<Record<'newest' | 'earlier', Record<'all' | 'namespace', ListStatements>>>;

  /** @param path of the database, for messages. */
  constructor(database: DatabaseSync, path: string) {
    this.#database = database;
    this.#where = `from the store ${path}`;
    this.#get = rowStatement(
      database,
      `SELECT ${columns} FROM objects o JOIN revisions r ON r.version = o.version
       WHERE o.resource = ? AND o.namespace = ? AND o.name = ?`,
    );
    this.#revision = rowStatement(database, `SELECT ${columns} FROM revisions r WHERE r.version = ?`);
    const changes = (condition: string): StatementSync =>
      rowStatement(
        database,
        `SELECT ${columns} FROM revisions r WHERE r.resource = ?1 AND r.version > ?2 AND r.version <= ?3
         ${condition} ORDER BY r.version LIMIT ?4`,
      );
    this.#changes = changes('');
    this.#changesInNamespace = changes('AND r.namespace = ?5');
    this.#state = database.prepare('SELECT version, compacted FROM store');
    this.#state.setReadBigInts(true);
    const statements = (kind: 'newest' | 'earlier') => ({
      all: new ListStatements(database, kind, 'all'),
      namespace: new ListStatements(database, kind, 'namespace'),
    });
    this.#lists = { newest: statements('newest'), earlier: statements('earlier') };
  }

  /** The version of the newest committed write, and up to where the history is compacted. */
  state(): { readonly version: bigint; readonly compacted: bigint } {
    return this.#reading(() => this.#state.get() as { version: bigint; compacted: bigint });
  }

  get({ resource, namespace, name }: ObjectKey): StoredObject | undefined {
    return this.#reading(() => {
      const row = this.#get.get(resource, namespace, name) as unknown as Row | undefined;
      return row === undefined ? undefined : revision(row).object;
    });
  }

  /** The revision with this version; `undefined` if it is no longer kept. */
  revision(version: bigint): Revision | undefined {
    return this.#reading(() => {
      const row = this.#revision.get(version) as unknown as Row | undefined;
      return row === undefined ? undefined : revision(row);
    });
  }

  /**
   * Changes of a resource after one version and up to another, oldest first: at most `limit`, and about `changesSize` of
   * text. They are complete up to the returned version.
   */
  changes(
    filter: { readonly resource: string; readonly namespace: string | undefined },
    after: bigint,
    upTo: bigint,
    limit: number,
  ): { readonly revisions: readonly Revision[]; readonly upTo: bigint } {
    const { resource, namespace } = filter;
    return this.#reading(() => {
      const rows =
        namespace === undefined
          ? this.#changes.iterate(resource, after, upTo, limit)
          : this.#changesInNamespace.iterate(resource, after, upTo, limit, namespace);
      const revisions: Revision[] = [];
      let size = 0;
      for (const row of rows as Iterable<unknown> as Iterable<Row>) {
        const read = revision(row);
        revisions.push(read);
        size += read.object?.text.length ?? 0;
        if (revisions.length === limit || size > changesSize) return { revisions, upTo: read.version };
      }
      return { revisions, upTo };
    });
  }

  page({ limit, ...request }: PageRequest): Page {
    return this.#listing(request, (statements, range, version) => {
      // One extra row shows whether there are more. In SQL, a negative limit means no limit.
      const rows = statements.rows({ ...range, limit: limit === undefined ? -1 : limit + 1 });
      const more = limit !== undefined && rows.length > limit;
      const items = (more ? rows.slice(0, limit) : rows).flatMap((row) => revision(row).object ?? []);
      const last = items.at(-1);
      const remaining =
        more && last !== undefined
          ? statements.count({ ...range, afterNamespace: last.namespace, afterName: last.name })
          : 0;
      return { items, version, remaining };
    });
  }

  /** A page without the number of the remaining objects, for which all their keys would have to be read. */
  portion({ limit, ...request }: PageRequest & { readonly limit: number }): Portion {
    return this.#listing(request, (statements, range, version) => {
      const items = statements.rows({ ...range, limit }).flatMap((row) => revision(row).object ?? []);
      return { items, version, last: items.length === limit ? items.at(-1) : undefined };
    });
  }

  /** Only the texts of a page's objects, which takes half the work. */
  texts({
    limit,
    head,
    ...request
  }: PageRequest & { readonly limit: number; readonly head: string }): TextPage {
    return this.#listing(request, (statements, range, version) => ({
      ...statements.texts({ ...range, limit, head }),
      last: statements.lastOf({ ...range, limit }),
      version,
    }));
  }

  #listing<T>(
    { resource, namespace, after, version }: Omit<PageRequest, 'limit'>,
    work: (statements: ListStatements, range: Record<string, SQLInputValue>, version: bigint) => T,
  ): T {
    return this.#reading(() => {
      // In one transaction, so that the version and all rows are from one state even while the other thread writes.
      this.#database.exec('BEGIN');
      try {
        const current = (this.#state.get() as { version: bigint }).version;
        const kind = version === undefined || version === current ? 'newest' : 'earlier';
        const statements = this.#lists[kind][namespace === undefined ? 'all' : 'namespace'];
        const range = {
          resource,
          namespace: namespace ?? null,
          version: version ?? current,
          afterNamespace: after.namespace,
          afterName: after.name,
        };
        return work(statements, range, version ?? current);
      } finally {
        this.#database.exec('COMMIT');
      }
    });
  }

  #reading<T>(work: () => T): T {
    return withStorageErrors(`cannot read ${this.#where}`, work);
  }
}

function revision([version, previous, resource, namespace, name, uid, versionAt, text]: Row): Revision {
  const key = { resource, namespace, name };
  const object =
    text === null ? undefined : { ...key, uid, resourceVersion: version, text, versionAt: Number(versionAt) };
  return { ...key, version, previous, uid, object };
}
