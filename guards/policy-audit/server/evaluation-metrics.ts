/** The metrics of Kubewarden's policy-server, under its names: users have dashboards and alerts for them. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import type { Evaluation } from '../policies/open-policy.ts';
import { Histogram } from '../../../lib/telemetry/histogram.ts';

/** One evaluation of a policy of Kubewarden. */
export interface Evaluated {
  readonly policyName: string;
  readonly policyMode: string;
  readonly origin: 'audit' | 'validate';
  readonly namespace: string | undefined;
  readonly kind: string | undefined;
  readonly operation: string | undefined;
  /** Whether the policy accepted the request, whatever its mode. */
  readonly accepted: boolean;
  readonly mutated: boolean;
  readonly errorCode: number | undefined;
}

/**
 * An evaluation in the form that a policy server records. @returns undefined for what no policy server records:
 * other policies, and those that do not apply
 */
export function evaluatedOf(
  { policy, request, judgement }: Evaluation,
  origin: Evaluated['origin'],
): Evaluated | undefined {
  const { namespace, kind, operation } = request;
  if (policy.source !== 'kubewarden' || judgement.type === 'skipped') return undefined;
  const verdict = judgement.type === 'verdict' ? judgement.verdict : { allowed: false, code: 500 };
  return {
    ...{ policyName: policy.id, policyMode: policy.mode, origin, namespace, kind: kind.kind, operation },
    accepted: verdict.allowed,
    mutated: 'mutated' in verdict && verdict.mutated !== undefined,
    errorCode: verdict.allowed ? undefined : verdict.code,
  };
}

const labelNames = [
  'policy_name',
  'policy_mode',
  'resource_namespace',
  'resource_kind',
  'resource_request_operation',
  'accepted',
  'mutated',
  'request_origin',
  'error_code',
];
/** OpenTelemetry's default bounds. */
const boundsMs = [0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000];
/** With more series than this, namespaces and kinds are no longer distinguished: each series takes memory here and in Prometheus. */
const MAX_SERIES = 5000;

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  readonly latency: Histogram;
}

export class EvaluationMetrics {
  readonly #series = new Map<string, Series>();
  readonly #problems = new Map<string, number>();

  record(evaluated: Evaluated, latencyMs: number): void {
    this.#seriesOf(evaluated).latency.add(latencyMs);
  }

  /** Counts a request to a policy that cannot run. */
  recordProblem(policyName: string): void {
    this.#problems.set(policyName, (this.#problems.get(policyName) ?? 0) + 1);
  }

  register(metrics: MetricsRegistry): void {
    metrics.counter(
      {
        name: 'kubewarden_policy_evaluations_total',
        help: 'Requests that policies evaluated.',
        labelNames: [...labelNames, 'initialization_error'],
      },
      () => [
        ...Array.from(this.#series.values(), ({ labels, latency }) => ({ labels, value: latency.count })),
        ...Array.from(this.#problems, ([name, value]) => ({
          labels: { policy_name: name, initialization_error: 'true' },
          value,
        })),
      ],
    );
    metrics.histogram(
      {
        name: 'kubewarden_policy_evaluation_latency_milliseconds',
        help: 'Duration of policy evaluations.',
        labelNames,
      },
      () => Array.from(this.#series.values(), ({ labels, latency }) => ({ labels, ...latency.read() })),
    );
  }

  #seriesOf(evaluated: Evaluated): Series {
    const { policyName, policyMode, origin, namespace, kind, operation } = evaluated;
    const { accepted, mutated, errorCode } = evaluated;
    const object = `${namespace ?? ''}\n${kind ?? ''}\n${operation ?? ''}`;
    const key = `${policyName}\n${policyMode}\n${origin}\n${object}\n${accepted}\n${mutated}\n${errorCode}`;
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    if (this.#series.size >= MAX_SERIES && (namespace ?? kind) !== undefined) {
      return this.#seriesOf({ ...evaluated, namespace: undefined, kind: undefined });
    }
    const series = { labels: labelsOf(evaluated), latency: new Histogram(boundsMs) };
    this.#series.set(key, series);
    return series;
  }
}

function labelsOf(evaluated: Evaluated): Record<string, string> {
  const { namespace, kind, operation, errorCode } = evaluated;
  return {
    policy_name: evaluated.policyName,
    policy_mode: evaluated.policyMode,
    request_origin: evaluated.origin,
    accepted: String(evaluated.accepted),
    mutated: String(evaluated.mutated),
    ...(namespace !== undefined && { resource_namespace: namespace }),
    ...(kind !== undefined && { resource_kind: kind }),
    ...(operation !== undefined && { resource_request_operation: operation }),
    ...(errorCode !== undefined && { error_code: String(errorCode) }),
  };
}
