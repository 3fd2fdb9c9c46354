/** Metrics of an agent besides those of its guards; the same in `rampart standalone`. */
import type { Health } from '../../lib/telemetry/health.ts';
import type { Metrics } from '../../lib/telemetry/metrics.ts';

/** @throws if the registry already has them. */
export function registerAgentMetrics(
  metrics: Pick<Metrics, 'gauge'> | undefined,
  health: Pick<Health, 'readiness'>,
): void {
  metrics?.gauge({ name: 'rampart_agent_ready', help: '1 once the state of the node is known.' }, () =>
    health.readiness().ok ? 1 : 0,
  );
}
