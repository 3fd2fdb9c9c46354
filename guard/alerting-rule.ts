/**
 * An alerting rule for Prometheus (https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/). deploy/monitoring/ and
 * docs/monitoring.md are made of them; test/monitoring/ has what makes each of them fire, and what does not.
 */
export interface AlertingRule {
  /** In CamelCase: its label `alertname`. */
  readonly name: string;
  readonly expr: string;
  /** How long `expr` has to hold, such as `5m`. Default: an evaluation. */
  readonly for?: string;
  /** `critical`: something is not guarded. `warning`: something is lost, or will not be guarded. `info`: worth a look. */
  readonly severity: 'critical' | 'warning' | 'info';
  /** Beside the severity. */
  readonly labels?: Readonly<Record<string, string>>;
  /** One line, with `{{ $labels.x }}` for labels of `expr`. */
  readonly summary: string;
  /** The event that happened. */
  readonly what: string;
  /** Why it matters, and what usually causes it. */
  readonly why: string;
  /** The action to take. */
  readonly next: string;
}
