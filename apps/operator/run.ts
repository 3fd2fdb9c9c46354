import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

import manifest from '../../package.json' with { type: 'json' };
import type { Guard } from '../../guard/guard.ts';
import { GuardStates } from '../../guard/guard-states.ts';
import { runUntilRemoved } from '../../guard/give-back.ts';
import { operatorWorkload } from '../../guard/removal.ts';
import { FindingStream } from '../../guard/stream/finding-stream.ts';
import { exportFindings } from '../../guard/stream/otlp-export.ts';
import { FindingOutput, registerDropped } from '../../guard/stream/finding-output.ts';
import { runClusterParts } from '../../guard/run-guards.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { shareMetrics } from '../../lib/kube/controller/shared-metrics.ts';
import { Health } from '../../lib/telemetry/health.ts';
import { registerProcessMetrics } from '../../lib/telemetry/process-metrics.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { ReportWriter } from '../../guard/reports/report-writer.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { chosenGuards, guardProcess, metricsPathsOf } from '../../guard/guard-process.ts';
import { observe, runParts, say, sayInLog, stopSignal } from '../../lib/cli/process.ts';
import type { OperatorOptions } from './command.ts';

/** Runs until SIGINT, SIGTERM or the reader of stdout is gone. @throws {RampartError} `INPUT` without a cluster or for a bad option. */
export async function runOperator(all: readonly Guard[], options: OperatorOptions): Promise<void> {
  const guards = chosenGuards(all, options);
  const access = clusterAccess({ kubeconfig: options.kubeconfig, context: options.context });
  const logger = createLogger();
  sayInLog(logger);
  const reported = stopSignal();
  const stop = new AbortController();
  const { signal } = stop;
  const health = new Health();
  await using observed = await observe({ ...options, paths: metricsPathsOf(guards) }, health);
  registerProcessMetrics(observed.metrics, manifest.version);
  await using out = new FindingOutput(() => reported.abort());
  registerDropped(observed.metrics, out);
  const stream = new FindingStream();
  stream.to((_guard, line) => out.write(line));
  await using _exporter = await exportFindings({
    ...{ guards: all, stream, nodeName: '', metrics: observed.metrics, logger },
    ...{ endpoint: options.otlpEndpoint, directory: options.otlpQueue, version: manifest.version },
  });
  // Audits write many reports; the API server's priority levels ensure that other clients do not wait for them.
  using client = new KubeClient(access, { perSecond: 2000, burst: 4000 });
  const states = new GuardStates(guards.filter(({ cluster }) => cluster).map(({ name }) => name));
  const process = guardProcess({
    ...{ client, logger, health },
    identity: `${hostname()}_${randomUUID()}`,
    metrics: observed.metrics,
    shared: observed.metrics && shareMetrics(observed.metrics),
    states: { cluster: states },
    stream,
    fail: (error) => stop.abort(error),
  });
  await using _caches = process.caches;
  say(`managing ${access.server.href}`);
  await runUntilRemoved(
    stop,
    { ...process, guards, reported: reported.signal, workload: operatorWorkload },
    () =>
      runParts(
        stop,
        { ...observed, logger },
        {
          guards: runClusterParts(
            { guards, process, values: options, signal, states },
            { reports: new ReportWriter({ client, logger }) },
          ),
        },
      ),
  );
  out.throwIfFailed();
  say('stopping');
}
