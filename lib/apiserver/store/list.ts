import { errorCodes, RampartError } from '../../errors/errors.ts';
import { decodeToken, encodeToken } from './continue-token.ts';
import { ExpiredError, FutureVersionError, MalformedTokenError } from './errors.ts';
import type { ObjectKey, StoredObject } from './object.ts';
import type { PageRequest, Reader } from './reader.ts';

export interface ListOptions {
  /** `undefined` for all namespaces. */
  readonly namespace?: string | undefined;
  /** Limit of objects; `undefined` or 0 for all. */
  readonly limit?: number | undefined;
  /** The `continue` of the previous page; resource and namespace have to be the same. */
  readonly continue?: string | undefined;
  /** The state at exactly this version; `undefined` for the newest. Not together with `continue`. */
  readonly version?: bigint | undefined;
}

export interface List {
  /** Sorted by `namespace/name` as UTF-8 bytes, like keys in etcd. */
  readonly items: readonly StoredObject[];
  /** The version of the list: all items are from it, and a watch from it misses nothing. */
  readonly version: bigint;
  /** Token for the next page; `undefined` on the last one. */
  readonly continue: string | undefined;
  /** Number of objects on the pages after this one. */
  readonly remaining: number;
  /** A token to continue after an item, for a caller that filters items and so stops before the end of the page. */
  continueAfter(item: ObjectKey): string;
}

/** A list that is read in portions, so that the whole list need not be in memory. */
export interface PortionedList {
  /** The version of the list: all objects are from it. */
  readonly version: bigint;
  /**
   * The objects, sorted by `namespace/name`, in portions of about half a MiB of text. Each is read on demand, so the caller
   * may wait before the next. Can be iterated only once.
   *
   * Reading throws `ExpiredError` if the version has been compacted meanwhile, and the errors of `list`.
   */
  readonly portions: Iterable<readonly StoredObject[]>;
  /** A token to continue after an item, as in {@link List}. */
  continueAfter(item: ObjectKey): string;
}

export interface TextListOptions extends Pick<ListOptions, 'namespace' | 'version'> {
  /**
   * The beginning to remove, except for its brace, from the texts that have it: `{"kind":"A",`. Default: nothing is removed.
   */
  readonly head?: string;
}

/** The objects of a list as their texts, ready to be sent. */
export interface TextList {
  /** The version of the list: all objects are from it. */
  readonly version: bigint;
  /**
   * The texts in UTF-8, sorted by `namespace/name` and separated by commas, in parts of about half a MiB. Each part is read
   * on demand, so the caller may wait before taking the next one. Can be iterated only once.
   *
   * Reading throws `ExpiredError` if the version has been compacted meanwhile, and the errors of `list`.
   */
  readonly parts: Iterable<Uint8Array>;
}

export interface ListSource {
  readonly reader: Reader;
  readonly tokenKey: Uint8Array;
  readonly compacted: bigint;
}

const start = { namespace: '', name: '' };

/** Reads a page; see `Store.list`. */
export function listObjects(source: ListSource, resource: string, options: ListOptions): List {
  const { reader, tokenKey } = source;
  const { namespace } = options;
  const { after, version } = place(source, resource, options);
  const limit = checkLimit(options.limit);
  const page = reader.page({ resource, namespace, after, limit, version });
  const continueAfter = tokenAfter(tokenKey, resource, namespace, page.version);
  const last = page.items.at(-1);
  return {
    items: page.items,
    version: page.version,
    continue: page.remaining > 0 && last !== undefined ? continueAfter(last) : undefined,
    remaining: page.remaining,
    continueAfter,
  };
}

function tokenAfter(
  tokenKey: Uint8Array,
  resource: string,
  namespace: string | undefined,
  version: bigint,
): (item: ObjectKey) => string {
  return (item) =>
    encodeToken(tokenKey, {
      resource,
      namespace,
      version,
      after: { namespace: item.namespace, name: item.name },
    });
}

/**
 * Target size of a part; the number of objects for it is estimated from the previous part. Larger parts are no faster, and
 * their strings live long enough to be promoted to the old generation.
 */
const partBytes = 512 * 1024;
/** Limit of objects in a part: this many of the largest that the API accepts (3 MiB) still fit in an SQLite value (1 GB). */
const maxPartCount = 250;
const firstPartCount = 64;

const nextCount = (size: number, count: number): number =>
  Math.max(1, Math.min(maxPartCount, Math.floor((partBytes * count) / size)));

/** Reads portions; see `Store.listPortions`. */
export function listPortions(
  source: () => ListSource,
  resource: string,
  options: Omit<ListOptions, 'limit'>,
): PortionedList {
  const { namespace } = options;
  const { after, version: at } = place(source(), resource, options);
  const first = source().reader.portion({ resource, namespace, after, limit: firstPartCount, version: at });
  const { version } = first;
  function* portions(): Generator<readonly StoredObject[], void> {
    if (first.items.length > 0) yield first.items;
    for (let { items, last } = first; last !== undefined;) {
      const { reader, compacted } = source();
      if (version < compacted) throw new ExpiredError('continue the list of', version, compacted);
      let size = 1;
      for (const { text } of items) size += text.length;
      const limit = nextCount(size, items.length);
      ({ items, last } = reader.portion({ resource, namespace, after: last, limit, version }));
      if (items.length > 0) yield items;
    }
  }
  const { tokenKey } = source();
  return { version, portions: portions(), continueAfter: tokenAfter(tokenKey, resource, namespace, version) };
}

/** Reads texts; see `Store.listTexts`. */
export function listTexts(
  source: () => ListSource,
  resource: string,
  { namespace, version: asked, head = '' }: TextListOptions,
): TextList {
  const { after, version: at } = place(source(), resource, { version: asked });
  const first = source().reader.texts({
    resource,
    namespace,
    after,
    limit: firstPartCount,
    version: at,
    head,
  });
  const { version } = first;
  function* parts(): Generator<Uint8Array, void> {
    // Skips the comma before the first item.
    if (first.bytes !== undefined) yield first.bytes.subarray(1);
    for (let part = first; part.last !== undefined;) {
      const { reader, compacted } = source();
      if (version < compacted) throw new ExpiredError('continue the list of', version, compacted);
      const limit = nextCount(part.bytes?.length ?? 1, part.count);
      part = reader.texts({ resource, namespace, after: part.last, limit, version, head });
      if (part.bytes !== undefined) yield part.bytes;
    }
  }
  return { version, parts: parts() };
}

/** The key after which the list begins, and its version. */
function place(
  { reader, tokenKey, compacted }: ListSource,
  resource: string,
  options: ListOptions,
): Pick<PageRequest, 'after' | 'version'> {
  if (options.continue === undefined) {
    const { version } = options;
    if (version === undefined) return { after: start, version };
    if (version < compacted) throw new ExpiredError('list at', version, compacted);
    const current = reader.state().version;
    if (version > current) throw new FutureVersionError('list at', version, current);
    return { after: start, version };
  }
  if (options.version !== undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot list ${resource}`,
      why: 'a version was given with a continue token, which contains one',
    });
  }
  const token = decodeToken(tokenKey, options.continue);
  if (token.resource !== resource || token.namespace !== options.namespace) {
    throw new MalformedTokenError('the token belongs to another list');
  }
  if (token.version === 0n) return { after: token.after, version: undefined };
  if (token.version < compacted) {
    const newest = encodeToken(tokenKey, { ...token, version: 0n });
    throw new ExpiredError('continue the list of', token.version, compacted, newest);
  }
  // The token may be newer than the database, if that was restored from a backup: the signing key stays the same.
  const current = reader.state().version;
  if (token.version > current) throw new FutureVersionError('continue the list of', token.version, current);
  return { after: token.after, version: token.version };
}

function checkLimit(limit: number | undefined): number | undefined {
  if (limit === undefined || limit === 0) return undefined;
  if (Number.isSafeInteger(limit) && limit > 0) return limit;
  throw new RampartError(errorCodes.INPUT, {
    what: 'cannot list',
    why: `the limit is ${limit}`,
    next: 'It must be an integer of at least 0; 0 means no limit',
  });
}
