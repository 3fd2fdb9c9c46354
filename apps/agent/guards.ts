/**
 * All that the guards run on a node.
 *
 * @module
 */
import { join } from 'node:path';

import type { KubeClient } from '../../shared/kube/client.ts';
import type { Health } from '../../shared/observe/health.ts';
import type { Logger } from '../../shared/observe/log.ts';
import type { Metrics } from '../../shared/observe/metrics.ts';
import type { SensorModeName } from '../../shared/sensor/modes.ts';
import type { CallbackDefault } from '../../systems/file-access/callback-defaults.ts';
import { CallbackSecrets } from '../../systems/file-access/callback-secrets.ts';
import type { SharedMetrics } from '../../shared/kube/shared-metrics.ts';
import type { ContainerSource } from '../../shared/cri/container-source.ts';
import { addDeliveryMetrics } from '../../systems/file-access/delivery/delivery-metrics.ts';
import { openDelivery } from '../../systems/file-access/delivery/delivery.ts';
import { type NodeState, runFileAccessNode } from '../../systems/file-access/node.ts';
import { liveOf } from '../../systems/file-integrity/live/start-live.ts';
import { runFileIntegrityNode } from '../../systems/file-integrity/node.ts';
import { runSideBySide } from '../side-by-side.ts';
import { agentIdentity } from './identity.ts';

export interface NodeGuardsOptions {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly containers: ContainerSource;
  /** Each guard has a directory of its own below. */
  readonly spoolDirectory: string;
  /** Receivers of callbacks that are refused by default: addresses, networks, names. */
  readonly allowCallbacks: readonly string[];
  /** For callbacks whose trap names no Secret. */
  readonly callbackSecrets?: readonly CallbackDefault[];
  readonly sensorMode: SensorModeName | 'auto';
  readonly integrity: NodeIntegrityOptions;
  /** Takes each alert and each finding as one line of JSON, without a newline. */
  readonly sink: (line: string) => unknown;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly metrics: { readonly own: Metrics; readonly shared: SharedMetrics } | undefined;
  readonly health?: Health;
  readonly onState: (state: NodeState) => void;
}

/** What a user says of file integrity. */
export interface NodeIntegrityOptions {
  /** Where the root of the node is. */
  readonly hostRoot: string;
  /** For baselines. */
  readonly directory: string;
  /** Of Rampart, in baselines and reports. */
  readonly version: string;
  readonly readBytesPerSecond?: number | undefined;
  readonly workers?: number | undefined;
}

/**
 * Runs until the signal aborts. A guard that cannot work here takes no other with it.
 *
 * @throws {RampartError} what cannot be mended by trying again, when no guard is left.
 */
export async function runNodeGuards(options: NodeGuardsOptions): Promise<void> {
  await runSideBySide(
    {
      'the guard of files': (signal) => guardFiles(options, signal),
      'file integrity': (signal) => compareFiles(options, signal),
    },
    options,
  );
}

async function compareFiles(options: NodeGuardsOptions, signal: AbortSignal): Promise<void> {
  const { client, nodeName, containers, sink, logger, metrics, health, sensorMode } = options;
  const { readBytesPerSecond, workers, ...integrity } = options.integrity;
  await runFileIntegrityNode({
    client,
    nodeName,
    containers,
    sink,
    signal,
    logger,
    // Changes are seen by kprobes where accesses are seen by fentry.
    live: liveOf({ signal, mode: sensorMode === 'fentry' ? 'auto' : sensorMode }),
    ...integrity,
    ...(readBytesPerSecond !== undefined && { readBytesPerSecond }),
    ...(workers !== undefined && { workers }),
    ...(health && { health }),
    ...(metrics && { metrics: metrics.shared }),
  });
}

async function guardFiles(options: NodeGuardsOptions, signal: AbortSignal): Promise<void> {
  const { client, nodeName, containers, sink, logger, metrics, onState } = options;
  using secrets = new CallbackSecrets({ client, defaults: options.callbackSecrets ?? [], logger });
  await using delivery = openDelivery({
    directory: join(options.spoolDirectory, 'callbacks'),
    log: logger,
    allow: options.allowCallbacks,
    credentialsFor: secrets.credentialsFor,
  });
  if (metrics !== undefined) addDeliveryMetrics(metrics.own, delivery);
  await runFileAccessNode({
    client,
    nodeName,
    containers,
    sensor: { mode: options.sensorMode },
    sink,
    delivery,
    // The queues above are locked, so no other process has this directory now.
    identity: agentIdentity(options.spoolDirectory, nodeName),
    signal,
    logger,
    onState,
    ...(options.health && { health: options.health }),
    ...(metrics && { metrics: metrics.shared }),
  });
}
