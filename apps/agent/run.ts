import { randomUUID } from 'node:crypto';

import manifest from '../../package.json' with { type: 'json' };
import { noContainers } from '../../lib/cri/container-source.ts';
import { keepAgentLease } from '../../guard/agent-lease.ts';
import type { Guard } from '../../guard/guard.ts';
import { GuardStates } from '../../guard/guard-states.ts';
import { removeOfSwitchedOff } from '../../guard/switched-off.ts';
import { runUntilRemoved } from '../../guard/give-back.ts';
import { agentWorkload } from '../../guard/removal.ts';
import { runNodeParts } from '../../guard/run-guards.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { shareMetrics } from '../../lib/kube/controller/shared-metrics.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { Health } from '../../lib/telemetry/health.ts';
import { registerProcessMetrics } from '../../lib/telemetry/process-metrics.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { directoryIn } from '../../guard/guard-options.ts';
import { checkedHostRoot, chosenGuards, guardProcess, openRuntime } from '../../guard/guard-process.ts';
import { observe, runParts, say, sayInLog, stopSignal } from '../../lib/cli/process.ts';
import { agentAlertsSocket, openAlertFeed } from '../../guard/alerts/alert-feed.ts';
import { FindingStream } from '../../guard/stream/finding-stream.ts';
import { exportFindings } from '../../guard/stream/otlp-export.ts';
import { FindingOutput, registerDropped } from '../../guard/stream/finding-output.ts';
import type { AgentOptions } from './command.ts';
import { returnMemoryWhenIdle } from './idle-memory.ts';
import { registerAgentMetrics } from './agent-metrics.ts';

/** A policy for all containers of a node causes a burst of some hundred writes; an overloaded API server throttles its clients itself. */
const agentRate = { perSecond: 200, burst: 400 } as const;

/**
 * Runs until SIGINT, SIGTERM or the reader of stdout is gone.
 *
 * @throws {RampartError} `INPUT`, `PRIVILEGE` or `UNSUPPORTED` before anything was changed.
 */
export async function runAgent(all: readonly Guard[], options: AgentOptions): Promise<void> {
  const { nodeName = '' } = options;
  if (nodeName === '') {
    throw new RampartError(errorCodes.INPUT, {
      what: 'the name of this node is unknown',
      next: 'Set NODE_NAME (in a pod from spec.nodeName), or use --node-name',
    });
  }
  const guards = chosenGuards(all, options);
  const directoryOf = directoryIn(options);
  for (const guard of guards) if (guard.directory !== undefined) directoryOf(guard);
  const hostRoot = checkedHostRoot(options.hostRoot);
  const access = clusterAccess({ kubeconfig: options.kubeconfig, context: options.context });
  const logger = createLogger();
  sayInLog(logger);
  const reported = stopSignal();
  const stop = new AbortController();
  const health = new Health();
  await using observed = await observe(options, health);
  await using out = new FindingOutput(() => reported.abort());
  registerProcessMetrics(observed.metrics, manifest.version);
  registerAgentMetrics(observed.metrics, health);
  registerDropped(observed.metrics, out);
  const { alertsSocket } = options;
  const stream = new FindingStream();
  const isAsked = alertsSocket !== undefined;
  await using feed = await openAlertFeed(alertsSocket ?? agentAlertsSocket, isAsked, stream.counts);
  stream.to((_guard, line) => out.write(line));
  stream.to((guard, line) => feed.push(guard, line));
  await using _exporter = await exportFindings({
    ...{ guards: all, stream, nodeName, metrics: observed.metrics, logger },
    ...{ endpoint: options.otlpEndpoint, directory: options.otlpQueue, version: manifest.version },
  });
  using client = new KubeClient(access, agentRate);
  using _memory = returnMemoryWhenIdle({ letGo: () => client.closeUnusedConnections(), growthPercent: 30 });
  const { signal } = stop;
  const identity = `${nodeName}_${randomUUID()}`;
  const states = new GuardStates(guards.filter(({ node }) => node).map(({ name }) => name));
  states.losses = () => ({ lines: out.dropped });
  const containers = await openRuntime(guards, { socketPath: options.criSocket, logger, health, states });
  const process = guardProcess({
    ...{ client, logger, health, identity },
    metrics: observed.metrics,
    shared: observed.metrics && shareMetrics(observed.metrics),
    states: { node: states },
    stream,
    fail: (error) => stop.abort(error),
  });
  await using _caches = process.caches;
  say(`guarding node ${nodeName} of ${access.server.href}`);
  const cleaned = removeOfSwitchedOff(all, { guards, values: options, logger, signal });
  const removable = { ...process, guards, nodeName, reported: reported.signal, workload: agentWorkload };
  await runUntilRemoved(stop, removable, () =>
    runParts(
      stop,
      { ...observed, logger },
      {
        ...(containers && { 'the container runtime': containers.run(signal) }),
        'the lease of this agent': keepAgentLease({ client, nodeName, identity, states, signal, logger }),
        guards: runNodeParts(
          { guards, process, values: options, signal, states },
          {
            ...{ nodeName, hostRoot, directoryOf, say },
            containers: containers ?? noContainers,
            version: manifest.version,
          },
        ),
      },
    ),
  );
  await cleaned;
  out.throwIfFailed();
  say('stopping');
}
