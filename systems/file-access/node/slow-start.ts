/**
 * Says what an agent waits for that cannot begin.
 *
 * @module
 */
import type { Logger } from '../../../shared/observe/log.ts';

const SLOW_START_MS = 10_000;

/** A cache that has to be filled first. */
interface Awaited {
  readonly isSynced: boolean;
  readonly type: { readonly plural: string };
}

/** Warns once, after ten seconds, unless it is disposed before. When all caches are filled, it is the containers that are missing. */
export function warnOfSlowStart(caches: readonly Awaited[], logger: Logger): Disposable {
  const timer = setTimeout(() => {
    const missing = caches.filter(({ isSynced }) => !isSynced).map(({ type }) => type.plural);
    logger.warn(
      { missing: missing.length > 0 ? missing : ['containers'] },
      'waiting for these before files can be watched',
    );
  }, SLOW_START_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
