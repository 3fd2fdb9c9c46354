/**
 * Metrics for Prometheus: numbers that the product counts anyway, read when somebody asks.
 *
 * prom-client and node:http together cost some 20 MiB of memory, so both are loaded by the calls that
 * need them and not by importing this file.
 *
 * @module
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { Registry } from 'prom-client';

import { type Address, parseAddress } from './address.ts';
import { errorCodes, RampartError } from './errors.ts';

export interface MetricDefinition {
  /** In Prometheus style with our prefix; a counter ends in `_total`: `rampart_sensor_records_total`. */
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
}

/** What a metric reads as: one number, or one for each set of labels. */
export type Reading =
  | number
  | bigint
  | Iterable<{ readonly labels: Readonly<Record<string, string>>; readonly value: number | bigint }>;

/** A registry, and the ways to put something in it. */
export interface Metrics {
  readonly registry: Registry;
  /**
   * A number that only grows. `read` is called at each scrape and returns the total since the start.
   *
   * @throws {RampartError} `INPUT` for a name that does not follow {@link MetricDefinition.name}.
   */
  counter(definition: MetricDefinition, read: () => Reading): void;
  /** A number that goes up and down; otherwise as `counter`. */
  gauge(definition: MetricDefinition, read: () => Reading): void;
}

/**
 * A new registry, empty: nothing is collected that was not asked for, and no timer runs.
 *
 * @example
 * const metrics = await createMetrics();
 * metrics.counter({ name: 'rampart_alerts_dropped_total', help: 'Alert lines dropped.' }, () => out.dropped);
 */
export async function createMetrics(): Promise<Metrics> {
  const { Counter, Gauge, Registry: RegistryClass } = await import('prom-client');
  const registry = new RegistryClass();
  const base = ({ name, help, labelNames = [] }: MetricDefinition) => ({
    name,
    help,
    labelNames: [...labelNames],
    registers: [registry],
  });
  return {
    registry,
    counter(definition, read) {
      checkName(definition.name, /^rampart(_[a-z0-9]+)+_total$/);
      new Counter({
        ...base(definition),
        collect() {
          this.reset();
          for (const { labels, value } of samples(read())) this.inc(labels, Number(value));
        },
      });
    },
    gauge(definition, read) {
      checkName(definition.name, /^rampart(_[a-z0-9]+)+(?<!_total)$/);
      new Gauge({
        ...base(definition),
        collect() {
          this.reset();
          for (const { labels, value } of samples(read())) this.set(labels, Number(value));
        },
      });
    },
  };
}

function checkName(name: string, pattern: RegExp): void {
  if (pattern.test(name)) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `metric name "${name}"`,
    why: `it does not match ${pattern.source}`,
  });
}

function samples(reading: Reading) {
  return typeof reading === 'object' ? reading : [{ labels: {}, value: reading }];
}

export interface MetricsServerOptions {
  readonly registry: Registry;
  /** `host:port` (`[::1]:9090` for IPv6), or a port on 127.0.0.1. Port 0 takes any free one. */
  readonly address: string | number;
  /** Why the process is not well, or undefined when it is. Default: well as long as it answers. */
  readonly health?: () => string | undefined;
  /** Closes the server. */
  readonly signal?: AbortSignal;
}

export interface MetricsServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** `http://host:port`, without a path. */
  readonly url: string;
}

/**
 * Serves `/metrics` and `/healthz` and nothing else, until it is disposed or `signal` aborts. The
 * caller disposes it; open connections are closed then.
 *
 * @throws {RampartError} `INPUT` for an address of another form; `SYSTEM` when it cannot be listened on.
 */
export async function serveMetrics(options: MetricsServerOptions): Promise<MetricsServer> {
  const { registry, signal, health = () => undefined } = options;
  const { host, port } = metricsAddress(options.address);
  signal?.throwIfAborted();
  const { createServer } = await import('node:http');
  const server = createServer((request, response) => {
    void answer(request, response, registry, health);
  });
  // A scraper needs one connection or two; whoever opens hundreds gets refused, not our descriptors.
  server.maxConnections = 64;
  server.headersTimeout = 10_000;
  server.requestTimeout = 10_000;
  await listen(server, host, port);

  const bound = server.address() as AddressInfo;
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  server.once('close', resolve);
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  signal?.addEventListener('abort', close, { once: true });
  if (signal?.aborted) close();
  return {
    host: bound.address,
    port: bound.port,
    url: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    async [Symbol.asyncDispose]() {
      signal?.removeEventListener('abort', close);
      close();
      await closed;
    },
  };
}

/** @throws {RampartError} `INPUT` */
function metricsAddress(address: string | number): Address {
  const found = parseAddress(address, '127.0.0.1');
  if (found !== undefined) return found;
  throw new RampartError(errorCodes.INPUT, {
    what: `"${address}" is not an address to serve metrics on`,
    next: 'Use a port (on 127.0.0.1), or host:port such as 127.0.0.1:9090 or 0.0.0.0:9090.',
  });
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ host, port }, resolve);
  try {
    await promise;
  } catch (error) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot serve metrics on ${host}:${port}`,
      why: error instanceof Error ? error.message : String(error),
      next: 'Choose another address, or end what uses this one.',
      cause: error,
    });
  } finally {
    server.removeListener('error', reject);
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  registry: Registry,
  health: () => string | undefined,
): Promise<void> {
  const send = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): void => {
    response.writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      ...headers,
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  };
  // The body of a request that should have none is not waited for.
  request.resume();
  const path = request.url?.split('?', 1)[0];
  try {
    if (path !== '/metrics' && path !== '/healthz') {
      send(404, 'Here are /metrics and /healthz.\n');
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      send(405, 'Use GET.\n', { allow: 'GET, HEAD' });
    } else if (path === '/healthz') {
      const reason = health();
      send(reason === undefined ? 200 : 503, `${reason ?? 'ok'}\n`);
    } else {
      send(200, await registry.metrics(), { 'content-type': registry.contentType });
    }
  } catch (error) {
    send(500, `${error instanceof Error ? error.message : String(error)}\n`);
  }
}
