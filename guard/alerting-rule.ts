/**
 * An alerting rule for Prometheus (https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/). deploy/monitoring/ and
 * docs/monitoring.md are generated from the rules; test/monitoring/ has, for each rule, states that make it fire and states that do not.
 *
 * @example
 * const doorStuck: AlertingRule = {
 *   name: 'RampartDoorStuck',
 *   expr: 'rampart_door_stuck > 0',
 *   for: '5m',
 *   severity: 'warning',
 *   summary: 'A door of {{ $labels.node }} does not close.',
 *   what: 'A door was open for five minutes.',
 *   why: 'Whoever passes it is not asked for a key.',
 *   next: 'Run `rampart door` on the node.',
 * };
 */
export interface AlertingRule {
  /** In CamelCase; the value of the label `alertname`. */
  readonly name: string;
  readonly expr: string;
  /** How long `expr` has to hold, such as `5m`. Default: a single evaluation is enough. */
  readonly for?: string;
  /** `critical`: something is not guarded. `warning`: something is lost, or will not be guarded. `info`: worth a look. */
  readonly severity: 'critical' | 'warning' | 'info';
  /** Labels besides the severity. */
  readonly labels?: Readonly<Record<string, string>>;
  /** One line, with `{{ $labels.x }}` for labels of `expr`. */
  readonly summary: string;
  /** What has happened. */
  readonly what: string;
  /** Why it matters, and what usually causes it. */
  readonly why: string;
  /** What to do. */
  readonly next: string;
}
