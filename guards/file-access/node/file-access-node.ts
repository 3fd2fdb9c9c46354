/** Creates the parts of an agent for this guard, and connects them. */
import { NodeContainerIndex } from '../../../lib/cri/node-container-index.ts';
import type { NodeContext } from '../../../guard/context.ts';
import { readKernelId } from '../../../guard/kernel-id.ts';
import { done, type Reconcile, runController } from '../../../lib/kube/controller/controller.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import type { Pod } from '../../../lib/kube/object/object.ts';
import { allOrNone, whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import type { WorkQueue } from '../../../lib/kube/controller/workqueue.ts';
import { accessorOf, isAt } from './accessor.ts';
import { AlertPath, policyOf } from './alert-path.ts';
import type { KiveData, KivePolicy } from '../api.ts';
import { dataQuery, podQuery, policyQuery } from '../caches.ts';
import type { FoundOn } from '../kive-data.ts';
import { Discovery } from './discover.ts';
import { removeEarlierData } from './earlier-data.ts';
import { HeldAlerts } from './held-alerts.ts';
import { Loader } from './loader.ts';
import { runLoaderElection } from './loader-election.ts';
import { loaderLeaseQuery } from './loader-lease.ts';
import type { PlannedAlert } from './loader-plan.ts';
import { LocalSensor, type PlannedSensor } from './local-sensor.ts';
import { NodeEvents } from './node-events.ts';
import type { FileAccessKernel, FileAccessNodeOptions } from './node-options.ts';
import { defaultScope } from '../policy/policy-scope.ts';
import { refusedFacts } from '../status/refused-files.ts';
import { registerNodeHealth, withoutRuntime } from './node-health.ts';
import { NodeCounts, registerNodeMetrics } from './node-metrics.ts';
import { NodeReporter } from './node-reporter.ts';
import { PlanApplier } from './plan-applier.ts';
import { type FollowedFiles, TrapFiles } from './trap-files.ts';
import { blindSpots } from '../../../lib/sensor/modes.ts';
import type { Coverage } from '../../../guard/agent-lease-names.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { warnOfSlowStart } from '../../../guard/slow-start.ts';

const WORKERS = 8;
/**
 * How long to wait for the runtime before files of the node itself are watched without it: a running runtime reports
 * its containers at once.
 */
const CONTAINERS_WAIT_MS = 3000;

const machineKernel: FileAccessKernel = {
  openSensor: (options) => new LocalSensor(options),
  openFiles: (options) => new TrapFiles(options),
};

/**
 * Finds the files of the policies in the containers of this node, writes them as KiveData, and alerts
 * accesses to the files of this kernel while no other agent on it does; until `signal` aborts.
 *
 * Without the API or the namespace `kivebpf-system`, it continues with the last known state, and retries.
 *
 * @throws {RampartError} the errors of LocalSensor if the kernel does not accept the sensor; `LIMIT` when
 *   fs.inotify.max_user_instances is reached.
 */
export async function runFileAccessNode(
  context: NodeContext,
  options: FileAccessNodeOptions = {},
): Promise<void> {
  using node = new FileAccessNode(context, options);
  await node.run();
}

/** The parts on a node. They are connected by callbacks only, which are set up here. */
export class FileAccessNode implements Disposable {
  readonly #context: NodeContext;
  readonly #options: FileAccessNodeOptions;
  readonly #on: FoundOn;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #stack: DisposableStack;

  readonly #policies: IndexedCache<KivePolicy>;
  /** Pods of this node. */
  readonly #pods: IndexedCache<Pod>;
  readonly #data: IndexedCache<KiveData>;
  readonly #queues: {
    readonly containers: WorkQueue;
    readonly deletions: WorkQueue;
    readonly reports: WorkQueue;
  };

  readonly #counts = new NodeCounts();
  #held: HeldAlerts | undefined;
  readonly #sensor: PlannedSensor;
  readonly #files: FollowedFiles;
  readonly #applier: PlanApplier;
  readonly #reported: NodeEvents;
  readonly #reporter: NodeReporter;
  /** Set once the caches are filled, like `#loader`. */
  #discovery: Discovery | undefined;
  #loader: Loader | undefined;
  #knowsContainers = false;
  /** Holder of this kernel's lease, empty until one is seen. */
  #holder = '';

  constructor(context: NodeContext, options: FileAccessNodeOptions) {
    const { nodeName, logger } = context;
    this.#context = context;
    this.#options = options;
    this.#on = { kernelId: options.kernelId ?? readKernelId(), nodeName };
    this.#signal = AbortSignal.any([context.signal, this.#stop.signal]);
    using stack = new DisposableStack();
    this.#policies = context.cache(policyQuery, 'kivepolicies');
    this.#pods = context.cache({ ...podQuery, fieldSelector: `spec.nodeName=${nodeName}` }, 'pods');
    this.#data = context.cache(dataQuery(['place', 'kernel'], this.#on.kernelId), 'kivedata');
    const { kernel = machineKernel } = options;
    this.#sensor = this.#openSensor(kernel, stack);
    this.#queues = {
      containers: stack.use(keyQueue()),
      deletions: stack.use(keyQueue()),
      reports: stack.use(keyQueue()),
    };
    this.#reported = new NodeEvents({
      recorder: context.recorder(),
      nodeName,
      policies: this.#policies,
      onCallbacks: (keys) => this.#reporter.touch(keys),
    });
    this.#reporter = this.#newReporter();
    this.#files = stack.use(
      kernel.openFiles({
        identify: (fd) => this.#sensor.identify(fd),
        onChange: (id) => this.#discovery?.touch(id),
        onProblem: (err) => logger.warn({ err }, 'some files in containers cannot be tracked by events'),
      }),
    );
    this.#applier = stack.use(new PlanApplier(this.#sensor, logger));
    this.#registerMetrics();
    context.reportCoverage(() => this.#coverage());
    void context.containers.synced.then(
      () => (this.#knowsContainers = true),
      () => undefined,
    );
    registerNodeHealth(context.health, {
      containers: () => this.#hasAllContainers,
      absence: () => context.containers.absence,
      sensor: () => this.#sensor.stats(),
      looked: () => this.#isReady,
      hasLoader: () => this.#isLoader || this.#holder !== '',
    });
    this.#stack = stack.move();
  }

  /** Runs until the context's signal aborts. */
  async run(): Promise<void> {
    const caches = [this.#policies, this.#pods, this.#data];
    using slow = warnOfSlowStart(caches, {
      logger: this.#context.logger,
      consequence: 'files are not watched until they are available',
    });
    await whenSynced(caches, this.#signal, async () => {
      slow[Symbol.dispose]();
      await this.#waitForContainers();
      if (!this.#signal.aborted) await this.#work();
    });
  }

  async #waitForContainers(): Promise<void> {
    const over = new AbortController();
    const patience = sleep(systemClock, CONTAINERS_WAIT_MS, AbortSignal.any([this.#signal, over.signal]));
    await Promise.race([this.#context.containers.synced, patience.catch(() => undefined)]);
    over.abort();
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }

  get #isLoader(): boolean {
    return this.#loader?.active === true;
  }

  /** Whether all containers are known. True without a runtime, because there are no containers then. */
  get #hasAllContainers(): boolean {
    return this.#knowsContainers || this.#context.containers.absence !== undefined;
  }

  /** Whether discovery has started and all containers are known. */
  get #isReady(): boolean {
    return this.#discovery !== undefined && this.#hasAllContainers;
  }

  /**
   * Opens the sensor, not yet attached: only the loader of a kernel attaches it and sees accesses. The other agents
   * only identify files with it.
   */
  #openSensor(kernel: FileAccessKernel, stack: DisposableStack): PlannedSensor {
    const { containers, logger, sink } = this.#context;
    const accessors = stack.use(new NodeContainerIndex(containers, accessorOf));
    const path = new AlertPath({
      sink,
      counts: this.#counts,
      delivery: this.#options.delivery,
      onAlerted: (key, wallMs) => this.#reporter.alerted(key, wallMs),
    });
    const held = (this.#held = stack.use(
      new HeldAlerts({
        ...{ spool: this.#options.held, index: accessors.index, containers },
        ...{ path, counts: this.#counts },
      }),
    ));
    return stack.use(
      kernel.openSensor({
        ...this.#options.sensor,
        attached: false,
        accessorOf: held.accessorOf,
        isAtHome: (access, ownerId) => isAt(accessors.index.find(access).place, ownerId),
        onAlert: held.alert,
        onRefused: () => this.#applier.retry(),
        onBatchEnd: path.batchEnd,
        onLoss: (lost, stats) => {
          logger.error({ lost, stats }, 'accesses to watched files were lost');
          this.#reported.lost(lost, this.#alertedPolicies());
        },
        onProblem: (err) => logger.error({ err }, 'the sensor reported a problem'),
      }),
    );
  }

  /** The policy of each planned alert. A generator, because the reader takes only the first few. */
  *#alertedPolicies(): Iterable<string> {
    for (const planned of this.#loader?.plan.values() ?? []) yield policyOf(planned);
  }

  #newReporter(): NodeReporter {
    const { client, nodeName } = this.#context;
    const { delivery } = this.#options;
    return new NodeReporter({
      client,
      nodeName,
      policies: this.#policies,
      viewOf: (key) => this.#discovery?.viewOf(key) ?? [],
      knowsContainers: () => this.#knowsContainers,
      queue: this.#queues.reports,
      stateOf: delivery?.stateOf?.bind(delivery),
      onRefused: (key, problem) => this.#reported.callbackRefused(key, problem),
      onReported: () => this.#reportState(),
    });
  }

  #registerMetrics(): void {
    const { metrics, containers } = this.#context;
    if (metrics === undefined) return;
    registerNodeMetrics(metrics.metrics, {
      counts: this.#counts,
      sensor: () => this.#sensor.stats(),
      watched: () => this.#sensor.size,
      moved: () => this.#sensor.moved,
      movedDropped: () => this.#files.droppedMoved,
      directoryFiles: () => this.#sensor.directoryFiles,
      unwatched: () => this.#files.unwatched,
      overflows: () => this.#files.overflows,
      refused: () => this.#sensor.refused.size,
      filtered: () => this.#sensor.filtered,
      isLoader: () => this.#isLoader,
      containers: () => [...containers.list()].length,
      data: () => this.#data.size,
    });
  }

  #coverage(): Coverage {
    const { mode } = this.#sensor;
    const { lost, refusedDirectories } = this.#sensor.stats();
    const { ringFull, noReturn, consumer } = lost;
    const { delivery } = this.#options;
    const dropped = Object.values(delivery?.stats?.dropped ?? {});
    return {
      mode,
      blindSpots: [
        ...(this.#context.containers.absence === undefined ? [] : [withoutRuntime]),
        ...blindSpots(mode).map(({ what }) => what),
      ],
      losses: {
        accesses: ringFull + noReturn + consumer,
        'moved files': this.#files.droppedMoved,
        'watches for new files': refusedDirectories,
        'alerts for callbacks': dropped.reduce((sum, count) => sum + count, 0),
      },
    };
  }

  /** Called once all its inputs are known. */
  async #work(): Promise<void> {
    const { client, logger } = this.#context;
    const { delivery } = this.#options;
    using running = new DisposableStack();
    const discovery = running.use(this.#newDiscovery());
    this.#discovery = discovery;
    const loader = running.use(this.#newLoader(discovery));
    this.#loader = loader;
    const earlier = running.use(keyQueue());
    earlier.add('of this node');
    running.use(delivery && this.#reported.followCallbacks(delivery));
    this.#reporter.touch(this.#policies.keys());
    this.#held?.restore();
    this.#reportState();
    if (!this.#knowsContainers) {
      logger.warn('files of pods are not watched until the container runtime has listed its containers');
      void this.#context.containers.synced.then(
        () => {
          discovery.containersKnown();
          this.#reporter.touch(this.#policies.keys());
          this.#reportState();
        },
        () => undefined,
      );
    }
    await allOrNone(this.#stop, [
      this.#control('earlier-data', earlier, async (_, signal) => {
        await removeEarlierData(client, this.#on, signal);
        return done;
      }),
      this.#control('discover', this.#queues.containers, discovery.reconcile),
      this.#control('loader', this.#queues.deletions, loader.reconcile),
      this.#control('report', this.#queues.reports, this.#reporter.reconcile),
      runLoaderElection({
        client,
        kernelId: this.#on.kernelId,
        cache: this.#context.cache(loaderLeaseQuery(this.#on.kernelId)),
        identity: this.#options.identity ?? this.#context.identity,
        loader,
        signal: this.#signal,
        logger,
        onHolder: (seen) => void (this.#holder = seen),
      }),
    ]);
  }

  #newDiscovery(): Discovery {
    const { client, containers, hostRoot, logger } = this.#context;
    return new Discovery({
      client,
      on: this.#on,
      ...{ containers, hostRoot },
      knowsContainers: () => this.#knowsContainers,
      files: this.#files,
      policies: this.#policies,
      policyScope: this.#options.policyScope ?? defaultScope,
      pods: this.#pods,
      data: this.#data,
      queue: this.#queues.containers,
      logger,
      onFound: (names) => this.#loader?.found(names),
      onPolicies: (keys) => this.#reporter.touch(keys),
      onFile: (event, trap, container) => this.#reported.file(event, trap, container),
    });
  }

  #newLoader(local: Discovery): Loader {
    const { client, logger } = this.#context;
    return new Loader({
      client,
      on: this.#on,
      data: this.#data,
      policyScope: this.#options.policyScope ?? defaultScope,
      local,
      queue: this.#queues.deletions,
      apply: this.#applier.apply,
      sensor: this.#sensor,
      logger,
      onPlanned: (planned) => this.#reportForeignSecret(planned),
      onActive: () => this.#reportState(),
    });
  }

  #reportForeignSecret({ callbackSecret, name }: PlannedAlert): void {
    if (callbackSecret !== undefined) return;
    this.#context.logger.error(
      { data: name },
      'a KiveData names a Secret outside the namespace of its policy; its alerts are not sent to its callback',
    );
  }

  #reportState(): void {
    const { mode: sensorMode } = this.#sensor;
    // Status needs `reported`: this process may hold the lease of its kernel without having renewed it.
    this.#context.reportFacts(() => ({
      ...{ loads: this.#isLoader, reported: this.#reporter.hasReported },
      ...(this.#sensor.filtered > 0 && { filtered: this.#sensor.filtered }),
      ...refusedFacts([...this.#sensor.refused.values()], policyOf),
    }));
    this.#options.onState?.({ ready: this.#isReady, isLoader: this.#isLoader, sensorMode });
  }

  async #control(name: string, queue: WorkQueue, reconcile: Reconcile<string>): Promise<void> {
    const { logger, metrics } = this.#context;
    await runController({
      name: `file-access-${name}`,
      queue,
      reconcile,
      signal: this.#signal,
      workers: WORKERS,
      logger,
      metrics: metrics?.controllers,
    });
  }
}
