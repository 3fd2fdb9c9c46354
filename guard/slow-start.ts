/** Logs a warning with what a process still waits for, if that takes long. */
import type { ResourceType } from '../lib/kube/object/object.ts';
import type { Logger } from '../lib/telemetry/log.ts';

const slowMs = 10_000;

interface Awaited {
  readonly isSynced: boolean;
  readonly type: Pick<ResourceType<never>, 'plural'>;
}

/**
 * Warns once, after ten seconds, unless the result is disposed earlier.
 *
 * @param consequence what is not done meanwhile
 */
export function warnOfSlowStart(
  caches: readonly Awaited[],
  { logger, consequence }: { readonly logger: Logger; readonly consequence: string },
): Disposable {
  const timer = setTimeout(() => {
    const missing = caches.filter(({ isSynced }) => !isSynced).map(({ type }) => type.plural);
    logger.warn({ missing }, `waiting for resources; ${consequence}`);
  }, slowMs);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
