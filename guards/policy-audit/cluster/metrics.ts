/** The metrics of policies. */
import type { MetricsRegistry } from '../../../guard/guard.ts';
import { byLabel, metricFamily } from '../../../lib/telemetry/metric-family.ts';
import type { AdmissionAnswer } from '../admission/policy-admission.ts';
import type { Policy } from '../policies/policy.ts';
import type { ReportResult } from '../reports/report.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';

/** What a scan provides for the metrics. */
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

/** Registered once in a process; each term of the lease sets the source. */
export class PolicyMetrics {
  readonly #evaluations: Counts = new Map();
  readonly #admissions: Counts = new Map();
  /** Of the running scanner. */
  scan: () => ScanReadings = () => nothing;
  policies: () => number = () => 0;
  pass: () => PassSummary | undefined = () => undefined;

  evaluated(policy: Policy, result: ReportResult | undefined): void {
    add(this.#evaluations, { policy: policy.id, result: result?.result ?? 'skip' });
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
    counter('report_writes', 'Reports written by audits.', () => this.scan().writes);
    counter('report_deletions', 'Reports deleted by audits.', () => this.scan().deletions);
    counter(
      'audit_missed',
      'Changed objects that the watch reported and that no audit covered until the next full pass.',
      () => this.scan().missed,
    );
    gauge('policies', 'Policies that can be evaluated.', () => this.policies());
    const objects = () => {
      const { objects: all, failing, errored } = this.scan();
      return byLabel('result', { pass: all - failing - errored, fail: failing, error: errored });
    };
    gauge('objects', 'Objects that policies apply to, by result.', objects, ['result']);
    gauge('audit_pass_seconds', 'Duration of the last full pass.', () => this.pass()?.seconds ?? 0);
  }
}

function add(counts: Counts, labels: Record<string, string>): void {
  // No label contains a space: they are words and policy IDs.
  const key = Object.values(labels).join(' ');
  const found = counts.get(key);
  if (found === undefined) counts.set(key, { labels, value: 1 });
  else found.value++;
}
