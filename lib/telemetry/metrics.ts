/**
 * Metrics for Prometheus: numbers that the product counts anyway, read on request. Only the text of the
 * exposition format is needed, so it uses no library. node:http takes memory, so it is loaded by the call
 * that needs it and not by importing this file.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { type Address, parseAddress } from '../net/address.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { type Metric, Registry, type Sample } from './exposition.ts';
import { Health } from './health.ts';
import type { CertificateTexts } from '../net/certificate-files.ts';
import { listen } from '../net/listen.ts';
import { takeTls } from '../net/tls-beside-plain.ts';
import { shareUnauthenticated, unauthenticatedServer } from '../net/unauthenticated.ts';

export interface MetricDefinition {
  /** In Prometheus style, with a prefix; a counter ends in `_total`: `rampart_sensor_records_total`. */
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
}

/** The value of a metric: one number, or one for each set of labels. */
export type Reading =
  number | bigint | Iterable<{ readonly labels: Labels; readonly value: number | bigint }>;

/** The value of a histogram: the number of observations of each size since the start. */
export interface HistogramReading {
  /** Upper bounds of the buckets, ascending. A size equal to a bound is in its bucket. */
  readonly bounds: readonly number[];
  /** Number of values in each bucket, not cumulative; the last one has those above all bounds. */
  readonly counts: readonly number[];
  /** Sum of all sizes. */
  readonly sum: number;
}

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
  /** Sizes by bucket; its name ends in its unit, as `_seconds`. Otherwise as `counter`. */
  histogram(
    definition: MetricDefinition,
    read: () => HistogramReading | Iterable<HistogramReading & { readonly labels: Labels }>,
  ): void;
}

type Labels = Readonly<Record<string, string>>;

/** `<prefix>_<name>`, as https://prometheus.io/docs/practices/naming/ wants it. */
const counterName = /^[a-z][a-z0-9]*(_[a-z0-9]+)+_total$/;
const otherName = /^[a-z][a-z0-9]*(_[a-z0-9]+)+(?<!_total)$/;

/**
 * A new registry, empty: nothing is collected that was not asked for, and no timer runs.
 *
 * @example
 * const metrics = await createMetrics();
 * metrics.counter({ name: 'rampart_alerts_dropped_total', help: 'Alert lines dropped.' }, () => out.dropped);
 */
export async function createMetrics(): Promise<Metrics> {
  const registry = new Registry();
  const register = (
    { name, help, labelNames = [] }: MetricDefinition,
    type: Metric['type'],
    pattern: RegExp,
    read: () => Reading,
  ): void => {
    checkName(name, pattern);
    registry.register({ name, help, type, labelNames, read: () => samples(read()) });
  };
  return {
    registry,
    counter(definition, read) {
      register(definition, 'counter', counterName, read);
    },
    gauge(definition, read) {
      register(definition, 'gauge', otherName, read);
    },
    histogram({ name, help, labelNames = [] }, read) {
      checkName(name, otherName);
      const all = (): Sample[] => {
        const reading = read();
        return 'bounds' in reading
          ? buckets({}, reading)
          : Array.from(reading, (one) => buckets(one.labels, one)).flat();
      };
      registry.register({ name, help, type: 'histogram', labelNames: [...labelNames, 'le'], read: all });
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

/** Cumulative, as in Prometheus: each bucket also counts all smaller values (prometheus.io, "Exposition formats"). */
function buckets(labels: Labels, { bounds, counts, sum }: HistogramReading): Sample[] {
  let count = 0;
  const values = [...bounds.map(String), '+Inf'].map((le, at) => ({
    suffix: '_bucket',
    labels: { ...labels, le },
    value: (count += counts[at] ?? 0),
  }));
  return [...values, { suffix: '_sum', labels, value: sum }, { suffix: '_count', labels, value: count }];
}

function samples(reading: Reading): Iterable<Sample> {
  return typeof reading === 'object' ? reading : [{ labels: {}, value: reading }];
}

interface MetricsServerOptions {
  readonly registry: Registry;
  /** `host:port` (`[::1]:9090` for IPv6), or a port on 127.0.0.1. Port 0 takes any free one. */
  readonly address: string | number;
  /** The source of /healthz and /readyz. Default: always healthy. */
  readonly health?: Health;
  /**
   * If given, /metrics is served only over TLS and, if there is a `ca`, only to clients with a certificate from it. Probes stay plain
   * HTTP: the kubelet has no certificate.
   */
  readonly certificates?: CertificateTexts | undefined;
  /** Further paths that serve the metrics, such as `/metrics-x`. */
  readonly paths?: readonly string[];
  /** Closes the server when it aborts. */
  readonly signal?: AbortSignal;
}

interface MetricsServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** URL of the metrics, without a path: `http://host:port` or `https://host:port`. */
  readonly url: string;
  /** Uses these from now on, for new connections. */
  useCertificates(texts: CertificateTexts): void;
}

/**
 * Serves `/metrics`, `/healthz`, `/readyz` and `paths`, and nothing else, until it is disposed or `signal` aborts. The
 * caller disposes it; open connections are closed then.
 *
 * @throws {RampartError} `INPUT` for an address of another form; `SYSTEM` when it cannot be listened on.
 */
export async function serveMetrics(options: MetricsServerOptions): Promise<MetricsServer> {
  const { registry, signal, certificates, health = new Health(), paths = [] } = options;
  const { host, port } = metricsAddress(options.address);
  signal?.throwIfAborted();
  const { createServer } = await import('../net/node-http.ts');
  const server = createServer(unauthenticatedServer, (request, response) => {
    void answer(request, response, {
      registry: certificates === undefined ? registry : 'by TLS',
      health,
      paths,
    });
  });
  shareUnauthenticated(server);
  const secured =
    certificates &&
    (await takeTls(server, certificates, (request, response) => {
      void answer(request, response, { registry, health, paths });
    }));
  await listen(server, { host, port }, 'metrics');

  const bound = server.address() as AddressInfo;
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  server.once('close', resolve);
  const close = (): void => {
    server.close();
    server.closeAllConnections();
    secured?.close();
  };
  signal?.addEventListener('abort', close, { once: true });
  if (signal?.aborted) close();
  return {
    host: bound.address,
    port: bound.port,
    url: `http${secured === undefined ? '' : 's'}://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    useCertificates: (texts) => secured?.useCertificates(texts),
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
    next: 'Use a port (on 127.0.0.1), or host:port such as 127.0.0.1:9090 or 0.0.0.0:9090',
  });
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  {
    registry,
    health,
    paths,
  }: {
    readonly registry: Registry | 'by TLS';
    readonly health: Health;
    readonly paths: readonly string[];
  },
): Promise<void> {
  const send = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): void => {
    response.writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      ...headers,
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  };
  // A body, which these requests should not have, is discarded.
  request.resume();
  const asked = request.url?.split('?', 1)[0] ?? '';
  const path = paths.includes(asked) ? '/metrics' : asked;
  try {
    if (path !== '/metrics' && path !== '/healthz' && path !== '/readyz') {
      send(404, 'Here are /metrics, /healthz and /readyz.\n');
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      send(405, 'Use GET.\n', { allow: 'GET, HEAD' });
    } else if (path !== '/metrics') {
      const { ok, text } = path === '/healthz' ? health.liveness() : health.readiness();
      send(ok ? 200 : 503, text);
    } else if (registry === 'by TLS') {
      send(403, 'Metrics are served by TLS: use https.\n');
    } else {
      send(200, registry.metrics(), { 'content-type': registry.contentType });
    }
  } catch (error) {
    send(500, `${error instanceof Error ? error.message : String(error)}\n`);
  }
}
