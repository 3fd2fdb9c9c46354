/** Counts findings: since the start of the process, for metrics; and in the last 24 hours, by hour, for people. */
import { type Clock, systemClock } from '../../lib/time/clock.ts';
import type { MetricsRegistry } from '../guard.ts';
import { type Severity, severityOf } from './finding.ts';

const HOUR_MS = 3_600_000;
const HOURS = 24;

/** Counts of one guard in one hour. */
export interface HourCount {
  readonly guard: string;
  /** The start of the hour: RFC 3339, UTC. */
  readonly hour: string;
  /** The number of findings by severity; severities without findings are omitted. */
  readonly findings: Readonly<Partial<Record<Severity, number>>>;
}

type BySeverity = Partial<Record<Severity, number>>;

export class FindingCounts {
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #totals = new Map<string, BySeverity>();
  /** Keyed by the start of the hour, oldest first; then by guard. */
  readonly #hours = new Map<number, Map<string, BySeverity>>();

  constructor(clock: Pick<Clock, 'wallMs'> = systemClock) {
    this.#clock = clock;
  }

  /** @param line - A finding; a line without a severity counts as `info`. */
  add(guard: string, line: string): void {
    const severity = severityOf(line) ?? 'info';
    const nowMs = this.#clock.wallMs();
    const hourMs = nowMs - (nowMs % HOUR_MS);
    let hour = this.#hours.get(hourMs);
    if (hour === undefined) {
      this.#forget(hourMs);
      this.#hours.set(hourMs, (hour = new Map<string, BySeverity>()));
    }
    count(this.#totals, guard, severity);
    count(hour, guard, severity);
  }

  /** The last 24 hours and the current one, oldest first. Hours without findings are left out. */
  hours(): HourCount[] {
    const nowMs = this.#clock.wallMs();
    this.#forget(nowMs - (nowMs % HOUR_MS));
    return [...this.#hours]
      .toSorted(([a], [b]) => a - b)
      .flatMap(([hourMs, guards]) =>
        [...guards].map(([guard, findings]) => ({
          guard,
          hour: new Date(hourMs).toISOString(),
          findings: { ...findings },
        })),
      );
  }

  /** Registers `rampart_findings_total`. @throws if the registry already has it. */
  register(metrics: MetricsRegistry | undefined): void {
    metrics?.counter(
      {
        name: 'rampart_findings_total',
        help: 'Findings that guards wrote to the stream.',
        labelNames: ['guard', 'severity'],
      },
      () =>
        [...this.#totals].flatMap(([guard, findings]) =>
          Object.entries(findings).map(([severity, value]) => ({ labels: { guard, severity }, value })),
        ),
    );
  }

  /** Drops hours that are too old, and those in the future: the clock was set back. */
  #forget(hourMs: number): void {
    for (const known of this.#hours.keys())
      if (known < hourMs - HOURS * HOUR_MS || known > hourMs) this.#hours.delete(known);
  }
}

function count(counts: Map<string, BySeverity>, guard: string, severity: Severity): void {
  const known = counts.get(guard) ?? {};
  known[severity] = (known[severity] ?? 0) + 1;
  counts.set(guard, known);
}
