import { RampartError } from '../../errors/errors.ts';
import { CallScope } from './call-scope.ts';
import { unreachable } from './client-errors.ts';
import { type Connection, searchParams } from './connection.ts';
import { LineDecoder } from './line-decoder.ts';
import { pods, resourcePath } from '../object/object.ts';

export interface PodLogOptions {
  readonly signal?: AbortSignal | undefined;
  /** Required if the pod has several containers. */
  readonly container?: string | undefined;
  /** Continues with new lines, until the container ends. */
  readonly follow?: boolean | undefined;
  /** RFC 3339; the API counts in whole seconds, so slightly earlier lines may come too. */
  readonly sinceTime?: string | undefined;
  /** Only this many of the last lines. */
  readonly tailLines?: number | undefined;
  /** Each line begins with its time, in RFC 3339, and a space. */
  readonly timestamps?: boolean | undefined;
  /** Limit for the answer to begin and, unless the log is followed, for each part of it. Default: 30 s. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 30_000;
/** Longer lines are left out: a container may write anything. */
const MAX_LINE_BYTES = 1024 * 1024;

/** See `KubeClient.podLog`. */
export async function* podLogLines(
  connection: Connection,
  target: { readonly namespace: string; readonly name: string },
  options: PodLogOptions,
): AsyncGenerator<string, void> {
  const { signal, timeoutMs = TIMEOUT_MS, follow = false } = options;
  const { container, sinceTime, tailLines, timestamps } = options;
  const what = `read the log of pod ${target.namespace}/${target.name}`;
  using scope = new CallScope(connection.clock, signal);
  const limit = (): void =>
    scope.limit(timeoutMs, () => unreachable(what, `no response within ${timeoutMs} ms`));
  limit();
  const incoming = await connection.open(
    {
      what,
      method: 'GET',
      path: resourcePath(pods, { ...target, subresource: 'log' }),
      query: searchParams({ container, follow: follow || undefined, sinceTime, tailLines, timestamps }),
      idempotent: true,
    },
    scope,
  );
  const decoder = new LineDecoder(MAX_LINE_BYTES, true);
  try {
    // A followed log may be silent for days; TCP detects a dead connection.
    if (follow) scope.unlimit();
    for await (const chunk of incoming.body as AsyncIterable<Buffer>) {
      scope.unlimit();
      for (const line of decoder.push(chunk)) {
        yield line;
        scope.signal.throwIfAborted();
      }
      if (!follow) limit();
    }
    if (decoder.pendingBytes > 0) yield* decoder.rest();
  } catch (error) {
    if (scope.signal.aborted) throw scope.signal.reason;
    if (error instanceof RampartError) throw error;
    throw unreachable(what, `the response was interrupted: ${(error as Error).message}`, error);
  } finally {
    incoming.body.destroy();
  }
}
