/**
 * What the agent runs for this guard on a node: it finds the files, and where it is the one for its kernel, alerts
 * accesses to them.
 *
 * @module
 */
import { readFileSync } from 'node:fs';

import { NodeContainerIndex } from '../../shared/cri/node-container-index.ts';
import type { NodeContext } from '../../shared/guard/context.ts';
import { runController } from '../../shared/kube/controller.ts';
import { keyQueue } from '../../shared/kube/key-queue.ts';
import { allOrNone, whenSynced } from '../../shared/kube/run-parts.ts';
import type { WorkQueue } from '../../shared/kube/workqueue.ts';
import { errorCodes, RampartError } from '../../shared/observe/errors.ts';
import type { SensorModeName } from '../../shared/sensor/modes.ts';
import { accessorJson, accessorOf } from './node/accessor.ts';
import { dataQuery, podQuery, policyQuery } from './caches.ts';
import type { Delivery } from './delivery/delivery.ts';
import { Discovery } from './node/discover.ts';
import { Loader, runLoaderElection } from './node/loader.ts';
import type { PlanChanges, PlannedAlert } from './node/loader-plan.ts';
import { LocalSensor } from './node/local-sensor.ts';
import { type CallbackTroubles, NodeEvents } from './node/node-events.ts';
import { registerNodeHealth } from './node/node-health.ts';
import { NodeCounts, registerNodeMetrics } from './node/node-metrics.ts';
import { NodeReporter } from './node/node-reporter.ts';
import { TrapFiles } from './node/trap-files.ts';

export interface FileAccessNodeOptions {
  /** Default: that of this machine, see {@link readKernelId}. */
  readonly kernelId?: string;
  readonly sensor?: {
    readonly mode?: SensorModeName | 'auto';
    readonly capacity?: number;
    readonly ratePerSecond?: number;
    readonly ringSizeBytes?: number;
  };
  /** Takes alerts of traps with a callback too. Without it they are lines only. */
  readonly delivery?: Pick<Delivery, 'enqueue'> & CallbackTroubles;
  /** In the lease of its kernel. Default: that of the context. */
  readonly identity?: string;
  /** Called once when what there is has been looked at, and each time it becomes the loader of its kernel or not. */
  readonly onState?: (state: NodeState) => void;
}

/** For health endpoints. */
export interface NodeState {
  /** Policies, pods and containers are known, and have been looked at. */
  readonly ready: boolean;
  readonly isLoader: boolean;
  readonly sensorMode: SensorModeName;
}

const WORKERS = 8;
/** What the sensor had no room for is tried again. */
const RETRY_REFUSED_MS = 30_000;
const SLOW_START_MS = 10_000;

/** Which kernel runs here: the same for all nodes on it, another one after each boot. @throws {RampartError} `SYSTEM` */
export function readKernelId(path = '/proc/sys/kernel/random/boot_id'): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (cause) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: 'cannot tell which kernel this is',
      why: String(cause),
      cause,
    });
  }
}

/**
 * Finds the files of the policies in the containers of this node, tells them as KiveData, and alerts accesses to the files
 * of this kernel while no other agent on it does; until `signal` aborts.
 *
 * That the API or the namespace `kivebpf-system` is not there ends nothing: it goes on with what it knows, and tries again.
 *
 * @throws {RampartError} what LocalSensor throws when the kernel does not take the sensor; `LIMIT` when
 *   fs.inotify.max_user_instances is reached.
 */
export async function runFileAccessNode(
  context: NodeContext,
  options: FileAccessNodeOptions = {},
): Promise<void> {
  const { client, nodeName, containers, logger, metrics: shared } = context;
  const on = { kernelId: options.kernelId ?? readKernelId(), nodeName };
  const { identity = context.identity } = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const counts = new NodeCounts();
  await using cleanup = new AsyncDisposableStack();

  const recorder = context.recorder();
  const policies = context.cache(policyQuery, 'kivepolicies');
  const pods = context.cache({ ...podQuery, fieldSelector: `spec.nodeName=${nodeName}` }, 'pods');
  const data = context.cache(dataQuery(['place', 'kernel']), 'kivedata');
  const accessors = cleanup.use(new NodeContainerIndex(containers, accessorOf));

  /** Wall clock of the batch that is read: one look at it for all its alerts. */
  let nowMs = 0;
  const sensor = cleanup.use(
    new LocalSensor({
      ...options.sensor,
      // Only the loader of a kernel sees accesses; the others identify files.
      attached: false,
      accessorOf: (access, ownerId) => accessorJson(accessors.index, access, ownerId),
      onAlert: (line, callback, id, access, planned) => {
        context.sink(line);
        counts.alerts++;
        nowMs ||= Date.now();
        counts.addLatency(nowMs - Number(access.timeNs) / 1e6);
        if (callback !== '' && options.delivery !== undefined) {
          counts.callbacks++;
          const { callbackSecret: secret } = planned;
          if (secret === undefined || !options.delivery.enqueue(callback, id, line, secret))
            counts.callbacksRefused++;
        }
        reporter.alerted(policyOf(planned), nowMs);
      },
      onBatchEnd: () => void (nowMs = 0),
      onLoss: (lost, stats) => {
        logger.error({ lost, stats }, 'accesses to watched files were lost');
        told.lost(lost, lossOf());
      },
      onProblem: (err) => logger.error({ err }, 'a problem of the sensor'),
    }),
  );
  const told = new NodeEvents({
    recorder,
    nodeName,
    policies,
    onCallbacks: (keys) => reporter.touch(keys),
  });
  const containerQueue = cleanup.use(keyQueue());
  const deletionQueue = cleanup.use(keyQueue());
  const reportQueue = cleanup.use(keyQueue());
  let discovery: Discovery | undefined;
  let loader: Loader | undefined;
  let ready = false;
  function* lossOf(): Iterable<string> {
    for (const planned of loader?.plan.values() ?? []) yield policyOf(planned);
  }
  const tellState = (): void =>
    options.onState?.({ ready, isLoader: loader?.active === true, sensorMode: sensor.sensor.mode });
  const reporter = new NodeReporter({
    client,
    nodeName,
    policies,
    viewOf: (key) => discovery?.viewOf(key) ?? [],
    queue: reportQueue,
    stateOf: options.delivery?.stateOf?.bind(options.delivery),
    onRefused: (key, problem) => told.callbackRefused(key, problem),
  });
  const files = cleanup.use(
    new TrapFiles({
      identify: (fd) => sensor.identify(fd),
      onChange: (id) => discovery?.touch(id),
      onProblem: (err) => logger.warn({ err }, 'not all files in containers can be followed by events'),
    }),
  );
  let retry: NodeJS.Timeout | undefined;
  cleanup.defer(() => clearTimeout(retry));
  const apply = (changes: PlanChanges): void => {
    sensor.applyChanges(changes);
    const [refused] = sensor.refused.values();
    if (refused === undefined || retry !== undefined) return;
    logger.error({ err: refused.error, files: sensor.refused.size }, 'files are not watched');
    retry = setTimeout(() => {
      retry = undefined;
      apply({ add: [], remove: [], replace: [], move: [] });
    }, RETRY_REFUSED_MS);
  };
  if (shared !== undefined) {
    registerNodeMetrics(shared.metrics, {
      counts,
      sensor: () => sensor.stats(),
      watched: () => sensor.size,
      moved: () => sensor.moved,
      movedDropped: () => files.droppedMoved,
      refused: () => sensor.refused.size,
      isLoader: () => loader?.active === true,
      containers: () => [...containers.list()].length,
      data: () => data.size,
    });
  }

  let holder = '';
  registerNodeHealth(context.health, {
    containers,
    sensor: () => sensor.stats(),
    looked: () => ready,
    hasLoader: () => loader?.active === true || holder !== '',
  });

  const control = (
    name: string,
    queue: WorkQueue,
    reconcile: Parameters<typeof runController<string>>[0]['reconcile'],
  ): Promise<unknown> =>
    runController({
      name: `file-access-${name}`,
      queue,
      reconcile,
      signal,
      workers: WORKERS,
      logger,
      ...(shared && { metrics: shared.controllers }),
    });

  const work = async (): Promise<void> => {
    clearTimeout(slow);
    using running = new DisposableStack();
    const found = new Discovery({
      client,
      on,
      containers,
      files,
      policies,
      pods,
      data,
      queue: containerQueue,
      logger,
      onFound: (names) => loader?.found(names),
      onPolicies: (keys) => reporter.touch(keys),
      onFile: (event, trap, container) => told.file(event, trap, container),
    });
    running.use(found);
    discovery = found;
    const planner = running.use(
      new Loader({
        client,
        on,
        data,
        local: found,
        queue: deletionQueue,
        apply,
        sensor,
        logger,
        onPlanned: (planned) => {
          if (planned.callbackSecret !== undefined) return;
          logger.error(
            { data: planned.name },
            'a KiveData names a Secret of another namespace than that of its policy; its alerts are not sent to its callback',
          );
        },
        onActive: tellState,
      }),
    );
    loader = planner;
    running.use(options.delivery && told.followCallbacks(options.delivery));
    for (const key of policies.keys()) reportQueue.add(key, { level: 1 });
    ready = true;
    tellState();
    const { kernelId } = on;
    await allOrNone(stop, [
      control('discover', containerQueue, found.reconcile).then(ignore),
      control('loader', deletionQueue, planner.reconcile).then(ignore),
      control('report', reportQueue, reporter.reconcile).then(ignore),
      runLoaderElection({
        client,
        kernelId,
        identity,
        loader: planner,
        signal,
        logger,
        onHolder: (seen) => void (holder = seen),
      }),
    ]);
  };

  const slow = setTimeout(() => {
    const missing = [policies, pods, data].filter(({ isSynced }) => !isSynced).map(({ type }) => type.plural);
    logger.warn(
      { missing: missing.length > 0 ? missing : ['containers'] },
      'no file can be watched before these are known',
    );
  }, SLOW_START_MS);
  cleanup.defer(() => clearTimeout(slow));
  await whenSynced([policies, pods, data, containers], signal, work);
}

/** `namespace/name`. */
function policyOf({ context }: PlannedAlert): string {
  return `${context.policyNamespace}/${context.policyName}`;
}

function ignore(): void {}
