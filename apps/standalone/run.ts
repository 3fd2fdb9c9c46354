/** Runs `rampart standalone`: the API, the operator and the agent in one process. */
import manifest from '../../package.json' with { type: 'json' };
import { mkdtempDisposableSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type ApiServer, startApiServer } from '../../lib/apiserver/server.ts';
import { LateAdmission } from '../../lib/apiserver/verbs/late-admission.ts';
import type { AdmissionRequest } from '../../lib/apiserver/verbs/admission.ts';
import { VerbCalls } from '../../lib/apiserver/upkeep/verb-calls.ts';
import { keepAgentLease } from '../../guard/agent-lease.ts';
import { type Guard, systemNamespace } from '../../guard/guard.ts';
import { GuardStates } from '../../guard/guard-states.ts';
import { lastingIdentity } from '../../guard/identity.ts';
import { removeOfSwitchedOff } from '../../guard/switched-off.ts';
import { ensureSystemNamespace } from '../../guard/lead.ts';
import { runClusterParts, runNodeParts } from '../../guard/run-guards.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { EventRecorder } from '../../lib/kube/events/event-recorder.ts';
import { shareMetrics } from '../../lib/kube/controller/shared-metrics.ts';
import { manifestRoots } from '../../lib/manifests/files.ts';
import { followManifests } from '../../lib/manifests/follow.ts';
import { mirrorUser } from '../../guard/mirrored.ts';
import { viewerName, viewerRules } from '../../guard/viewer-rights.ts';
import { nodeFacts } from './mirror/node-object.ts';
import { PodMirror } from './mirror/pod-mirror.ts';
import { mirrorReadOnly } from './mirror/read-only.ts';
import { Health } from '../../lib/telemetry/health.ts';
import { registerProcessMetrics } from '../../lib/telemetry/process-metrics.ts';
import { createLogger, type Logger } from '../../lib/telemetry/log.ts';
import { ReportWriter } from '../../guard/reports/report-writer.ts';
import { openAlertFeed, standaloneAlertsSocket } from '../../guard/alerts/alert-feed.ts';
import { FindingStream } from '../../guard/stream/finding-stream.ts';
import { exportFindings } from '../../guard/stream/otlp-export.ts';
import { FindingOutput, registerDropped } from '../../guard/stream/finding-output.ts';
import { returnMemoryWhenIdle } from '../agent/idle-memory.ts';
import { NodeRuntime } from '../../lib/cri/node-runtime.ts';
import { registerAgentMetrics } from '../agent/agent-metrics.ts';
import { listenAddress } from '../apiserver/listen-address.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import {
  checkedHostRoot,
  chosenGuards,
  guardProcess,
  metricsPathsOf,
  reportOfRuntime,
} from '../../guard/guard-process.ts';
import { reopenOnHangup } from '../../lib/service/reopen.ts';
import { reportService } from './service.ts';
import { observe, requireRoot, runParts, say, sayInLog, stopSignal } from '../../lib/cli/process.ts';
import { installedResourceNames, installResources } from '../resources.ts';
import { SocketPath } from '../../lib/net/socket-path.ts';
import { aborted } from '../../lib/time/abort.ts';
import type { Site } from '../ui/refusal.ts';
import type { StandaloneOptions } from './command.ts';
import { followMachinePods } from './machine-pods.ts';
import { pagePath, standalonePage } from './page.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import { ApiError, apiErrors } from '../../lib/apiserver/resources/api-error.ts';
import { openContainerLog } from '../../lib/cri/container-log.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import type { User } from '../../lib/apiserver/verbs/request.ts';
import type { PodLogs } from '../../lib/apiserver/verbs/pod-logs.ts';

/**
 * Runs until SIGINT, SIGTERM or the reader of stdout is gone.
 *
 * @throws {RampartError} as `startApiServer` and `runNodeGuards`; `INPUT` for options that cannot work.
 */
export async function runStandalone(all: readonly Guard[], options: StandaloneOptions): Promise<void> {
  const stop = stopSignal();
  try {
    await run(all, options, stop);
  } catch (error) {
    // Not a failure if it was stopped while starting.
    if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
  }
  say('stopped');
}

async function run(all: readonly Guard[], options: StandaloneOptions, stop: AbortController): Promise<void> {
  const guards = chosenGuards(all, options);
  checkOptions(options);
  const listen = listenAddress(options.listen);
  const roots = manifestRoots(options.file);
  const logger = createLogger();
  const { signal } = stop;
  await using stack = new AsyncDisposableStack();
  const directory =
    options.data === undefined
      ? stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-standalone-'))).path
      : resolve(options.data);
  const hostRoot = checkedHostRoot(options.hostRoot);
  // Failures go to the log only from here on: if the command line is refused, the caller prints the reason.
  sayInLog(logger);
  const health = new Health();
  const { metrics, started } = stack.use(
    await observe({ ...options, paths: metricsPathsOf(guards) }, health),
  );
  const shared = metrics && shareMetrics(metrics);
  const out = stack.use(new FindingOutput(() => stop.abort()));
  stack.use(
    reopenOnHangup((path, err) =>
      logger.error({ err, path }, 'cannot open the file of the findings anew; they go on to the old one'),
    ),
  );
  registerProcessMetrics(metrics, manifest.version);
  registerAgentMetrics(metrics, health);
  registerDropped(metrics, out);
  const nodeName = options.nodeName ?? hostname().toLowerCase();
  // Needed whichever guards run: the API's pods are the containers of this machine.
  const containers = new NodeRuntime({ socketPath: options.criSocket, logger, isOptional: true });
  const made: { mirror?: PodMirror } = {};
  // Until guards have started, writes wait for their admissions, except those that isOwnWrite() lets pass.
  const ownGroups = new Set(guards.flatMap(({ resources }) => resources.map(({ group }) => group)));
  const admission = new LateAdmission({ passes: (request) => isOwnWrite(request, ownGroups) });
  for (const { name, admits } of guards) if (admits === true) admission.expect(name);
  const page = options.ui === true ? await standalonePage() : undefined;
  const ownSocket = stack.use(new SocketPath(join(directory, 'guards.sock'))).address;
  const server = stack.use(
    await startApiServer({
      privateSocket: ownSocket,
      ...{ dataDirectory: directory, memory: options.data === undefined, listen, hosts: options.host },
      version: manifest.version,
      admission: [mirrorReadOnly((namespace) => made.mirror?.hasPods(namespace) ?? false), admission],
      podLogs: containerLogs(containers, nodeName, logger),
      ...{ viewer: viewerOf(all), mounted: page },
      logger,
      ...(metrics && shared && { metrics, controllerMetrics: shared.controllers }),
    }),
  );
  const stream = new FindingStream();
  const feed = stack.use(await openAlertFeed(join(directory, standaloneAlertsSocket), true, stream.counts));
  stream.to((_guard, line) => out.write(line));
  stream.to((guard, line) => feed.push(guard, line));
  stack.use(
    await exportFindings({
      ...{ guards: all, stream, nodeName, metrics, logger },
      ...{ endpoint: options.otlpEndpoint, version: manifest.version },
      directory: join(directory, 'otlp'),
    }),
  );
  const kubeconfig = kubeconfigOf(server);
  say(`kubeconfig ${kubeconfig}`);
  if (options.data === undefined) say('no data directory (--data): nothing is kept after exit');
  // The socket that only this user can open: connections of other clients cannot keep the guards from renewing their leases.
  const access = {
    ...clusterAccess({ kubeconfig }),
    server: new URL('http://localhost'),
    socketPath: ownSocket,
  };
  page?.serve({
    ...{ guards: all, port: new URL(server.url ?? '').port },
    ...{ feed: feed.lines, hours: () => stream.counts.hours() },
    ...{ kubeconfig: join(directory, 'viewer.kubeconfig'), file: join(directory, 'viewer.token') },
    clusterWords: options.data === undefined ? ['--kubeconfig', kubeconfig] : ['--data', options.data],
    isToken: (token) => server.isViewer(token),
    site: siteOf(server),
    failed: (err) => logger.error({ err }, 'a request for the page has failed'),
  });
  // This API server is our own, so the rate need not be low for the sake of other clients. At a lower one, writing a report for each of
  // 100,000 objects would take minutes.
  const client = stack.use(new KubeClient(access, { perSecond: 2000, burst: 4000 }));
  // Returns the memory that a burst of changes has taken: docs/decisions/0010-memory-of-standalone.md.
  stack.use(returnMemoryWhenIdle({ letGo: () => client.closeUnusedConnections() }));
  await installResources(client, guards, signal, options);
  await ensureSystemNamespace({ client, signal, logger });

  const recorder = stack.use(
    new EventRecorder({ client, controller: 'rampart.dev/standalone', instance: nodeName, logger }),
  );
  const mirror = new PodMirror({
    recorder,
    calls: new VerbCalls(server.verbs, mirrorUser, 'rampart-mirror'),
    registry: server.registry,
    node: { ...nodeFacts(nodeName, manifest.version), labels: Object.fromEntries(options.nodeLabel) },
    logger,
  });
  stack.use(followMachinePods(containers, (state) => mirror.notify(state)));
  made.mirror = mirror;
  const states = new GuardStates(guards.filter(({ node }) => node).map(({ name }) => name));
  reportOfRuntime(guards, containers, { health, states });
  states.losses = () => ({ lines: out.dropped });
  const clusterStates = new GuardStates(guards.filter(({ cluster }) => cluster).map(({ name }) => name));
  // No other process uses this directory: after a kill, the next process need not wait for the lease to expire.
  const identity = lastingIdentity(directory, nodeName);
  const guarding = guardProcess({
    ...{ client, logger, health, identity, shared },
    metrics,
    states: { node: states, cluster: clusterStates },
    stream,
    fail: (error) => stop.abort(error),
  });
  stack.use(guarding.caches);
  if (page !== undefined)
    say(
      `page on ${server.url ?? ''}${pagePath}/; it asks for the token in ${join(directory, 'viewer.token')}`,
    );
  say(`serving ${server.url ?? ''}; try: kubectl --kubeconfig ${kubeconfig} get pods -A`);
  const common = { guards, process: guarding, values: options, signal };
  const cleaned = removeOfSwitchedOff(all, { guards, values: options, logger, signal });
  await runParts(
    stop,
    { started, logger },
    {
      'the container runtime': containers.run(signal),
      'the pod mirror': mirror.run(signal),
      'the manifest watcher':
        roots.length === 0
          ? aborted(signal)
          : followManifests({ client, roots, reserved: installedResourceNames(guards), say, signal }),
      'the lease of the agent': keepAgentLease({ client, nodeName, identity, states, signal, logger }),
      'the cluster-wide part of the guards': runClusterParts(
        { ...common, states: clusterStates },
        { reports: new ReportWriter({ client, logger }), admissions: admission },
      ),
      'the node part of the guards': runNodeParts(
        { ...common, states },
        {
          ...{ nodeName, containers, hostRoot, say },
          version: manifest.version,
          directoryOf: (guard) => join(directory, guard.directory?.name ?? ''),
        },
      ),
      // Started after the guards: by then their health parts are registered.
      'the report to the service manager': reportService({ guards, health, logger, signal }),
    },
  );
  await cleaned;
  out.throwIfFailed();
}

/**
 * Whether a write is admitted without waiting for the guards to start: definitions, anything in the system namespace, statuses of the
 * guards' kinds, the machine's mirror, and writes of `system:` users.
 */
function isOwnWrite(
  { resource, subresource, namespace, name, user }: AdmissionRequest,
  ownGroups: ReadonlySet<string>,
): boolean {
  return (
    user.name === mirrorUser ||
    (subresource?.name === 'status' && ownGroups.has(resource.group)) ||
    // The server itself has to start before a guard can be asked.
    user.name.startsWith('system:') ||
    namespace === systemNamespace ||
    resource.group === 'apiextensions.k8s.io' ||
    (resource.plural === 'namespaces' && name === systemNamespace)
  );
}

function checkOptions(options: StandaloneOptions): void {
  // An empty path, as from `--data "$UNSET"`, must not be taken for the working directory.
  refuseEmpty({ '--data': options.data, '--file': options.file.find((path) => path === '') }, 'Give a path');
  requireRoot(
    'cannot guard this machine',
    'loading eBPF programs and inspecting containers requires root',
    'Run it as root, e.g. with sudo; `rampart apiserver` needs no root',
  );
}

/** The user with read access only. */
function viewerOf(guards: readonly Guard[]): User {
  return { name: viewerName, groups: ['system:authenticated'], rules: viewerRules(guards) };
}

/** Accepts the certificate's names only: a name that an attacker makes resolve to this machine is not among them. */
function siteOf({ hosts }: ApiServer): Site {
  const names = new Set(hosts.map((host) => host.toLowerCase()));
  return {
    isOwnName: (name) => names.has(name),
    names: 'the page has another name: --host of rampart standalone adds one',
    schemes: ['https'],
    takesLinks: true,
  };
}

function kubeconfigOf({ kubeconfig }: ApiServer): string {
  if (kubeconfig === undefined) throw new TypeError('no kubeconfig of a server on a port');
  return kubeconfig;
}

/** @param nodeName - The name of this machine: logs of pods on other nodes are not here. */
export function containerLogs(
  runtime: Pick<NodeRuntime, 'state'>,
  nodeName: string,
  logger: Pick<Logger, 'warn'>,
): PodLogs {
  return async (request) => {
    const { container, containerId, options, signal } = request;
    if (request.nodeName !== nodeName) {
      throw apiErrors.internal(
        `pod ${JSON.stringify(request.pod)} is on node ${JSON.stringify(request.nodeName)}, this is ${JSON.stringify(nodeName)}`,
      );
    }
    const { state } = runtime;
    if ('unavailable' in state) throw apiErrors.internal(`no container runtime: ${state.unavailable}`);
    const onLoss = (what: string): void =>
      logger.warn({ container: containerId }, `log of ${container}: ${what}`);
    try {
      return await openContainerLog(state.cri, idIn(containerId), { ...options, signal, onLoss });
    } catch (error) {
      throw reportedOf(error, containerId);
    }
  };
}

/** Without `containerd://`. */
function idIn(containerId: string): string {
  return containerId.slice(containerId.indexOf('://') + 3);
}

/** A kubelet answers 400 to every failure here (pkg/kubelet/server/server.go, getContainerLogs). */
function reportedOf(error: unknown, containerId: string): unknown {
  if (error instanceof ApiError || !(error instanceof RampartError)) return error;
  const noAnswer = error.code === errorCodes.RUNTIME_UNREACHABLE || error.code === errorCodes.PRIVILEGE;
  if (noAnswer) return apiErrors.internal(error.message, error);
  return apiErrors.badRequest(`unable to retrieve container logs for ${containerId}: ${error.message}`);
}
