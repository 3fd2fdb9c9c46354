/** Metrics of an agent besides those of its guards; the same in `rampart standalone`. */
import type { Metrics } from '../../shared/observe/metrics.ts';

/** Read at a scrape. */
interface ProcessReadings {
  readonly isReady: () => boolean;
  /** Lines that stdout did not take. */
  readonly linesDropped: () => number;
}

/** @throws when the registry has them already. */
export function registerProcessMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge'> | undefined,
  { isReady, linesDropped }: ProcessReadings,
): void {
  metrics?.gauge({ name: 'rampart_agent_ready', help: '1 once the state of the node is known.' }, () =>
    isReady() ? 1 : 0,
  );
  metrics?.counter(
    {
      name: 'rampart_alert_lines_dropped_total',
      help: 'Alert lines dropped because stdout was too slow or closed.',
    },
    linesDropped,
  );
}
