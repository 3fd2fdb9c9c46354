/** The guard's part of the agent: baselines, scans and results of the FileIntegrities that select this node. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import type { NodeContext } from '../../../guard/context.ts';
import type { NodePart } from '../../../guard/guard.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { nodeFacts } from '../../../lib/kube/object/facts.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import { type KubeObject, type Node, nodes } from '../../../lib/kube/object/object.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { bothGroups, type FileIntegrity, type IntegrityTypes } from '../api.ts';
import { liveOf } from '../live/start-live.ts';
import type { FileIntegrityOptions } from '../options.ts';
import { isForNode } from '../results/for-node.ts';
import type { NodeJobs, WantedJob } from './jobs.ts';
import { jobDirectoryName } from './old-jobs.ts';
import { NodeCounts } from './node-counts.ts';
import { registerNodeHealth, StepWatch } from './node-health.ts';
import { StepProgress } from './step-progress.ts';
import { coverageOf, nodeFacts as statusFacts } from '../results/node-facts.ts';
import type { IntegrityProvider } from '../provider/provider.ts';
import { winnerOf } from '../results/same-name.ts';
import { warnOfSlowStart } from '../../../guard/slow-start.ts';
import type { StartLive } from '../live/live-job.ts';

/** The guard's part of the agent. It also detects changes as they happen. */
export const fileIntegrityNode: NodePart<FileIntegrityOptions> = async (context, options) => {
  const { mode, readBytesPerSecond, workers } = options;
  await runFileIntegrityNode(context, {
    // Changes have no fentry mode; kprobes detect them on the same kernels.
    live: liveOf({ signal: context.signal, mode: mode === 'fentry' ? 'auto' : mode }),
    ...{ readBytesPerSecond, workers },
  });
};

export type ProviderName = IntegrityProvider['name'];

export interface FileIntegrityNodeOptions {
  /** How much the native provider may read, in bytes per second. Default: unlimited. */
  readonly readBytesPerSecond?: number | undefined;
  /** Number of threads of the native provider. Default: 2, or the number of CPUs if that is lower. */
  readonly workers?: number | undefined;
  /** Replaces providers; each is created when a FileIntegrity requests it. */
  readonly providers?: Partial<Record<ProviderName, () => Promise<IntegrityProvider> | IntegrityProvider>>;
  /** Watches files between the scans. */
  readonly live?: StartLive;
  /** Called when a step begins or ends, and when the number of jobs changes. */
  readonly onState?: (state: NodeState) => void;
  readonly clock?: Clock;
  /** How long a change by dpkg waits until dpkg has recorded its package. Default: half a minute. */
  readonly packagesIdleMs?: number;
  /** Larger files are compared after all others. Default: 256 MiB. */
  readonly largeBytes?: number;
}

export interface NodeState {
  readonly ready: boolean;
  /** Number of FileIntegrities that select this node. */
  readonly jobs: number;
  /** The current step; undefined between steps. */
  readonly step: 'look' | 'init' | 'accept' | 'check' | undefined;
}

/** Prefix of paths in converted configurations. */
const hostPrefix = '/hostroot';
/** Scans only use CPU time that no other process needs. */
const scanNiceness = 19;

/**
 * Runs until `signal` aborts. Without the API, it continues with the last known state, and results wait on disk. If a
 * FileIntegrity fails, that becomes its result, and the others are not affected.
 */
export async function runFileIntegrityNode(
  context: NodeContext,
  options: FileIntegrityNodeOptions = {},
): Promise<void> {
  const { client, nodeName, logger, metrics: shared } = context;
  const { clock = systemClock, onState } = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const integrities = bothGroups.map((types) => {
    const { plural, group } = types.integrities;
    const query = { type: types.integrities, projection: withoutStatus, parsedLimit: 16 };
    return { types, cache: context.cache<FileIntegrity>(query, `${plural}.${group}`) };
  });
  const ownNode = context.cache(
    { type: nodes, projection: nodeFacts, fieldSelector: `metadata.name=${nodeName}`, parsedLimit: 1 },
    'nodes',
  );
  const caches = [...integrities.map(({ cache }) => cache), ownNode];
  using slow = warnOfSlowStart(caches, {
    logger,
    consequence: 'files are not compared until they are available',
  });
  const counts = new NodeCounts();
  if (shared !== undefined) counts.register(shared.metrics);
  const steps = new StepWatch(clock, counts);
  let isReady = false;
  registerNodeHealth(context.health, { looked: () => isReady, steps });

  let jobs: NodeJobs | undefined;
  let count = 0;
  let step: NodeState['step'];
  let followed: { readonly uid: string; readonly generation: number }[] = [];
  const progress = new StepProgress(counts, clock);
  context.reportFacts(() => statusFacts({ followed, progress: progress.now() }));
  context.reportCoverage(() => coverageOf([...counts.jobs()][0]?.detection));
  const reportState = (): void => onState?.({ ready: isReady, jobs: count, step });

  const work = async (): Promise<void> => {
    slow[Symbol.dispose]();
    let running: Promise<void> | undefined;
    let changed = Promise.withResolvers<void>();
    const touch = (): void => changed.resolve();
    using listening = new DisposableStack();
    for (const { cache } of integrities) listening.use(cache.subscribe(touch));
    listening.use(ownNode.subscribe(touch));
    signal.addEventListener('abort', touch, { once: true });
    while (!signal.aborted) {
      changed = Promise.withResolvers();
      const now = wantedJobs(integrities, ownNode.get(nodeName), context.directory);
      if (jobs === undefined && now.size > 0) {
        const { NodeJobs } = await import('./jobs.ts');
        jobs = new NodeJobs({
          ...{ client, nodeName, clock, logger, counts, signal, metrics: shared },
          ...{ containers: context.containers, sink: context.sink, live: options.live },
          ...{ packagesIdleMs: options.packagesIdleMs, largeBytes: options.largeBytes },
          root: { directory: context.hostRoot, prefix: hostPrefix },
          directory: context.directory,
          providers: providersOf(context.version, options),
          onStep: (kind, job) => {
            step = kind === 'wait' ? undefined : kind;
            progress.begin(step, job);
            steps.set(step);
            reportState();
          },
        });
        running = jobs.run().catch((error: unknown) => stop.abort(error));
      }
      if (jobs !== undefined) jobs.wanted = now;
      count = now.size;
      followed = [...now.values()].map(({ integrity: { metadata } }) => ({
        uid: metadata.uid ?? '',
        generation: metadata.generation ?? 0,
      }));
      isReady = true;
      reportState();
      await changed.promise;
    }
    await running;
    const { reason } = stop.signal;
    if (stop.signal.aborted && !context.signal.aborted) throw reason;
  };

  await whenSynced(caches, signal, work);
}

/**
 * The FileIntegrities that select this node, keyed by `namespace/name`.
 *
 * @param directory of all jobs: a FileIntegrity with a subdirectory there has already run on this node
 */
function wantedJobs(
  integrities: readonly { readonly types: IntegrityTypes; readonly cache: IndexedCache<FileIntegrity> }[],
  node: Node | undefined,
  directory: string,
): Map<string, WantedJob> {
  const found = new Map<string, WantedJob>();
  for (const key of new Set(integrities.flatMap(({ cache }) => [...cache.keys()]))) {
    const named = integrities.flatMap(({ types, cache }) => {
      const integrity = cache.get(key);
      return integrity === undefined ? [] : [{ types, integrity, node }];
    });
    // The winner need not select this node: the operator determines it without knowing the node, and both must agree.
    const winner = winnerOf(named.map(({ integrity }) => integrity));
    const job = named.find(({ integrity }) => integrity === winner);
    if (job === undefined) continue;
    const { namespace = '', name = '' } = job.integrity.metadata;
    const isRunning = existsSync(join(directory, jobDirectoryName(namespace, name)));
    if (isForNode(job.integrity.spec, node, isRunning)) found.set(key, job);
  }
  return found;
}

/** Returns providers; each is created once, when it is first needed. */
function providersOf(
  version: string,
  { workers, readBytesPerSecond, providers }: FileIntegrityNodeOptions,
): (name: ProviderName) => Promise<IntegrityProvider> {
  const ours: Record<ProviderName, () => Promise<IntegrityProvider> | IntegrityProvider> = {
    native: async () => {
      const { NativeProvider } = await import('./native-provider.ts');
      return new NativeProvider({
        version,
        niceness: scanNiceness,
        workers,
        readBytesPerSecond,
      });
    },
    aide: async () => {
      const { AideProvider } = await import('../aide-provider/provider.ts');
      return new AideProvider();
    },
    ...providers,
  };
  const made = new Map<ProviderName, Promise<IntegrityProvider>>();
  return async (name) => {
    const known = made.get(name);
    if (known !== undefined) return known;
    const making = Promise.resolve(ours[name]());
    made.set(name, making);
    // Retried next time: the program may be installed later.
    making.catch(() => made.delete(name));
    return making;
  };
}

/** Drops the status, which the operator writes about all nodes and this one does not need. */
function withoutStatus<T extends KubeObject>(object: T): T {
  const { status: _, ...rest } = object as T & { status?: unknown };
  return rest as unknown as T;
}
