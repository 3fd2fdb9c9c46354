/** The common parts of long-running commands: stopping, messages, metrics. */
import { existsSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { join } from 'node:path';

import type { Health } from '../telemetry/health.ts';
import type { Logger } from '../telemetry/log.ts';
import { createMetrics, type Metrics, serveMetrics } from '../telemetry/metrics.ts';
import { errorCodes, messageOf, RampartError } from '../errors/errors.ts';
import { failInLog } from './failure.ts';
import { type CertificatePaths, followCertificates, readCertificates } from '../net/certificate-files.ts';
import { systemClock } from '../time/clock.ts';

/** After this time, a process has loaded all modules that it needs without work to do. */
const LOADED_MS = 2_000;

let log: Logger | undefined;

/**
 * Makes messages, and the failure that ends the process, lines of the log, unless stderr is a terminal: stderr has either JSON
 * lines for collectors or text for people.
 *
 * @param logger - `undefined`: text again, for another command in the same process.
 */
export function sayInLog(logger: Logger | undefined): void {
  log = process.stderr.isTTY ? undefined : logger;
  failInLog(log);
}

/** Prints a message to stderr, or to the log: alerts go to stdout. */
export function say(text: string): void {
  if (log === undefined) process.stderr.write(`rampart: ${text}\n`);
  else log.info(text);
}

/** @throws {RampartError} `PRIVILEGE` if the user is not root. */
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
  /** `undefined` if metrics are off. */
  readonly metrics: Metrics | undefined;
  /** Ends the part `start` of /readyz: all others are registered. */
  readonly started: () => void;
}

export interface ObserveOptions {
  /** The address to listen on; `undefined`: no metrics. */
  readonly metrics?: string | undefined;
  /** A directory with the certificate, such as a mounted Secret. */
  readonly metricsTls?: string | undefined;
  /** More paths that serve the metrics, besides /metrics. */
  readonly paths?: readonly string[];
}

/** How often to check whether the certificate for the metrics has changed on disk. */
const CERTIFICATE_POLL_MS = 10_000;

/**
 * Serves /metrics, /healthz and /readyz at `metrics`, or nothing without it. The process is not ready before {@link runParts}: until then
 * the parts of `health` are not registered, and none says that it is not ready.
 *
 * @throws {RampartError} `INPUT` for a bad address or certificate, `SYSTEM` if listening fails, or files cannot be read.
 */
export async function observe(options: ObserveOptions, health: Health): Promise<Observed> {
  const { metrics: address, metricsTls, paths: otherPaths } = options;
  const starting = health.ready('start', () => 'it has not started its parts yet');
  const started = (): void => starting[Symbol.dispose]();
  if (address === undefined) {
    if (metricsTls === undefined)
      return { metrics: undefined, started, [Symbol.asyncDispose]: async () => undefined };
    throw new RampartError(errorCodes.INPUT, {
      what: '--metrics-tls without --metrics',
      next: 'Say where to serve metrics: --metrics 127.0.0.1:9464',
    });
  }
  const metrics = await createMetrics();
  const paths = metricsTls === undefined ? undefined : certificatePaths(metricsTls);
  const certificates = paths && (await readCertificates(paths));
  const server = await serveMetrics({
    ...{ registry: metrics.registry, address, health, certificates, paths: otherPaths ?? [] },
  });
  say(`metrics on ${server.url}/metrics (also /healthz, /readyz${certificates ? ' without TLS' : ''})`);
  const stop = new AbortController();
  const following =
    paths &&
    certificates &&
    followCertificates(paths, certificates, {
      everyMs: CERTIFICATE_POLL_MS,
      changed: (texts) => server.useCertificates(texts),
      unusable: (error) => say(`the previous certificate of the metrics stays: ${messageOf(error)}`),
      clock: systemClock,
      signal: stop.signal,
    });
  return {
    metrics,
    started,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await following;
      await server[Symbol.asyncDispose]();
    },
  };
}

function certificatePaths(directory: string): CertificatePaths {
  const ca = join(directory, 'ca.crt');
  return {
    of: 'the metrics',
    certFile: join(directory, 'tls.crt'),
    keyFile: join(directory, 'tls.key'),
    // Decided at the start: if the file disappears later, the previous authority stays in effect, so that the
    // metrics do not become readable by everyone.
    clientCaFiles: existsSync(ca) ? [ca] : [],
  };
}

/**
 * Runs parts until one fails or ends by itself, then stops the others.
 *
 * @param parts - Have registered their health when they are given.
 * @throws what the first one threw.
 */
export async function runParts(
  stop: AbortController,
  { logger, started }: Pick<Observed, 'started'> & { readonly logger: Logger },
  parts: Readonly<Record<string, Promise<unknown>>>,
): Promise<void> {
  started();
  let failure: { readonly error: unknown } | undefined;
  // Node.js writes its compile cache only at a clean exit: after a kill, the next start from sources would strip and compile all again.
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
