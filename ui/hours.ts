import type { HourCount } from '../guard/stream/finding-counts.ts';

const HOUR_MS = 3_600_000;

export interface Total {
  readonly all: number;
  readonly guards: ReadonlyMap<string, number>;
}

export function totalOf(hours: readonly HourCount[]): Total {
  const guards = new Map<string, number>();
  let all = 0;
  for (const { guard, findings } of hours) {
    const count = sumOf(findings);
    all += count;
    guards.set(guard, (guards.get(guard) ?? 0) + count);
  }
  return { all, guards };
}

/** The number of a guard's findings in each of the last 24 hours; the last number is for the present hour. */
export function hourly(hours: readonly HourCount[], guard: string, nowMs: number): number[] {
  const startMs = nowMs - (nowMs % HOUR_MS) - 23 * HOUR_MS;
  const counts = Array.from({ length: 24 }, () => 0);
  for (const { guard: of, hour, findings } of hours) {
    const at = Math.round((Date.parse(hour) - startMs) / HOUR_MS);
    if (of === guard && at >= 0 && at < 24) counts[at] = (counts[at] ?? 0) + sumOf(findings);
  }
  return counts;
}

function sumOf(findings: HourCount['findings']): number {
  return Object.values(findings).reduce((sum, count) => sum + count, 0);
}
