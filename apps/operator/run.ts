/**
 * `rampart operator` at work.
 *
 * @module
 */
import { KubeClient } from '../../shared/kube/client.ts';
import { Health } from '../../shared/observe/health.ts';
import { createLogger } from '../../shared/observe/log.ts';
import { shareMetrics } from '../../shared/kube/shared-metrics.ts';
import { clusterAccess } from '../cluster.ts';
import { observe, runParts, say, sayInLog, stopSignal } from '../process.ts';
import type { OperatorOptions } from './command.ts';
import { runClusterGuards } from './guards.ts';

/**
 * Runs until SIGINT or SIGTERM.
 *
 * @throws {RampartError} `INPUT` where no cluster is named or an option cannot work.
 */
export async function runOperator(options: OperatorOptions): Promise<void> {
  const access = clusterAccess(options.kubeconfig);
  const logger = createLogger();
  sayInLog(logger);
  const stop = stopSignal();
  const health = new Health();
  await using observed = await observe(options.metrics, health);
  const metrics = observed.metrics && shareMetrics(observed.metrics);
  using client = new KubeClient(access);
  say(`looking after ${access.server.href}`);
  await runParts(stop, logger, {
    'what the cluster needs': runClusterGuards({ client, signal: stop.signal, logger, metrics, health }),
  });
  say('stopping');
}
