/**
 * `rampart standalone` at work: the API, the operator and the agent in one process.
 *
 * @module
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import manifest from '../../package.json' with { type: 'json' };
import { type ApiServer, startApiServer } from '../../shared/apiserver/server.ts';
import { VerbCalls } from '../../shared/apiserver/upkeep/verb-calls.ts';
import { KubeClient } from '../../shared/kube/client.ts';
import { namespaces } from '../../shared/kube/object.ts';
import { isAlreadyExists } from '../../shared/kube/client-errors.ts';
import { manifestRoots } from '../../shared/manifests/files.ts';
import { followManifests } from '../../shared/manifests/follow.ts';
import { mirrorUser } from '../../shared/mirror/mirrored.ts';
import { nodeFacts } from '../../shared/mirror/node-object.ts';
import { PodMirror } from '../../shared/mirror/pod-mirror.ts';
import { mirrorReadOnly } from '../../shared/mirror/read-only.ts';
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import { Health } from '../../shared/observe/health.ts';
import { createLogger } from '../../shared/observe/log.ts';
import { parseCallbackDefaults } from '../../systems/file-access/callback-defaults.ts';
import { shareMetrics } from '../../shared/kube/shared-metrics.ts';
import { kiveDataNamespace } from '../../systems/file-access/kive-data.ts';
import type { NodeState } from '../../systems/file-access/node.ts';
import { openAlertFeed, standaloneAlertsSocket } from '../agent/alert-feed.ts';
import { AlertOutput } from '../agent/alert-output.ts';
import { runNodeGuards } from '../agent/guards.ts';
import { agentIdentity } from '../agent/identity.ts';
import { nodeIntegrityOptions } from '../agent/integrity-options.ts';
import { NodeRuntime } from '../agent/node-runtime.ts';
import { registerProcessMetrics } from '../agent/process-metrics.ts';
import { listenAddress } from '../apiserver/listen-address.ts';
import { clusterAccess } from '../cluster.ts';
import { runClusterGuards } from '../operator/guards.ts';
import { observe, runParts, say, stopSignal } from '../process.ts';
import { installedResourceNames, installResources } from '../resources.ts';
import type { StandaloneOptions } from './command.ts';
import { containerLogs } from './container-logs.ts';
import { MachinePods } from './machine-pods.ts';

/**
 * Runs until SIGINT, SIGTERM or the reader of stdout is gone.
 *
 * @throws {RampartError} as `startApiServer` and `runNodeGuards`; `INPUT` for options that cannot work.
 */
export async function runStandalone(options: StandaloneOptions): Promise<void> {
  const stop = stopSignal();
  try {
    await run(options, stop);
  } catch (error) {
    // Stopped while it started.
    if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
  }
  say('stopped');
}

async function run(options: StandaloneOptions, stop: AbortController): Promise<void> {
  checkOptions(options);
  const listen = listenAddress(options.listen);
  const callbackSecrets = parseCallbackDefaults(options.callbackSecret);
  const roots = manifestRoots(options.file);
  const logger = createLogger();
  const { signal } = stop;
  await using stack = new AsyncDisposableStack();
  const directory = options.data === undefined ? temporaryDirectory(stack) : resolve(options.data);
  const integrity = nodeIntegrityOptions(options, join(directory, 'integrity'));
  let nodeState: NodeState | undefined;
  const health = new Health();
  health.ready('file-access-node', () => (nodeState?.ready === true ? undefined : 'it has not begun yet'));
  const observed = stack.use(await observe(options.metrics, health));
  const own = observed.metrics;
  const metrics = own && { own, shared: shareMetrics(own) };
  const out = stack.use(new AlertOutput(() => stop.abort()));
  registerProcessMetrics(own, {
    isReady: () => nodeState?.ready === true,
    linesDropped: () => out.dropped,
  });

  const nodeName = options.nodeName ?? hostname().toLowerCase();
  const containers = new NodeRuntime({ socketPath: options.criSocket, logger });
  health.ready('container-runtime', () => containers.problem);
  const made: { mirror?: PodMirror } = {};
  const server = stack.use(
    await startApiServer({
      dataDirectory: directory,
      memory: options.data === undefined,
      listen,
      hosts: options.host,
      version: manifest.version,
      admission: [mirrorReadOnly((namespace) => made.mirror?.hasPods(namespace) ?? false)],
      podLogs: containerLogs(containers, nodeName, logger),
      logger,
      ...(metrics && { metrics: metrics.own, controllerMetrics: metrics.shared.controllers }),
    }),
  );
  const feed = stack.use(await openAlertFeed(join(directory, standaloneAlertsSocket), true));
  const kubeconfig = kubeconfigOf(server);
  say(`kubeconfig ${kubeconfig}`);
  if (options.data === undefined) say('nothing is kept: without --data all is gone at the end');
  const client = stack.use(new KubeClient(clusterAccess(kubeconfig)));
  await installResources(client, signal);
  await ensureNamespace(client, signal);

  const mirror = new PodMirror({
    calls: new VerbCalls(server.verbs, mirrorUser, 'rampart-mirror'),
    registry: server.registry,
    node: nodeFacts(nodeName, manifest.version),
    logger,
  });
  made.mirror = mirror;
  stack.use(new MachinePods(containers, (state) => mirror.tell(state)));
  say(`serving ${server.url ?? ''}; try: kubectl --kubeconfig ${kubeconfig} get pods -A`);
  await runParts(stop, logger, {
    'the container runtime': containers.run(signal),
    'the mirror of the pods': mirror.run(signal),
    'the following of manifests':
      roots.length === 0
        ? aborted(signal)
        : followManifests({ client, roots, reserved: installedResourceNames(), say, signal }),
    'what the cluster needs': runClusterGuards({
      client,
      signal,
      logger,
      metrics: metrics?.shared,
      health,
      // No other process has this directory: after a kill the lease need not end first.
      identity: agentIdentity(directory, nodeName),
    }),
    'what guards the machine': runNodeGuards({
      client,
      nodeName,
      containers,
      spoolDirectory: join(directory, 'spool'),
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
        nodeState = now;
        const { ready, isLoader, sensorMode } = now;
        if (ready && isLoader) say(`guarding this machine by ${sensorMode}`);
      },
    }),
  });
  out.throwIfFailed();
}

function checkOptions(options: StandaloneOptions): void {
  // As from `--data "$UNSET"`: the working directory is not meant.
  const empty = options.data === '' ? '--data' : options.file.includes('') ? '--file' : undefined;
  if (empty !== undefined) {
    throw new RampartError(errorCodes.INPUT, { what: `${empty} is empty`, next: 'Give a path.' });
  }
  if (process.geteuid?.() !== 0) {
    throw new RampartError(errorCodes.PRIVILEGE, {
      what: 'cannot guard this machine',
      why: 'loading eBPF programs and looking into containers needs root',
      next: 'Run it as root, e.g. with sudo; `rampart apiserver` needs no root',
    });
  }
}

function temporaryDirectory(stack: AsyncDisposableStack): string {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-standalone-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function kubeconfigOf({ kubeconfig }: ApiServer): string {
  if (kubeconfig === undefined) throw new TypeError('no kubeconfig of a server on a port');
  return kubeconfig;
}

/** That of KiveData, before anybody looks for it. */
async function ensureNamespace(client: KubeClient, signal: AbortSignal): Promise<void> {
  try {
    await client.create(namespaces, { metadata: { name: kiveDataNamespace } }, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve: done } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => done(), { once: true });
  if (!signal.aborted) await promise;
}
