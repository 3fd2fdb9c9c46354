/** Counts of findings in each of the last 24 hours, including findings that are no longer kept. */
import type { HourCount } from '../../guard/stream/finding-counts.ts';
import type { FindingHead, Severity } from '../../guard/stream/finding.ts';

const HOUR_MS = 3_600_000;
const HOURS = 24;

type Counts = Map<string, Partial<Record<Severity, number>>>;

export class FindingHours {
  /** Counts of processes that have ended, keyed by hour and guard. */
  #before: Counts = new Map<string, Partial<Record<Severity, number>>>();
  /** Counts of the running process. */
  #now: Counts = new Map<string, Partial<Record<Severity, number>>>();

  /**
   * Replaces the counts of a process by those that the process itself reports.
   *
   * @param about - The head of its socket; parts that are not understood are left out.
   * @param isOther - Whether this is another process than the one counted so far.
   */
  takeOver(about: unknown, isOther: boolean): void {
    if (isOther) {
      for (const [key, counts] of this.#now) addAll(this.#before, key, counts);
    }
    this.#now.clear();
    const { hours } = (about ?? {}) as { readonly hours?: unknown };
    if (!Array.isArray(hours)) return;
    for (const { guard, hour, findings } of hours as Partial<HourCount>[])
      if (typeof guard === 'string' && typeof hour === 'string' && findings)
        addAll(this.#now, keyOf(guard, Date.parse(hour)), findings);
  }

  add({ guard, severity }: Pick<FindingHead, 'guard' | 'severity'>, timeMs: number): void {
    addAll(this.#now, keyOf(guard, timeMs), { [severity]: 1 });
  }

  /** The last 24 hours including the current one, oldest first; hours without findings are left out. */
  last(nowMs: number): HourCount[] {
    const sinceMs = hourOf(nowMs) - (HOURS - 1) * HOUR_MS;
    const all: Counts = new Map<string, Partial<Record<Severity, number>>>();
    for (const counts of [this.#before, this.#now]) {
      for (const [key, findings] of counts) {
        if (msOf(key) < sinceMs) counts.delete(key);
        else addAll(all, key, findings);
      }
    }
    return [...all]
      .toSorted(([a], [b]) => msOf(a) - msOf(b))
      .map(([key, findings]) => ({
        guard: key.slice(key.indexOf(' ') + 1),
        hour: new Date(msOf(key)).toISOString(),
        findings,
      }));
  }
}

function hourOf(timeMs: number): number {
  return timeMs - (timeMs % HOUR_MS);
}

function keyOf(guard: string, timeMs: number): string {
  return `${hourOf(timeMs)} ${guard}`;
}

function msOf(key: string): number {
  return Number(key.slice(0, key.indexOf(' ')));
}

function addAll(to: Counts, key: string, counts: Partial<Record<Severity, number>>): void {
  const sum = { ...to.get(key) };
  for (const [severity, count] of Object.entries(counts) as [Severity, number][])
    sum[severity] = (sum[severity] ?? 0) + count;
  to.set(key, sum);
}
