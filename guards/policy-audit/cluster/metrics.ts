/** The metrics of policies. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import { byLabel, metricFamily } from '../../../lib/telemetry/metric-family.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import type { Evaluation } from '../policies/open-policy.ts';
import { policyId } from '../policies/read-policy.ts';
import { evaluatedOf, EvaluationMetrics } from '../server/evaluation-metrics.ts';
import type { AdmissionAnswer } from '../admission/policy-admission.ts';
import { foldedMetric } from '../findings/policy-findings.ts';
import type { Policy } from '../policies/policy.ts';
import type { ReportResult } from '../reports/report.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';

/** Values of a scan, for the metrics. */
export interface ScanReadings {
  readonly objects: number;
  readonly failing: number;
  readonly errored: number;
  readonly writes: number;
  readonly deletions: number;
  readonly missed: number;
}

type Counts = Map<string, { readonly labels: Record<string, string>; value: number }>;

const nothing: ScanReadings = { objects: 0, failing: 0, errored: 0, writes: 0, deletions: 0, missed: 0 };

/** Values known to the leading process. */
export interface TermReadings {
  readonly scan: () => ScanReadings;
  /** Number of policies that can be evaluated. */
  readonly policies: () => number;
  readonly pass: () => PassSummary | undefined;
  /** Interval between two full passes. */
  readonly intervalMs: number;
  readonly kubewarden: () => Iterable<AnyKubewardenPolicy>;
}

/** The name of each PolicyServer, and how many of its pods answer. */
export type ReadyPods = () => Iterable<readonly [server: string, ready: number]>;

/** Registered once per process. Metrics that only the leader knows are served only while it leads. */
export class PolicyMetrics {
  readonly #evaluations: Counts = new Map();
  readonly #admissions: Counts = new Map();
  readonly #asKubewarden = new EvaluationMetrics();
  #term: TermReadings | undefined;
  #readyPods: ReadyPods = () => [];
  folded: () => number = () => 0;

  /** Serves the leader's readings until the result is disposed. */
  lead(readings: TermReadings): Disposable {
    this.#term = readings;
    return { [Symbol.dispose]: () => void (this.#term = undefined) };
  }

  /** Serves the numbers of ready pods until the result is disposed. */
  serve(readyPods: ReadyPods): Disposable {
    this.#readyPods = readyPods;
    return { [Symbol.dispose]: () => void (this.#readyPods = () => []) };
  }

  audited(evaluation: Evaluation, result: ReportResult | undefined): void {
    add(this.#evaluations, { policy: evaluation.policy.id, result: result?.result ?? 'skip' });
    this.evaluated(evaluation, 'audit');
  }

  evaluated(evaluation: Evaluation, origin: 'audit' | 'validate'): void {
    const evaluated = evaluatedOf(evaluation, origin);
    if (evaluated !== undefined) this.#asKubewarden.record(evaluated, evaluation.latencyMs);
  }

  admitted(policy: Policy, answer: AdmissionAnswer, operation: string): void {
    add(this.#admissions, { policy: policy.id, mode: policy.mode, operation, answer });
  }

  register(metrics: MetricsRegistry): void {
    const { counter, gauge } = metricFamily(metrics, 'rampart_policy');
    const evaluations = () => this.#evaluations.values();
    counter('audit_evaluations', 'Policy evaluations by audits.', evaluations, ['policy', 'result']);
    const admissions = () => this.#admissions.values();
    const ofAnswers = ['policy', 'mode', 'operation', 'answer'];
    counter('admission_answers', 'Responses of policies to writes.', admissions, ofAnswers);
    const scan = (): ScanReadings => this.#term?.scan() ?? nothing;
    counter('report_writes', 'Reports written by audits.', () => scan().writes);
    counter('report_deletions', 'Reports deleted by audits.', () => scan().deletions);
    counter(
      'audit_missed',
      'Changed objects that the watch reported and that no audit covered until the next full pass.',
      () => scan().missed,
    );
    const led = (read: (term: TermReadings) => number | undefined) => () => {
      const value = this.#term && read(this.#term);
      return value === undefined ? [] : [{ labels: {}, value }];
    };
    gauge(
      'policies',
      'Policies that can be evaluated.',
      led(({ policies }) => policies()),
    );
    metrics.counter(foldedMetric, () => this.folded());
    const objects = () => {
      if (this.#term === undefined) return [];
      const { objects: all, failing, errored } = scan();
      return byLabel('result', { pass: all - failing - errored, fail: failing, error: errored });
    };
    gauge('objects', 'Objects that policies apply to, by result.', objects, ['result']);
    gauge(
      'audit_pass_seconds',
      'Duration of the last full pass.',
      led(({ pass }) => pass()?.seconds),
    );
    gauge(
      'last_audit_pass_timestamp_seconds',
      'When the last full pass ended, since the Unix epoch.',
      led(({ pass }) => {
        const summary = pass();
        return summary && summary.endedMs / 1000;
      }),
    );
    gauge(
      'audit_interval_seconds',
      'Time from one full pass to the next.',
      led(({ intervalMs }) => intervalMs / 1000),
    );
    gauge(
      'server_ready_pods',
      'Pods of a PolicyServer that answer webhooks.',
      () =>
        Array.from(this.#readyPods(), ([server, value]) => ({ labels: { policy_server: server }, value })),
      ['policy_server'],
    );
    this.#registerAsKubewarden(metrics);
  }

  /** Registers metrics with the names and labels of Kubewarden's policy server and controller, for which users have dashboards. */
  #registerAsKubewarden(metrics: MetricsRegistry): void {
    this.#asKubewarden.register(metrics);
    const labelNames = [
      ...['name', 'policy_server', 'module', 'mutating', 'namespace', 'failure_policy', 'policy_status'],
    ];
    metrics.counter(
      { name: 'kubewarden_policy_total', help: '1 for each policy, with its status.', labelNames },
      () =>
        Array.from(this.#term?.kubewarden() ?? [], (policy) => {
          const { spec, metadata, status } = policy;
          const [name = '', policy_server = '', module = '', failure_policy = '', policy_status = ''] = [
            ...[policyId(policy), spec.policyServer, 'module' in spec ? spec.module : ''],
            ...[spec.failurePolicy, status?.policyStatus],
          ];
          return {
            labels: {
              ...{ name, policy_server, module, mutating: String('mutating' in spec && spec.mutating) },
              ...{ namespace: metadata.namespace ?? '', failure_policy, policy_status },
            },
            value: 1,
          };
        }),
    );
  }
}

function add(counts: Counts, labels: Record<string, string>): void {
  // Labels are words and policy IDs: none contains a space.
  const key = Object.values(labels).join(' ');
  const found = counts.get(key);
  if (found === undefined) counts.set(key, { labels, value: 1 });
  else found.value++;
}
