/**
 * All that the guards run once per cluster.
 *
 * @module
 */
import type { KubeClient } from '../../shared/kube/client.ts';
import type { Health } from '../../shared/observe/health.ts';
import type { Logger } from '../../shared/observe/log.ts';
import type { SharedMetrics } from '../../shared/kube/shared-metrics.ts';
import { runFileAccessCluster } from '../../systems/file-access/cluster.ts';

export interface ClusterGuardsOptions {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics: SharedMetrics | undefined;
  readonly health?: Health;
  /** Its name in the lease: the same after a restart where no other process can have it. Default: a new one. */
  readonly identity?: string;
}

/** Runs until the signal aborts. Of several processes one works at a time. */
export async function runClusterGuards({ metrics, ...options }: ClusterGuardsOptions): Promise<void> {
  await runFileAccessCluster({ ...options, ...(metrics && { metrics }) });
}
