import type { Metrics, Reading } from '../../telemetry/metrics.ts';

export interface ReflectorStats {
  readonly lists: number;
  readonly watches: number;
  /** Events of the server that changed something, or told of what was known. */
  readonly events: number;
  readonly bookmarks: number;
  /** Events, bookmarks and lists that were older than what was known, and were passed over. */
  readonly stale: number;
  /** What made it try again, by reason: `unreachable`, `expired`, `stale`, `limit`, `http_500`, ..., `other`. */
  readonly errors: Readonly<Record<string, number>>;
  /** Objects that `transform` failed on; they were taken as they are. */
  readonly transformFaults: number;
  readonly objects: number;
  /** Memory allocated for the objects. */
  readonly bytes: number;
  /** How long ago the server last told something: a list, an event, a bookmark. Infinity before the first list. */
  readonly ageMs: number;
}

interface Counted {
  stats(): ReflectorStats;
}

/** Takes the reflectors that run; one for the process. */
export interface ReflectorMetrics {
  /** From now on `name` is among the readings. A second reflector of the same name takes its place. */
  add(name: string, reflector: Counted): void;
  remove(name: string): void;
}

/** `rampart_reflector_*`, each with the label `reflector`. @throws when the registry has them already. */
export function createReflectorMetrics(metrics: Pick<Metrics, 'counter' | 'gauge'>): ReflectorMetrics {
  const reflectors = new Map<string, Counted>();
  const each = (value: (stats: ReflectorStats) => number) => (): Reading =>
    [...reflectors].map(([reflector, counted]) => ({ labels: { reflector }, value: value(counted.stats()) }));
  const counter = (name: string, help: string, value: (stats: ReflectorStats) => number): void =>
    metrics.counter({ name, help, labelNames: ['reflector'] }, each(value));
  const gauge = (name: string, help: string, value: (stats: ReflectorStats) => number): void =>
    metrics.gauge({ name, help, labelNames: ['reflector'] }, each(value));

  counter('rampart_reflector_lists_total', 'Completed lists.', ({ lists }) => lists);
  counter('rampart_reflector_watches_total', 'Started watches.', ({ watches }) => watches);
  counter('rampart_reflector_events_total', 'Watch events applied.', ({ events }) => events);
  counter('rampart_reflector_bookmarks_total', 'Watch bookmarks.', ({ bookmarks }) => bookmarks);
  counter(
    'rampart_reflector_stale_total',
    'Events, bookmarks and lists skipped because newer ones were known.',
    ({ stale }) => stale,
  );
  counter(
    'rampart_reflector_transform_faults_total',
    'Objects that could not be transformed.',
    ({ transformFaults }) => transformFaults,
  );
  metrics.counter(
    {
      name: 'rampart_reflector_errors_total',
      help: 'Failed lists and watches, by reason.',
      labelNames: ['reflector', 'reason'],
    },
    () =>
      [...reflectors].flatMap(([reflector, counted]) =>
        Object.entries(counted.stats().errors).map(([reason, value]) => ({
          labels: { reflector, reason },
          value,
        })),
      ),
  );
  gauge('rampart_reflector_objects', 'Objects in the cache.', ({ objects }) => objects);
  gauge('rampart_reflector_bytes', 'Memory allocated for the objects.', ({ bytes }) => bytes);
  gauge(
    'rampart_reflector_age_seconds',
    'Time since the last message of the server; bookmarks arrive about once a minute.',
    ({ ageMs }) => ageMs / 1000,
  );
  return {
    add: (name, reflector) => void reflectors.set(name, reflector),
    remove: (name) => void reflectors.delete(name),
  };
}
