/** What a process with guards has only once: caches, health, metrics, and its messages. */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';

import type { Guard, OptionValues } from './guard.ts';
import type { FindingStream } from './stream/finding-stream.ts';
import { type GuardStates, registerGuardMetrics } from './guard-states.ts';
import type { GuardProcess } from './part-context.ts';
import { selectGuards } from './run-guards.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { SharedCaches } from '../lib/kube/cache/shared-caches.ts';
import type { SharedMetrics } from '../lib/kube/controller/shared-metrics.ts';
import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import type { Health } from '../lib/telemetry/health.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import type { Metrics } from '../lib/telemetry/metrics.ts';
import type { NodeRuntime } from '../lib/cri/node-runtime.ts';
import { type GuardChoice, parsedOptions } from './guard-options.ts';

/** @throws {RampartError} `INPUT` for an unknown guard, and for options of guards that cannot work. */
export function chosenGuards(
  guards: readonly Guard[],
  options: GuardChoice & OptionValues,
): readonly Guard[] {
  const chosen = selectGuards(guards, options.guards);
  for (const guard of chosen) parsedOptions(guard, options);
  return chosen;
}

/** Paths under which the guards' cluster metrics are served in addition to /metrics. */
export function metricsPathsOf(guards: readonly Guard[]): string[] {
  return guards.flatMap(({ metricsPaths = [] }) => metricsPaths);
}

/** @throws {RampartError} `INPUT` if the root of the node is not a directory. */
export function checkedHostRoot(hostRoot: string): string {
  if (hostRoot !== '' && statSync(hostRoot, { throwIfNoEntry: false })?.isDirectory() === true) {
    return resolve(hostRoot);
  }
  throw new RampartError(errorCodes.INPUT, {
    what: `--host-root ${JSON.stringify(hostRoot)} is not a directory`,
    next: "Give the directory where the node's root file system is mounted, or omit the option on the node itself",
  });
}

interface GuardProcessOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly health: Health;
  readonly metrics: Metrics | undefined;
  /** The result of `shareMetrics`. */
  readonly shared: SharedMetrics | undefined;
  readonly identity: string;
  readonly states: Parameters<typeof registerGuardMetrics>[1];
  readonly stream: FindingStream;
  /** Ends the process, for a fault that only a restart fixes. */
  readonly fail: (error: unknown) => void;
}

/** The caller disposes `caches` after the guards have ended. */
export function guardProcess(options: GuardProcessOptions): GuardProcess {
  const { client, logger, health, identity, metrics, shared, states, stream, fail } = options;
  registerGuardMetrics(metrics, states);
  stream.counts.register(metrics);
  const caches = new SharedCaches({ client, logger, metrics: shared?.reflectors, onFailure: fail });
  return { client, logger, identity, health, metrics: shared, caches, sink: stream.sink };
}

/** Opens the container runtime if a guard uses it; the process is not ready without it if a guard needs it. */
export async function openRuntime(
  guards: readonly Guard[],
  { socketPath, logger, ...reported }: ReportedOfRuntime & { socketPath: string | undefined; logger: Logger },
): Promise<NodeRuntime | undefined> {
  if (guards.every(({ containers }) => containers === undefined)) return undefined;
  const module = await import('../lib/cri/node-runtime.ts');
  const runtime = new module.NodeRuntime({ socketPath, logger });
  reportOfRuntime(guards, runtime, reported);
  return runtime;
}

interface ReportedOfRuntime {
  readonly health: Health;
  readonly states: GuardStates;
}

/**
 * While the runtime does not answer, new containers are not seen: the process is not ready, and guards that need the runtime are
 * unavailable. If there is no runtime, there are no containers to see.
 */
export function reportOfRuntime(
  guards: readonly Guard[],
  runtime: Pick<NodeRuntime, 'absence' | 'problem'>,
  { health, states }: ReportedOfRuntime,
): void {
  const problem = (): string | undefined => (runtime.absence === undefined ? runtime.problem : undefined);
  const needing = guards.filter(({ containers }) => containers === 'needed');
  for (const { name } of needing) states.setObstacle(name, problem);
  if (needing.length > 0) health.ready('container-runtime', problem, () => runtime.absence);
}
