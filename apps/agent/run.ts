/**
 * `rampart agent` at work.
 *
 * @module
 */
import { KubeClient } from '../../shared/kube/client.ts';
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { Health } from '../../shared/observe/health.ts';
import { createLogger } from '../../shared/observe/log.ts';
import { parseCallbackDefaults } from '../../systems/file-access/callback-defaults.ts';
import { shareMetrics } from '../../shared/kube/shared-metrics.ts';
import type { NodeState } from '../../systems/file-access/node.ts';
import { clusterAccess } from '../cluster.ts';
import { observe, runParts, say, sayInLog, stopSignal } from '../process.ts';
import { agentAlertsSocket, openAlertFeed } from './alert-feed.ts';
import { AlertOutput } from './alert-output.ts';
import type { AgentOptions } from './command.ts';
import { runNodeGuards } from './guards.ts';
import { nodeIntegrityOptions } from './integrity-options.ts';
import { returnMemoryWhenIdle } from './idle-memory.ts';
import { NodeRuntime } from './node-runtime.ts';
import { registerProcessMetrics } from './process-metrics.ts';

/** A policy for all containers of a node is some hundred writes at once; API servers say themselves when it is too much. */
const agentRate = { perSecond: 200, burst: 400 } as const;

/**
 * Runs until SIGINT, SIGTERM or the reader of stdout is gone.
 *
 * @throws {RampartError} `INPUT`, `PRIVILEGE` or `UNSUPPORTED` before anything was changed.
 */
export async function runAgent(options: AgentOptions): Promise<void> {
  const { nodeName = '' } = options;
  if (nodeName === '') {
    throw new RampartError(errorCodes.INPUT, {
      what: 'the name of this node is not known',
      next: 'Set NODE_NAME (in a pod from spec.nodeName), or use --node-name.',
    });
  }
  const callbackSecrets = parseCallbackDefaults(options.callbackSecret);
  const integrity = nodeIntegrityOptions(options, options.integrityDirectory);
  const access = clusterAccess(options.kubeconfig);
  const logger = createLogger();
  sayInLog(logger);
  const stop = stopSignal();
  let state: NodeState | undefined;
  const health = new Health();
  health.ready('file-access-node', () => (state?.ready === true ? undefined : 'it has not begun yet'));
  await using observed = await observe(options.metrics, health);
  const own = observed.metrics;
  const metrics = own && { own, shared: shareMetrics(own) };
  await using out = new AlertOutput(() => stop.abort());
  registerProcessMetrics(own, { isReady: () => state?.ready === true, linesDropped: () => out.dropped });
  const { alertsSocket } = options;
  await using feed = await openAlertFeed(alertsSocket ?? agentAlertsSocket, alertsSocket !== undefined);
  using client = new KubeClient(access, agentRate);
  using _memory = returnMemoryWhenIdle({ letGo: () => client.closeUnusedConnections() });
  const containers = new NodeRuntime({ socketPath: options.criSocket, logger });
  health.ready('container-runtime', () => containers.problem);
  const { signal } = stop;
  say(`guarding node ${nodeName} of ${access.server.href}`);
  await runParts(stop, logger, {
    'the container runtime': containers.run(signal),
    'what guards the node': runNodeGuards({
      client,
      nodeName,
      containers,
      spoolDirectory: options.spool,
      allowCallbacks: options.allowCallback,
      callbackSecrets,
      sensorMode: options.mode,
      integrity,
      sink: (line) => {
        out.write(line);
        feed.push(line);
      },
      signal,
      logger,
      metrics,
      health,
      onState: (now) => {
        state = now;
      },
    }),
  });
  out.throwIfFailed();
  say('stopping');
}
