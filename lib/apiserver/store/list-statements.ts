/** SQL statements for lists of the newest or an earlier state, in one or all namespaces. */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';

export type Row = readonly [
  version: bigint,
  previous: bigint,
  resource: string,
  namespace: string,
  name: string,
  uid: string,
  versionAt: bigint,
  text: string | null,
];

export const columns = 'r.version, r.previous, r.resource, r.namespace, r.name, r.uid, r.version_at, r.text';

/** The sort order of etcd: `a-b/x` comes before `a/x`. SQLite uses the index in `schema.ts` only if both have the same expression. */
const inAll = (table: string): string =>
  `${table}.resource = :resource AND ${table}.namespace || '/' || ${table}.name > :afterNamespace || '/' || :afterName`;
const inNamespace = (table: string): string =>
  `${table}.resource = :resource AND ${table}.namespace = :namespace AND ${table}.name > :afterName`;

/** The keys and versions of a list at the newest version. */
const newest = (range: (table: string) => string): string =>
  `SELECT o.namespace || '/' || o.name AS key, o.namespace, o.name, o.version FROM objects o WHERE ${range('o')}`;

/** The keys and versions of a list at an earlier version, as explained in `schema.ts`. */
const earlier = (range: (table: string) => string): string =>
  `${newest(range)} AND o.version <= :version
   UNION ALL
   SELECT c.namespace || '/' || c.name, c.namespace, c.name, c.previous FROM revisions c
   WHERE ${range('c')} AND c.version > :version AND c.previous BETWEEN 1 AND :version`;

type Parameters = Record<string, SQLInputValue>;

/** The statements for one kind of list. Each uses only some of the parameters. */
export class ListStatements {
  readonly #database: DatabaseSync;
  readonly #keys: string;
  readonly #rows: StatementSync;
  readonly #count: StatementSync;
  #texts: StatementSync | undefined;
  #last: StatementSync | undefined;

  constructor(database: DatabaseSync, kind: 'newest' | 'earlier', where: 'all' | 'namespace') {
    this.#database = database;
    this.#keys = (kind === 'newest' ? newest : earlier)(where === 'all' ? inAll : inNamespace);
    // The inner query selects the keys of the page, so that texts of other pages are neither read nor sorted.
    this.#rows = this.#statement(
      `SELECT ${columns} FROM (${this.#keys} ORDER BY 1 LIMIT :limit) k JOIN revisions r ON r.version = k.version
       ORDER BY k.key`,
    );
    this.#rows.setReadBigInts(true);
    this.#count = this.#statement(`SELECT count(*) FROM (${this.#keys})`);
  }

  rows(parameters: Parameters): readonly Row[] {
    return this.#rows.all(parameters) as unknown as Row[];
  }

  count(parameters: Parameters): number {
    const [count] = this.#count.get(parameters) as unknown as [number];
    return count;
  }

  /** The texts of a page, each with a comma before it and without `head`, except for its brace. The limit has to be above 0. */
  texts(parameters: Parameters & { readonly head: string }): {
    readonly bytes: Uint8Array | undefined;
    readonly count: number;
  } {
    this.#texts ??= this.#statement(
      `SELECT CAST(group_concat(',' || iif(
           :head <> '' AND substr(text, 1, length(:head)) = :head, '{' || substr(text, length(:head) + 1), text
         ), '') AS BLOB), count(*) FROM (
         SELECT r.text FROM (${this.#keys} ORDER BY 1 LIMIT :limit) k JOIN revisions r ON r.version = k.version
         ORDER BY k.key)`,
    );
    const [bytes, count] = this.#texts.get(parameters) as unknown as [Uint8Array | null, number];
    return { bytes: bytes ?? undefined, count };
  }

  /** The last key of a page; `undefined` if the page is not full. */
  lastOf(parameters: Parameters): { readonly namespace: string; readonly name: string } | undefined {
    this.#last ??= this.#statement(
      `SELECT namespace, name FROM (${this.#keys} ORDER BY 1 LIMIT 1 OFFSET :limit - 1)`,
    );
    const row = this.#last.get(parameters) as unknown as [string, string] | undefined;
    return row === undefined ? undefined : { namespace: row[0], name: row[1] };
  }

  #statement(sql: string): StatementSync {
    const statement = this.#database.prepare(sql);
    statement.setReturnArrays(true);
    statement.setAllowUnknownNamedParameters(true);
    return statement;
  }
}

export function rowStatement(database: DatabaseSync, sql: string): StatementSync {
  const statement = database.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  return statement;
}
