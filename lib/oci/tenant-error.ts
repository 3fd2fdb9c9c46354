/**
 * What may be shown of a failed fetch to a user who chose the address, but must not find out which ports are
 * open there.
 */
import { RampartError } from '../errors/errors.ts';
import { ExchangeError } from './exchange.ts';

/**
 * The same error, unless the connection failed: all ways in which it can fail then read the same, and the error itself is the
 * cause, for the log.
 */
export function forTenant(error: unknown): unknown {
  const host = failedHost(error);
  if (host === undefined || !(error instanceof RampartError)) return error;
  return new RampartError(error.code, {
    what: `cannot fetch from ${host}`,
    why: "there is no connection to it, or its answer is not one of a registry or web server; Rampart's log has the reason",
    cause: error,
  });
}

function failedHost(error: unknown): string | undefined {
  if (error instanceof ExchangeError) return error.failedHost;
  return error instanceof Error ? failedHost(error.cause) : undefined;
}
