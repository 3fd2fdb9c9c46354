/** Metrics of an agent besides those of its guards; the same in `rampart standalone`. */
import type { Health } from '../../lib/telemetry/health.ts';
import type { Metrics } from '../../lib/telemetry/metrics.ts';
import type { FindingOutput } from '../../guard/stream/finding-output.ts';

/** @throws when the registry has them already. */
export function registerAgentMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge'> | undefined,
  health: Pick<Health, 'readiness'>,
  out: Pick<FindingOutput, 'dropped'>,
): void {
  metrics?.gauge({ name: 'rampart_agent_ready', help: '1 once the state of the node is known.' }, () =>
    health.readiness().ok ? 1 : 0,
  );
  metrics?.counter(
    {
      name: 'rampart_alert_lines_dropped_total',
      help: 'Alert lines dropped because stdout was too slow or closed.',
    },
    () => out.dropped,
  );
}
