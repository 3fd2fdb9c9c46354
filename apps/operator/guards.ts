/**
 * All that the guards run once per cluster.
 *
 * @module
 */
import type { KubeClient } from '../../shared/kube/client.ts';
import type { SharedMetrics } from '../../shared/kube/shared-metrics.ts';
import type { Health } from '../../shared/observe/health.ts';
import type { Logger } from '../../shared/observe/log.ts';
import { ReportWriter } from '../../shared/reports/report-writer.ts';
import { runFileAccessCluster } from '../../systems/file-access/cluster.ts';
import { runFileIntegrityCluster } from '../../systems/file-integrity/cluster.ts';
import { runSideBySide } from '../side-by-side.ts';

export interface ClusterGuardsOptions {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics: SharedMetrics | undefined;
  readonly health?: Health;
  /** Its name in the leases: the same after a restart where no other process can have it. Default: a new one. */
  readonly identity?: string;
}

/** Runs until the signal aborts. Of several processes one works at a time, for each guard. */
export async function runClusterGuards({ metrics, ...options }: ClusterGuardsOptions): Promise<void> {
  const common = { ...options, ...(metrics && { metrics }) };
  const reports = new ReportWriter(options);
  await runSideBySide(
    {
      'the policies of files': (signal) => runFileAccessCluster({ ...common, signal }),
      'file integrity': (signal) => runFileIntegrityCluster({ ...common, signal, reports }),
    },
    options,
  );
}
