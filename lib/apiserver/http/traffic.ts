/** Metrics about requests, for Prometheus. */
import { byLabel, metricFamily } from '../../telemetry/metric-family.ts';
import { Histogram } from '../../telemetry/histogram.ts';
import type { Metrics } from '../../telemetry/metrics.ts';

/** In seconds: the buckets of apiserver_request_duration_seconds that are useful on one machine. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];

interface RequestCount {
  readonly labels: Readonly<Record<string, string>>;
  value: number;
}

/** Counters as plain numbers, cheap enough to be kept even if they are never read. */
export class Traffic {
  readonly #requests = new Map<string, RequestCount>();
  readonly #latencies = new Map<string, Histogram>();
  /** Bytes of request bodies, as received. */
  receivedBytes = 0;
  /** Bytes of answer bodies, before compression. */
  sentBytes = 0;
  readonly inFlight = { readonly: 0, mutating: 0 };
  watchers = 0;
  watchEvents = 0;
  /** How often a watch had to wait for its client. */
  watchStalls = 0;
  /** Connections that were closed because the request was not HTTP, or came too slowly. */
  badConnections = 0;
  rejected = 0;

  /** @param resource as in the registry, or '' for other paths: never what the client has sent. */
  done(verb: string, resource: string, code: number, seconds: number): void {
    const key = `${verb} ${code} ${resource}`;
    const known = this.#requests.get(key);
    if (known === undefined) {
      this.#requests.set(key, { labels: { verb, code: String(code), resource }, value: 1 });
    } else known.value++;
    // Not measured: the client decides how long it watches, or follows a log.
    if (verb === 'watch' || verb === 'log') return;
    let latency = this.#latencies.get(verb);
    if (latency === undefined) this.#latencies.set(verb, (latency = new Histogram(buckets)));
    latency.add(seconds);
  }

  requests(): readonly RequestCount[] {
    return [...this.#requests.values()];
  }

  latencies(): readonly (ReturnType<Histogram['read']> & { readonly labels: { readonly verb: string } })[] {
    return Array.from(this.#latencies, ([verb, latency]) => ({ labels: { verb }, ...latency.read() }));
  }
}

/** Registers `rampart_apiserver_*`. @throws if the registry already has these metrics. */
export function registerTraffic(metrics: Omit<Metrics, 'registry'>, traffic: Traffic): void {
  const { counter, gauge } = metricFamily(metrics, 'rampart_apiserver');
  counter('requests', 'Completed requests.', () => traffic.requests(), ['verb', 'code', 'resource']);
  metrics.histogram(
    {
      name: 'rampart_apiserver_request_duration_seconds',
      help: 'Time to the end of the response, except for watches and logs.',
      labelNames: ['verb'],
    },
    () => traffic.latencies(),
  );
  const inFlight = () => byLabel('kind', traffic.inFlight);
  gauge('requests_in_flight', 'Requests in progress, except watches and logs.', inFlight, ['kind']);
  gauge('watchers', 'Open watches.', () => traffic.watchers);
  counter('watch_events', 'Events sent to watches.', () => traffic.watchEvents);
  counter('watch_stalls', 'Times a watch had to wait for its client.', () => traffic.watchStalls);
  counter('rejected_requests', 'Requests rejected with status 429.', () => traffic.rejected);
  counter(
    'bad_connections',
    'Connections closed because of invalid or missing data.',
    () => traffic.badConnections,
  );
  counter('received_bytes', 'Size of request bodies.', () => traffic.receivedBytes);
  counter('sent_bytes', 'Size of response bodies before compression.', () => traffic.sentBytes);
}
