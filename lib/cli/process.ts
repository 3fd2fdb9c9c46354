/** What the long-running commands have in common: how they stop, report and expose metrics. */
import { flushCompileCache } from 'node:module';

import type { Health } from '../telemetry/health.ts';
import type { Logger } from '../telemetry/log.ts';
import { createMetrics, type Metrics, serveMetrics } from '../telemetry/metrics.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';

/** By then a process has loaded what it needs at rest. */
const LOADED_MS = 2_000;

let log: Logger | undefined;

/** From now on what is said goes to the log: for processes that nobody sits in front of, whose stderr is collected as JSON. */
export function sayInLog(logger: Logger): void {
  log = logger;
}

/** Says something to the person. Alerts go to stdout, so this goes to stderr. */
export function say(text: string): void {
  if (log === undefined) process.stderr.write(`rampart: ${text}\n`);
  else log.info(text);
}

/** @throws {RampartError} `PRIVILEGE` for another user than root. */
export function requireRoot(what: string, why: string, next = 'Run it as root, e.g. with sudo'): void {
  if (process.geteuid?.() === 0) return;
  throw new RampartError(errorCodes.PRIVILEGE, { what, why, next });
}

/** Aborted by SIGINT and SIGTERM. */
export function stopSignal(): AbortController {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  return stop;
}

export interface Observed extends AsyncDisposable {
  /** `undefined` where nobody asked for metrics. */
  readonly metrics: Metrics | undefined;
}

/**
 * Serves /metrics, /healthz and /readyz at `address`, or nothing without one.
 *
 * @throws {RampartError} `INPUT` for a bad address, `SYSTEM` when it cannot be listened on.
 */
export async function observe(address: string | undefined, health: Health): Promise<Observed> {
  if (address === undefined) return { metrics: undefined, [Symbol.asyncDispose]: async () => undefined };
  const metrics = await createMetrics();
  const server = await serveMetrics({ registry: metrics.registry, address, health });
  say(`metrics on ${server.url}/metrics (also /healthz, /readyz)`);
  return { metrics, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

/** When one part fails or ends by itself, the others are stopped. @throws what the first one threw. */
export async function runParts(
  stop: AbortController,
  logger: Logger,
  parts: Readonly<Record<string, Promise<unknown>>>,
): Promise<void> {
  let failure: { readonly error: unknown } | undefined;
  // Node.js writes the cache at a clean exit only: after a kill the next start from sources would strip and compile all again.
  setTimeout(flushCompileCache, LOADED_MS).unref();
  await Promise.all(
    Object.entries(parts).map(async ([name, part]) => {
      try {
        await part;
        if (!stop.signal.aborted) logger.warn(`${name} has ended; stopping`);
      } catch (error) {
        if (!stop.signal.aborted) failure ??= { error };
      } finally {
        stop.abort();
      }
    }),
  );
  if (failure !== undefined) throw failure.error;
}
