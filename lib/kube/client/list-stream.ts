import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { loopSlice } from '../../time/loop-slice.ts';
import { CallScope } from './call-scope.ts';
import { unreachable } from './client-errors.ts';
import type { ListOptions } from './client-options.ts';
import { checkIsJson, type Connection, searchParams } from './connection.ts';
import { ListDecoder } from './list-decoder.ts';
import type { KubeList } from '../object/object.ts';

export interface ListStreamOptions extends ListOptions {
  /** Called for each item with its JSON, in order. An error that it throws ends the call. */
  readonly onItem: (item: string) => void;
  /** Limit for the answer to begin. Default: 60 s, which is when an API server gives up on a list. */
  readonly openTimeoutMs?: number;
  /** No byte for this long means that the connection is dead. Default: 30 s. */
  readonly idleTimeoutMs?: number;
  /** Limit of the size of an item. Default: 16 MiB; the API server takes objects of up to 3. */
  readonly maxItemBytes?: number;
}

interface Listed {
  /** For errors: `list pods in namespace default`. */
  readonly what: string;
  readonly path: string;
}

const OPEN_TIMEOUT_MS = 60_000;
const IDLE_TIMEOUT_MS = 30_000;
const TIMEOUT_MS = 300_000;

/** See `KubeClient.listItems`. */
export async function streamList(
  connection: Connection,
  { what, path }: Listed,
  options: ListStreamOptions,
): Promise<KubeList['metadata']> {
  const { onItem, openTimeoutMs = OPEN_TIMEOUT_MS, idleTimeoutMs = IDLE_TIMEOUT_MS, maxItemBytes } = options;
  const { signal, timeoutMs = TIMEOUT_MS, limit, labelSelector, fieldSelector } = options;
  const query = searchParams({ limit, continue: options.continue, labelSelector, fieldSelector });
  // Two limits at a time: for the whole, and for each wait.
  using whole = new CallScope(connection.clock, signal);
  whole.limit(timeoutMs, () => unreachable(what, `not complete within ${timeoutMs} ms`));
  using scope = new CallScope(connection.clock, whole.signal);
  scope.limit(openTimeoutMs, () => unreachable(what, `no response within ${openTimeoutMs} ms`));
  const request = {
    ...({ what, method: 'GET', path, query, accept: 'application/json', idempotent: true } as const),
    acceptsGzip: true,
  };
  const incoming = await connection.open(request, scope);
  const unpacked =
    incoming.headers['content-encoding'] === 'gzip'
      ? pipeline(incoming.body, createGunzip(), noted)
      : incoming.body;
  try {
    checkIsJson(what, incoming);
    const decoder = new ListDecoder(maxItemBytes);
    const chunks = (unpacked as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    for (;;) {
      scope.limit(idleTimeoutMs, () => unreachable(what, `no data for ${idleTimeoutMs} ms`));
      const next = await chunks.next().catch((error: unknown) => {
        scope.signal.throwIfAborted();
        throw unreachable(what, `the response was interrupted: ${(error as Error).message}`, error);
      });
      scope.unlimit();
      if (next.done) break;
      for (const item of decoder.push(next.value)) {
        if (loopSlice.over) await loopSlice.next();
        scope.signal.throwIfAborted();
        onItem(item);
      }
    }
    return metadataOf(decoder.end(), what);
  } catch (error) {
    if (error instanceof RampartError && error.code === errorCodes.DECODE) {
      throw unreachable(what, error.message, error);
    }
    throw error;
  } finally {
    incoming.body.destroy();
    unpacked.destroy();
  }
}

/** A listener that ignores an error, because the reader of the list gets it. */
function noted(): void {}

function metadataOf(fields: ReadonlyMap<string, unknown>, what: string): KubeList['metadata'] {
  const metadata = fields.get('metadata');
  if (typeof metadata === 'object' && metadata !== null) return metadata;
  throw unreachable(what, 'the response is not a list: it has no metadata');
}
