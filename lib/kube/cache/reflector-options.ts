import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { Logger } from '../../telemetry/log.ts';
import { type BackoffOptions, checkBackoff } from '../../time/backoff.ts';
import type { Clock } from '../../time/clock.ts';
import type { KubeClient } from '../client/client.ts';
import type { IndexedCache } from './indexed-cache.ts';
import type { KubeObject } from '../object/object.ts';
import type { ReflectorMetrics } from './reflector-metrics.ts';

export type ReflectorClient = Pick<KubeClient, 'listItems' | 'watch'>;

export interface ReflectorOptions<T extends KubeObject> {
  readonly client: ReflectorClient;
  /** The cache to feed, which defines the resource. One cache has one reflector. */
  readonly cache: IndexedCache<T>;
  /** Stops the reflector. Nothing else does. */
  readonly signal: AbortSignal;
  /** For logs and metrics. Default: the plural of the resource. */
  readonly name?: string;
  /** Default: all of them. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /**
   * Reduces an object to the part to keep; it may change its argument, which has no `managedFields`. It must
   * keep `namespace`, `name` and `resourceVersion` of the metadata. Default: keeps everything.
   */
  readonly transform?: ((object: T) => T) | undefined;
  /** How many objects a list requests at a time. Default: 500. 0 requests all in one page. */
  readonly pageSize?: number;
  /**
   * A watch that is silent for this long is restarted where it was, because it may be dead. API servers send
   * bookmarks about once a minute (defaultBookmarkFrequency of the apiserver's cacher), others perhaps none;
   * a restart is cheap. Default: 150 s.
   */
  readonly idleTimeoutMs?: number;
  /** Time limit for the answer to a list or a watch to begin. Default: 60 s, which is when an API server gives up on a list. */
  readonly answerTimeoutMs?: number;
  /** Pauses after failures. Default: from 0.8 s to 30 s, with up to half taken off at random. */
  readonly backoff?: BackoffOptions;
  /** A watch that has lasted this long was healthy: the backoff is reset. Default: 30 s. */
  readonly healthyMs?: number;
  readonly logger?: Logger;
  readonly metrics?: ReflectorMetrics | undefined;
  readonly clock?: Clock;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). Default: Math.random. */
  readonly random?: () => number;
}

export const defaultBackoff: BackoffOptions = { baseMs: 800, maxMs: 30_000, jitter: 0.5 };

/** @throws {RampartError} `INPUT` */
export function checkReflectorOptions<T extends KubeObject>(options: ReflectorOptions<T>): void {
  const { pageSize = 500, idleTimeoutMs = 1, answerTimeoutMs = 1, healthyMs = 0 } = options;
  checkBackoff(options.backoff ?? defaultBackoff);
  const times = idleTimeoutMs > 0 && answerTimeoutMs > 0 && healthyMs >= 0;
  if (times && Number.isSafeInteger(pageSize) && pageSize >= 0) return;
  throw new RampartError(errorCodes.INPUT, {
    what:
      `a reflector with pageSize ${pageSize}, idleTimeoutMs ${idleTimeoutMs}, ` +
      `answerTimeoutMs ${answerTimeoutMs}, healthyMs ${healthyMs}`,
    why: 'expected an integer of at least 0, two times above 0, and a time of at least 0',
  });
}
