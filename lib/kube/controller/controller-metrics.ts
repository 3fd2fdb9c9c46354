import { metricFamily } from '../../telemetry/metric-family.ts';
import type { Metrics, Reading } from '../../telemetry/metrics.ts';
import type { QueueStats } from './workqueue.ts';

interface Counted {
  stats(): QueueStats;
}

/** The metrics of all running controllers; one instance for the process. */
export interface ControllerMetrics {
  /** From now on `name` is among the readings. A second controller of the same name replaces the first. */
  add(name: string, queue: Counted, outcomes: Readonly<Record<Outcome, number>>): void;
  remove(name: string): void;
}

interface Source {
  readonly queue: Counted;
  readonly outcomes: Readonly<Record<Outcome, number>>;
}

/** `rampart_reconciles_total`, `rampart_workqueue_*`, by `controller`. @throws when registered already. */
export function createControllerMetrics(metrics: Pick<Metrics, 'counter' | 'gauge'>): ControllerMetrics {
  const sources = new Map<string, Source>();
  const perQueue = (value: (stats: QueueStats) => number) => (): Reading =>
    [...sources].map(([controller, { queue }]) => ({ labels: { controller }, value: value(queue.stats()) }));
  const family = metricFamily(metrics, 'rampart_workqueue', ['controller']);
  const counter = (name: string, help: string, value: (stats: QueueStats) => number): void =>
    family.counter(name, help, perQueue(value));
  const gauge = (name: string, help: string, value: (stats: QueueStats) => number): void =>
    family.gauge(name, help, perQueue(value));

  metrics.counter(
    {
      name: 'rampart_reconciles_total',
      help: 'Completed reconciles, by result.',
      labelNames: ['controller', 'outcome'],
    },
    () =>
      [...sources].flatMap(([controller, { outcomes }]) =>
        Object.entries(outcomes).map(([outcome, value]) => ({ labels: { controller, outcome }, value })),
      ),
  );
  family.gauge(
    'depth',
    'Keys waiting for a worker, by priority (0 is the highest).',
    () =>
      [...sources].flatMap(([controller, { queue }]) =>
        queue.stats().depth.map((value, level) => ({ labels: { controller, level: `${level}` }, value })),
      ),
    ['controller', 'level'],
  );
  gauge('delayed', 'Keys scheduled for later.', ({ delayed }) => delayed);
  gauge('processing', 'Keys being processed.', ({ processing }) => processing);
  gauge(
    'longest_running_seconds',
    'Time since the oldest key in progress was started.',
    ({ longestRunningMs }) => longestRunningMs / 1000,
  );
  counter('adds', 'Keys added, including repeated ones.', ({ added }) => added);
  counter('retries', 'Keys added after a failure.', ({ retried }) => retried);
  counter('done', 'Keys processed.', ({ done }) => done);
  counter(
    'latency_seconds',
    'Total time that keys waited for a worker.',
    ({ latencyMsSum }) => latencyMsSum / 1000,
  );
  counter('work_seconds', 'Total processing time of keys.', ({ durationMsSum }) => durationMsSum / 1000);
  return {
    add: (name, queue, outcomes) => void sources.set(name, { queue, outcomes }),
    remove: (name) => void sources.delete(name),
  };
}

/** How reconciles ended, for counters. */
export type Outcome = 'done' | 'requeue' | 'error' | 'timeout' | 'cancelled';
