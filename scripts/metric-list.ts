/** The metrics that each process serves: it registers here what it registers there. */
import { addOtlpMetrics } from '../lib/otlp/metrics.ts';
import { registerAgentMetrics } from '../apps/agent/agent-metrics.ts';
import { guards } from '../apps/guards.ts';
import type { MetricsRegistry } from '../guard/guard.ts';
import { registerGuardMetrics } from '../guard/guard-states.ts';
import { FindingCounts } from '../guard/stream/finding-counts.ts';
import { registerDropped } from '../guard/stream/finding-output.ts';
import { foldedMetric } from '../guards/policy-audit/findings/policy-findings.ts';
import { EvaluationMetrics } from '../guards/policy-audit/server/evaluation-metrics.ts';
import { registerTraffic, Traffic } from '../lib/apiserver/http/traffic.ts';
import { type Counted, registerServer } from '../lib/apiserver/server.ts';
import { shareMetrics } from '../lib/kube/controller/shared-metrics.ts';
import { Health } from '../lib/telemetry/health.ts';
import type { MetricDefinition } from '../lib/telemetry/metrics.ts';
import { registerProcessMetrics } from '../lib/telemetry/process-metrics.ts';

export interface ListedMetric extends MetricDefinition {
  readonly type: 'counter' | 'gauge' | 'histogram';
}

/** Which processes serve something beside what is listed for guards. */
export const processes = ['agent', 'operator', 'apiserver', 'policy-server'] as const;

/** The registered metrics, in this order. Nothing is read. */
export function listed(register: (metrics: MetricsRegistry) => void): readonly ListedMetric[] {
  const found: ListedMetric[] = [];
  const add =
    (type: ListedMetric['type']) =>
    (definition: MetricDefinition): void =>
      void found.push({ ...definition, type });
  register({ counter: add('counter'), gauge: add('gauge'), histogram: add('histogram') });
  return found;
}

/** A process's metrics with any guards. */
export function processMetrics(process: (typeof processes)[number]): readonly ListedMetric[] {
  return listed((metrics) => {
    registerProcessMetrics(metrics, '');
    if (process === 'agent') registerAgentMetrics(metrics, new Health());
    if (process !== 'apiserver') {
      registerDropped(metrics, { dropped: 0 });
      new FindingCounts().register(metrics);
      addOtlpMetrics(metrics);
    }
    if (process === 'agent' || process === 'operator') {
      shareMetrics(metrics);
      registerGuardMetrics(metrics, {});
    }
    if (process === 'apiserver') {
      registerTraffic(metrics, new Traffic());
      // Only readings look at it.
      registerServer(metrics, {} as Counted);
    }
    if (process === 'policy-server') {
      new EvaluationMetrics().register(metrics);
      metrics.counter(foldedMetric, () => 0);
    }
  });
}

/** A guard's further metrics of the agent and of the operator. */
export async function guardMetrics({
  metrics,
}: (typeof guards)[number]): Promise<Readonly<Record<'agent' | 'operator', readonly ListedMetric[]>>> {
  const { node, cluster } = (await metrics?.()) ?? {};
  return {
    agent: listed((registry) => node?.(registry)),
    operator: listed((registry) => cluster?.(registry)),
  };
}

/** All of them, each once, by name. */
export async function allMetrics(): Promise<ReadonlyMap<string, ListedMetric>> {
  const ofGuards = await Promise.all(guards.map(guardMetrics));
  const all = [
    ...processes.flatMap(processMetrics),
    ...ofGuards.flatMap(({ agent, operator }) => [...agent, ...operator]),
  ];
  return new Map(all.map((one) => [one.name, one]));
}
