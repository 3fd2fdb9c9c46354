/** The whole embedded Kubernetes API server: store, kinds, verbs, upkeep, HTTP. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ControllerMetrics, createControllerMetrics } from '../kube/controller/controller-metrics.ts';
import type { Logger } from '../telemetry/log.ts';
import { metricFamily } from '../telemetry/metric-family.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { prepareAccess } from './access/access.ts';
import { ensurePrivateDirectory } from './access/private-files.ts';
import { builtinResources, customResourceDefinitions } from './builtin/builtin.ts';
import { crdStatus, crdStrategy } from './custom/crd-strategy.ts';
import { CustomResources } from './custom/custom-resources.ts';
import { discoveryRoutes } from './discovery/routes.ts';
import { serveHttp } from './http/server.ts';
import type { Limits, ListenAddress, MountedPart } from './http/server-options.ts';
import { versionRoute } from './http/version.ts';
import { openApiRoutes } from './openapi/routes.ts';
import { renderer } from './render/renderer.ts';
import { Registry } from './resources/registry.ts';
import { openStore, type Store } from './store/store.ts';
import { Upkeep, type UpkeepCounts } from './upkeep/upkeep.ts';
import type { Admission } from './verbs/admission.ts';
import { Verbs } from './verbs/verbs.ts';
import type { PodLogs } from './verbs/pod-logs.ts';
import type { User } from './verbs/request.ts';

interface ApiServerOptions {
  /**
   * Directory for the objects, keys, token and kubeconfig; created if missing, accessible only to this user. `undefined`: the
   * objects are in memory and the rest in a temporary directory, and all is deleted at the end.
   */
  readonly dataDirectory: string | undefined;
  /** Whether to keep the objects in memory even if there is a directory. Default: false. */
  readonly memory?: boolean;
  readonly listen: ListenAddress;
  /** An additional unix socket; see `HttpServerOptions`. */
  readonly privateSocket?: string | undefined;
  /** Further names and addresses for the certificate. */
  readonly hosts?: readonly string[];
  /** A second user, with a token and a kubeconfig in the directory: `viewer.token`, `viewer.kubeconfig`. */
  readonly viewer?: User;
  readonly mounted?: MountedPart | undefined;
  /** The version of the product, for `/version`. */
  readonly version: string;
  /** Admission checks, which may reject or change writes. */
  readonly admission?: readonly Admission[];
  /** Source of pod logs (`kubectl logs`). Without it, such requests are refused: see `PodLogs`. */
  readonly podLogs?: PodLogs;
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  /** Default: suited to the clients of one machine. */
  readonly limits?: Partial<Limits> | undefined;
  /** The process's metrics of controllers, if it has already registered them for others: that is possible only once. */
  readonly controllerMetrics?: ControllerMetrics;
}

/** A server that is ready. Disposing it finishes pending work, and releases all files. */
export interface ApiServer extends AsyncDisposable {
  readonly address: ListenAddress;
  /** `undefined` on a unix socket. */
  readonly url: string | undefined;
  /** The path of the kubeconfig; `undefined` on a unix socket, which kubectl cannot use. */
  readonly kubeconfig: string | undefined;
  /** Names and addresses in the certificate; empty on a unix socket. */
  readonly hosts: readonly string[];
  /** Whether this is the token of the viewer. */
  isViewer(token: string): boolean;
  readonly registry: Registry;
  /** The verbs without HTTP, for parts of this process. */
  readonly verbs: Verbs;
}

/**
 * Starts the server; it is ready when this resolves.
 *
 * @throws {RampartError} `INPUT` (an address, an option, files that others can read), `IN_USE` (address or data),
 *   `UNSUPPORTED` (data of a newer release), `CORRUPT`, `FULL`, `SYSTEM`.
 */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { logger, metrics, listen } = options;
  await using stack = new AsyncDisposableStack();
  const directory = options.dataDirectory ?? temporaryDirectory(stack);
  ensurePrivateDirectory(directory);
  const isInMemory = options.memory === true || options.dataDirectory === undefined;
  const store = stack.use(openStore({ path: isInMemory ? ':memory:' : join(directory, 'api.db') }));
  const { hosts: moreHosts, viewer } = options;
  const access = prepareAccess({ dir: directory, listen, hosts: moreHosts, viewer });

  const registry = new Registry();
  for (const versions of builtinResources()) registry.add(versions);
  registry.add([customResourceDefinitions(crdStrategy, crdStatus)]);
  const verbs = stack.use(
    new Verbs({
      store,
      registry,
      podLogs: options.podLogs,
      admission: options.admission,
    }),
  );
  const controllerMetrics =
    options.controllerMetrics ?? (metrics === undefined ? undefined : createControllerMetrics(metrics));
  const common = { store, registry, verbs, logger, metrics: controllerMetrics };

  const stop = new AbortController();
  const custom = new CustomResources(common);
  const upkeep = new Upkeep(common);
  if (metrics !== undefined) registerServer(metrics, { store, custom, upkeep });
  await upkeep.prepare(stop.signal);
  await custom.start(stop.signal);
  const maintained = upkeep.run(stop.signal);
  // These tasks end only by the signal; any error is a bug and is reported as one.
  maintained.catch((err: unknown) =>
    logger.error({ err }, 'the background tasks of the API server have ended'),
  );
  stack.defer(async () => {
    stop.abort();
    await Promise.all([maintained, custom.ended]);
  });

  const http = stack.use(
    await serveHttp({
      limits: options.limits,
      verbs,
      registry,
      renderer,
      routes: [discoveryRoutes(registry), versionRoute(options.version), openApiRoutes(registry)],
      authenticate: access.authenticate,
      mounted: options.mounted,
      tls: access.tls,
      listen,
      privateSocket: options.privateSocket,
      // Reading fails if the disk or the database fails; the reason is logged.
      health: [{ name: 'store', of: 'readyz', check: () => void store.get('namespaces', '', 'default') }],
      log: logger,
      metrics,
    }),
  );
  const kubeconfig = access.writeKubeconfig(http.url);
  const running = stack.move();
  return {
    address: http.address,
    url: http.url,
    kubeconfig,
    hosts: access.hosts,
    isViewer: (token) => access.isViewer(token),
    registry,
    verbs,
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

function temporaryDirectory(stack: AsyncDisposableStack): string {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-apiserver-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** The parts of the server whose counters become Prometheus metrics; those of HTTP are in `http/traffic.ts`. */
export interface Counted {
  readonly store: Store;
  readonly custom: CustomResources;
  readonly upkeep: Upkeep;
}

/** @throws if the registry already has these metrics. */
export function registerServer(metrics: Omit<Metrics, 'registry'>, { store, custom, upkeep }: Counted): void {
  const { counter, gauge } = metricFamily(metrics, 'rampart_apiserver');
  gauge('store_version', 'Version of the last write.', () => store.version);
  gauge(
    'store_compacted_version',
    'Oldest version that can be listed or watched from.',
    () => store.compactedVersion,
  );
  counter('store_writes', 'Writes committed to disk.', () => store.counters.writes);
  counter('store_commits', 'Transactions of these writes.', () => store.counters.commits);
  counter(
    'store_compaction_failures',
    'Failed compactions of the history; they are retried.',
    () => store.counters.compactionFailures,
  );
  gauge('custom_resources', 'CustomResourceDefinitions whose kinds are served.', () => custom.served);

  const kept = (name: string, help: string, read: (counts: UpkeepCounts) => number): void =>
    gauge(name, help, () => read(upkeep.counts));
  const done = (name: string, help: string, read: (counts: UpkeepCounts) => number): void =>
    counter(name, help, () => read(upkeep.counts));
  kept('dependents', 'Objects whose owners are tracked.', (counts) => counts.dependents);
  kept(
    'namespaces_terminating',
    'Namespaces that are being deleted.',
    (counts) => counts.namespacesTerminating,
  );
  kept('events', 'Events kept until they expire.', (counts) => counts.eventsKept);
  done(
    'dependents_deleted',
    'Objects deleted because their owners are gone.',
    (counts) => counts.dependentsDeleted,
  );
  done('references_removed', 'Owner references removed from orphans.', (counts) => counts.referencesRemoved);
  done('namespaces_deleted', 'Namespaces whose content was deleted.', (counts) => counts.namespacesFinalized);
  done('events_expired', 'Events deleted because they expired.', (counts) => counts.eventsExpired);
  done(
    'upkeep_failures',
    'Failed lists, watches and deletions of the garbage collection; they are retried.',
    (counts) => counts.failures,
  );
}
