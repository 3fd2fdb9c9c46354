import type { Metrics, Reading } from './metrics.ts';

type Register = (name: string, help: string, read: () => Reading, labelNames?: readonly string[]) => void;

/** Registers metrics whose names begin with `prefix`. @param ofAll - The label names of metrics that are registered without any. */
export function metricFamily(
  metrics: Pick<Metrics, 'counter' | 'gauge'>,
  prefix: string,
  ofAll: readonly string[] = [],
): { readonly counter: Register; readonly gauge: Register } {
  return {
    counter: (name, help, read, labelNames = ofAll) =>
      metrics.counter({ name: `${prefix}_${name}_total`, help, labelNames }, read),
    gauge: (name, help, read, labelNames = ofAll) =>
      metrics.gauge({ name: `${prefix}_${name}`, help, labelNames }, read),
  };
}

/** A number for each value of one label. */
export function byLabel(label: string, values: Readonly<Record<string, number>>): Reading {
  return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }));
}
