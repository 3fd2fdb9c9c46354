import { metricFamily } from '../../telemetry/metric-family.ts';
import type { Metrics, Reading } from '../../telemetry/metrics.ts';

export interface ReflectorStats {
  readonly lists: number;
  readonly watches: number;
  /** Events of the server, whether or not they changed anything. */
  readonly events: number;
  readonly bookmarks: number;
  /** Events, bookmarks and lists that were older than the cache, and were ignored. */
  readonly stale: number;
  /** Reasons for retries: `unreachable`, `expired`, `stale`, `limit`, `http_500`, ..., `other`. */
  readonly errors: Readonly<Record<string, number>>;
  /** Objects that `transform` failed on; they were stored unchanged. */
  readonly transformFaults: number;
  readonly objects: number;
  /** Memory allocated for the objects. */
  readonly bytes: number;
  /** Time since the server last sent a list, an event or a bookmark. Infinity before the first list. */
  readonly ageMs: number;
}

interface Counted {
  stats(): ReflectorStats;
}

/** The metrics of all running reflectors; one instance for the process. */
export interface ReflectorMetrics {
  /** From now on `name` is among the readings. A second reflector of the same name replaces the first. */
  add(name: string, reflector: Counted): void;
  remove(name: string): void;
}

/** `rampart_reflector_*`, each with the label `reflector`. @throws when the registry has them already. */
export function createReflectorMetrics(metrics: Pick<Metrics, 'counter' | 'gauge'>): ReflectorMetrics {
  const reflectors = new Map<string, Counted>();
  const each = (value: (stats: ReflectorStats) => number) => (): Reading =>
    [...reflectors].map(([reflector, counted]) => ({ labels: { reflector }, value: value(counted.stats()) }));
  const family = metricFamily(metrics, 'rampart_reflector', ['reflector']);
  const counter = (name: string, help: string, value: (stats: ReflectorStats) => number): void =>
    family.counter(name, help, each(value));
  const gauge = (name: string, help: string, value: (stats: ReflectorStats) => number): void =>
    family.gauge(name, help, each(value));

  counter('lists', 'Completed lists.', ({ lists }) => lists);
  counter('watches', 'Started watches.', ({ watches }) => watches);
  counter('events', 'Watch events applied.', ({ events }) => events);
  counter('bookmarks', 'Watch bookmarks.', ({ bookmarks }) => bookmarks);
  counter(
    'stale',
    'Events, bookmarks and lists skipped because newer ones were known.',
    ({ stale }) => stale,
  );
  counter(
    'transform_faults',
    'Objects that could not be transformed.',
    ({ transformFaults }) => transformFaults,
  );
  family.counter(
    'errors',
    'Failed lists and watches, by reason.',
    () =>
      [...reflectors].flatMap(([reflector, counted]) =>
        Object.entries(counted.stats().errors).map(([reason, value]) => ({
          labels: { reflector, reason },
          value,
        })),
      ),
    ['reflector', 'reason'],
  );
  gauge('objects', 'Objects in the cache.', ({ objects }) => objects);
  gauge('bytes', 'Memory allocated for the objects.', ({ bytes }) => bytes);
  gauge(
    'age_seconds',
    'Time since the last message of the server; bookmarks arrive about once a minute.',
    ({ ageMs }) => ageMs / 1000,
  );
  return {
    add: (name, reflector) => void reflectors.set(name, reflector),
    remove: (name) => void reflectors.delete(name),
  };
}
