/** A watch: one continuous response, one event per line. */
import { RampartError } from '../../errors/errors.ts';
import { CallScope } from './call-scope.ts';
import { errorFromStatus, isStatus, unreachable } from './client-errors.ts';
import { type Connection, searchParams } from './connection.ts';
import { LineDecoder } from './line-decoder.ts';
import type { KubeObject } from '../object/object.ts';

export interface WatchOptions {
  readonly signal?: AbortSignal | undefined;
  /** Watches changes after this version; without it, the server first sends the existing objects. */
  readonly resourceVersion?: string | undefined;
  /** Ask for BOOKMARK events, some one per minute. */
  readonly allowWatchBookmarks?: boolean | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** The server ends the watch after this time. */
  readonly timeoutSeconds?: number | undefined;
  /** Limit for the answer to begin. Default: 30 s. */
  readonly openTimeoutMs?: number;
  /**
   * No byte for this long means that the connection is dead, whatever TCP thinks. Default: 3 minutes, which is
   * for watches with bookmarks; one without them may be silent for good reason.
   */
  readonly idleTimeoutMs?: number;
  /** Limit of the size of an event. Default: 16 MiB; the API server takes objects of up to 3. */
  readonly maxEventBytes?: number;
}

/** A change of one object; a bookmark has only the version in its metadata. */
export interface WatchEvent<T extends KubeObject = KubeObject> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: T;
}

export interface Watch {
  /** For errors: `watch pods in namespace default`. */
  readonly what: string;
  readonly path: string;
}

const OPEN_TIMEOUT_MS = 30_000;
const IDLE_TIMEOUT_MS = 180_000;
const MAX_EVENT_BYTES = 16 * 1024 * 1024;

/** The lines of a watch, see `KubeClient.watchLines`. */
export async function* watchLines(
  connection: Connection,
  { what, path }: Watch,
  options: WatchOptions,
): AsyncGenerator<string, void> {
  const { signal, openTimeoutMs = OPEN_TIMEOUT_MS, idleTimeoutMs = IDLE_TIMEOUT_MS } = options;
  using scope = new CallScope(connection.clock, signal);
  scope.limit(openTimeoutMs, () => unreachable(what, `no response within ${openTimeoutMs} ms`));
  const incoming = await connection.open(
    { what, method: 'GET', path, query: watchQuery(options), accept: 'application/json', idempotent: true },
    scope,
  );
  const decoder = new LineDecoder(options.maxEventBytes ?? MAX_EVENT_BYTES);
  const chunks = (incoming.body as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  try {
    for (;;) {
      // The limit applies only while waiting for bytes, not to the time that the reader of the lines takes.
      scope.limit(idleTimeoutMs, () => unreachable(what, `no data for ${idleTimeoutMs} ms`));
      const next = await chunks.next();
      scope.unlimit();
      if (next.done) break;
      for (const line of decoder.push(next.value)) {
        if (line !== '') yield line;
        scope.signal.throwIfAborted();
      }
    }
    if (decoder.pendingBytes > 0) throw unreachable(what, 'the response ended in the middle of an event');
  } catch (error) {
    if (scope.signal.aborted) throw scope.signal.reason;
    if (error instanceof RampartError) throw error;
    throw unreachable(what, `the response was interrupted: ${(error as Error).message}`, error);
  } finally {
    incoming.body.destroy();
  }
}

/** The events of a watch, see `KubeClient.watch`. */
export async function* watchEvents<T extends KubeObject>(
  connection: Connection,
  watch: Watch,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<T>, void> {
  for await (const line of watchLines(connection, watch, options)) yield parseEvent<T>(line, watch.what);
}

/** @throws {KubeError} for an ERROR event; {@link RampartError} `API_UNREACHABLE` if it is not an event. */
function parseEvent<T extends KubeObject>(line: string, what: string): WatchEvent<T> {
  let event: { readonly type?: unknown; readonly object?: unknown } | null;
  try {
    event = JSON.parse(line) as typeof event;
  } catch {
    throw unreachable(what, 'an event is not JSON');
  }
  const { type, object } = event ?? {};
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
    case 'BOOKMARK':
      if (typeof object === 'object' && object !== null && 'metadata' in object)
        return { type, object: object as T };
      throw unreachable(what, 'an event has no object');
    case 'ERROR':
      throw errorFromStatus(what, isStatus(object) ? object : {});
    default:
      throw unreachable(what, 'an event has an unknown type');
  }
}

function watchQuery(options: WatchOptions): URLSearchParams {
  const { resourceVersion, allowWatchBookmarks, labelSelector, fieldSelector, timeoutSeconds } = options;
  return searchParams({
    watch: true,
    resourceVersion,
    allowWatchBookmarks,
    labelSelector,
    fieldSelector,
    timeoutSeconds,
  });
}
