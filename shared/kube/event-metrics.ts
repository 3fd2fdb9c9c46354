/**
 * What a recorder of events counts, for Prometheus.
 *
 * @module
 */
import type { Metrics } from '../observe/metrics.ts';
import type { EventRecorder } from './event-recorder.ts';

/** Registers `rampart_events_*` for the recorder of the process. @throws when the registry has them already. */
export function registerEventMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge'>,
  recorder: Pick<EventRecorder, 'stats'>,
): void {
  metrics.counter(
    {
      name: 'rampart_events_total',
      help: 'Kubernetes events, by what became of them.',
      labelNames: ['outcome'],
    },
    () => {
      const { recorded: _all, waiting: _now, ...outcomes } = recorder.stats();
      return Object.entries(outcomes).map(([outcome, value]) => ({ labels: { outcome }, value }));
    },
  );
  metrics.gauge(
    { name: 'rampart_events_waiting', help: 'Kubernetes events that wait to be written, as objects.' },
    () => recorder.stats().waiting,
  );
}
