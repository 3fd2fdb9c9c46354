/** When a single audit gives up: the operator's scanner retries for ever, but a command must end. */
import type { GuardContext } from '../../guard/context.ts';
import { isUnreachable, KubeError } from '../../lib/kube/client/client-errors.ts';
import { errorCodes, messageOf, RampartError } from '../../lib/errors/errors.ts';
import { type Clock, sleep, systemClock } from '../../lib/time/clock.ts';
import type { ScannerOptions } from './scanner/scanner-options.ts';

/** How long transient failures are retried. A restarting API server is back by then. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 2000;

/**
 * Gives up at once on what the API refuses, and later on everything else that keeps failing.
 *
 * @param unfinished receives what was given up, and why.
 */
export function giveUpIn(
  unfinished: Map<string, string>,
  clock: Clock = systemClock,
): NonNullable<ScannerOptions['givesUp']> {
  const since = new Map<string, number>();
  return (namespace, error) => {
    const nowMs = clock.monotonicMs();
    const firstMs = since.get(namespace) ?? nowMs;
    since.set(namespace, firstMs);
    if (!isRefusal(error) && nowMs - firstMs < PATIENCE_MS) return false;
    unfinished.set(namespace, messageOf(error));
    return true;
  };
}

/** Errors of this request, however often it is repeated: not a conflict, rate limit, or server error. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  return error.status >= 400 && error.status < 500 && ![404, 408, 409, 410, 429].includes(error.status);
}

/**
 * Checks whether the API responds, until the signal aborts.
 *
 * @throws {RampartError} `API_UNREACHABLE` once it has not responded for too long
 */
export async function untilApiIsLost(
  { client, signal }: Pick<GuardContext, 'client' | 'signal'>,
  clock: Clock = systemClock,
): Promise<void> {
  for (let answeredMs = clock.monotonicMs(); !signal.aborted;) {
    try {
      await sleep(clock, LOOK_MS, signal);
      await client.getPath('/version', {
        signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
      });
      answeredMs = clock.monotonicMs();
    } catch (error) {
      if (signal.aborted) return;
      const isSilent = isUnreachable(error) || !(error instanceof RampartError);
      const silentMs = clock.monotonicMs() - answeredMs;
      if (!isSilent) answeredMs = clock.monotonicMs();
      else if (silentMs >= PATIENCE_MS) throw lost(silentMs, error);
    }
  }
}

function lost(silentMs: number, cause: unknown): RampartError {
  return new RampartError(errorCodes.API_UNREACHABLE, {
    what: `the API has not responded for ${Math.round(silentMs / 1000)} s, and the audit is incomplete`,
    why: (cause as Error).message,
    next: 'Audit again once it responds: results already written are not evaluated again',
    cause,
  });
}
