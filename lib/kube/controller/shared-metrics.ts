import type { Metrics } from '../../telemetry/metrics.ts';
import { type ControllerMetrics, createControllerMetrics } from './controller-metrics.ts';
import { createReflectorMetrics, type ReflectorMetrics } from '../cache/reflector-metrics.ts';

/** Metrics that a process has once, whatever it runs. */
export interface SharedMetrics {
  readonly metrics: Pick<Metrics, 'counter' | 'gauge' | 'histogram'>;
  readonly controllers: ControllerMetrics;
  readonly reflectors: ReflectorMetrics;
}

/** Registers what all parts of a process share. @throws when the registry has them already. */
export function shareMetrics(metrics: Pick<Metrics, 'counter' | 'gauge' | 'histogram'>): SharedMetrics {
  return {
    metrics,
    controllers: createControllerMetrics(metrics),
    reflectors: createReflectorMetrics(metrics),
  };
}
