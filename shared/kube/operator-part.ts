/**
 * What a guard runs once per cluster: its part of the operator.
 *
 * @module
 */
import type { Health } from '../observe/health.ts';
import type { Logger } from '../observe/log.ts';
import type { KubeClient } from './client.ts';
import type { Clock } from './clock.ts';
import type { SharedMetrics } from './shared-metrics.ts';

/** What the part of every guard takes. */
export interface OperatorPartOptions {
  readonly client: KubeClient;
  /** Stops it: the work is ended and the lease given back. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics?: SharedMetrics;
  readonly health?: Health;
  /** In the lease and in events. Default: the host's name and a random part. */
  readonly identity?: string;
  readonly clock?: Clock;
}
