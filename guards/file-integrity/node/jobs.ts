/**
 * The FileIntegrities that select this node: watches the objects that belong to each, and runs their steps one after
 * another.
 *
 * This module is imported, and the scan engine with it, once the first FileIntegrity selects this node: an agent
 * without one needs no memory for them.
 */
import { type ConfigMap, configMaps, type Node } from '../../../lib/kube/object/object.ts';
import type { SharedMetrics } from '../../../lib/kube/controller/shared-metrics.ts';
import { type FileIntegrity, type FileIntegrityNodeStatus, type IntegrityTypes, names } from '../api.ts';
import { activeConfigName, nodeStatusName } from '../results/object-names.ts';
import type { CheckResult, IntegrityProvider } from '../provider/provider.ts';
import { followOne, slimConfigMap, slimStatus } from './follow-one.ts';
import { Job } from './job.ts';
import type { JobContext } from './job-context.ts';
import { defaultLargeBytes } from '../model/entry.ts';
import type { NodeCounts } from './node-counts.ts';
import { removeOldJobs } from './old-jobs.ts';
import { checkedTogether, firstOf, type Step, stepOf, wakeAtMs } from './plan.ts';

export interface WantedJob {
  readonly integrity: FileIntegrity;
  readonly types: IntegrityTypes;
  /** The Node object of this machine, if there is one. */
  readonly node: Node | undefined;
}

export interface NodeJobsOptions extends Omit<JobContext, 'wake'> {
  readonly signal: AbortSignal;
  readonly metrics?: SharedMetrics | undefined;
  /** Called with the step and the key of its job when it begins, and with undefined when it has ended. */
  readonly onStep?: (step: Step['kind'] | undefined, job?: string) => void;
}

interface Followed {
  readonly job: Job;
  readonly stop: AbortController;
  readonly ended: Promise<unknown>;
}

interface Planned {
  readonly job: Job;
  readonly view: Job['view'];
  readonly step: Step;
}

interface Running {
  readonly jobs: readonly Job[];
  readonly kind: 'init' | 'accept' | 'check';
  readonly stamps: readonly string[];
  readonly stop: AbortController;
}

const firstRemovalMs = 60 * 60_000;
const removalMs = 24 * 60 * 60_000;

/** All jobs of one node. */
export class NodeJobs {
  readonly #options: NodeJobsOptions;
  readonly #followed = new Map<string, Followed>();
  /** Removed jobs that have not ended yet, keyed by `namespace/name`. */
  readonly #ending = new Map<string, Promise<void>>();
  #wanted: ReadonlyMap<string, WantedJob> = new Map();
  #running: Running | undefined;
  #cancelRemoval: (() => void) | undefined;
  #woken = Promise.withResolvers<void>();

  constructor(options: NodeJobsOptions) {
    this.#options = options;
    options.counts.jobs = () => [...this.#followed.values()].map(({ job }) => job.reading);
  }

  /** The FileIntegrities that select this node now, keyed by `namespace/name`. */
  set wanted(wanted: ReadonlyMap<string, WantedJob>) {
    this.#wanted = wanted;
    this.#followWanted();
  }

  #followWanted(): void {
    const wanted = this.#wanted;
    for (const [key, { job }] of this.#followed) {
      const now = wanted.get(key);
      if (now === undefined || now.integrity.metadata.uid !== job.uid) this.#end(key);
    }
    for (const [key, one] of wanted) {
      // The previous job with this key still writes to their common directory.
      if (this.#ending.has(key)) continue;
      const known = this.#followed.get(key);
      if (known === undefined) this.#followed.set(key, this.#follow(one));
      else if (known.job.integrity.metadata.resourceVersion !== one.integrity.metadata.resourceVersion) {
        known.job.integrity = one.integrity;
      }
      const followed = this.#followed.get(key);
      if (followed !== undefined) followed.job.node = one.node;
    }
    this.#wake();
  }

  /** Runs the steps that are due, until the signal aborts; then ends all jobs. */
  async run(): Promise<void> {
    const { signal, clock } = this.#options;
    this.#removeOldSoon(firstRemovalMs);
    signal.addEventListener('abort', this.#wake, { once: true });
    while (!signal.aborted) {
      this.#woken = Promise.withResolvers();
      const nowMs = clock.monotonicMs();
      const planned = [...this.#followed.values()].map(({ job }) => planOf(job, nowMs));
      const next = firstOf(planned);
      if (next !== undefined) {
        await this.#do(next, planned, nowMs);
        continue;
      }
      const atMs = wakeAtMs(planned);
      const cancel = Number.isFinite(atMs) ? clock.schedule(atMs - nowMs, this.#wake) : undefined;
      await this.#woken.promise;
      cancel?.();
    }
    this.#cancelRemoval?.();
    for (const key of [...this.#followed.keys()]) this.#end(key);
    await Promise.all(this.#ending.values());
  }

  #removeOldSoon(delayMs: number): void {
    const { clock, directory, logger } = this.#options;
    this.#cancelRemoval = clock.schedule(delayMs, () => {
      const inUse = [...this.#followed.values()].map(({ job }) => job.directoryName);
      removeOldJobs(directory, new Set(inUse), clock.wallMs()).then(
        (removed) =>
          removed.length > 0 && logger.info({ removed }, 'removed baselines of deleted FileIntegrities'),
        (err: unknown) => logger.warn({ err }, 'cannot remove baselines of deleted FileIntegrities'),
      );
      this.#removeOldSoon(removalMs);
    });
  }

  readonly #wake = (): void => {
    this.#woken.resolve();
    const running = this.#running;
    if (running === undefined) return;
    const { jobs, kind, stamps, stop } = running;
    const isStill = (job: Job, at: number): boolean =>
      this.#followed.get(job.key)?.job === job && job.stampOf(kind) === stamps[at];
    if (!jobs.every(isStill)) stop.abort(new Superseded());
  };

  async #do(next: Planned, planned: readonly Planned[], nowMs: number): Promise<void> {
    const { onStep } = this.#options;
    const { job, step } = next;
    onStep?.(step.kind, job.key);
    switch (step.kind) {
      case 'look':
        await this.#attempt(job, () => job.look());
        break;
      case 'init':
        await this.#run('init', [job], (signal) =>
          this.#attempt(job, () => job.init(step.reason, step.requests, signal)),
        );
        break;
      case 'accept':
        await this.#run('accept', [job], (signal) =>
          this.#attempt(job, () =>
            step.request === undefined ? job.acceptUpdates(signal) : job.accept(step.request, signal),
          ),
        );
        break;
      case 'check': {
        const jobs = checkedTogether(next, planned, nowMs).map((one) => one.job);
        await this.#run('check', jobs, (signal) => this.#check(jobs, signal));
        break;
      }
      case 'wait':
    }
    onStep?.(undefined);
  }

  async #run(
    kind: Running['kind'],
    jobs: readonly Job[],
    action: (signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const stop = new AbortController();
    this.#running = { jobs, kind, stamps: jobs.map((job) => job.stampOf(kind)), stop };
    try {
      await action(AbortSignal.any([this.#options.signal, stop.signal]));
    } finally {
      this.#running = undefined;
    }
  }

  async #check(jobs: readonly Job[], signal: AbortSignal): Promise<void> {
    const { providers, clock, counts, largeBytes = defaultLargeBytes } = this.#options;
    const started: { readonly job: Job; readonly made: Awaited<ReturnType<Job['beginCheck']>> }[] = [];
    for (const job of jobs) {
      await this.#attempt(job, async () => void started.push({ job, made: await job.beginCheck() }));
    }
    const [first] = started;
    if (first === undefined) return;
    const startedMs = clock.monotonicMs();
    const made = started.map((one) => one.made);
    let results: readonly PromiseSettledResult<CheckResult>[];
    try {
      const provider: IntegrityProvider = await providers(first.job.integrity.spec.provider);
      results =
        provider.checkTogether === undefined
          ? await oneByOne(provider, made, { signal }, counts)
          : await provider.checkTogether(made, { signal, onProgress: counts.progress(), largeBytes });
    } catch (error) {
      results = started.map(() => ({ status: 'rejected', reason: error }));
    }
    counts.scanSeconds.add((clock.monotonicMs() - startedMs) / 1000);
    for (const [at, { job }] of started.entries()) {
      const result = results[at];
      await this.#attempt(job, async () => {
        if (result?.status !== 'fulfilled') throw result?.reason;
        await job.endCheck(result.value);
      });
    }
  }

  /**
   * Records a failure, which concerns only this job, unless the step was aborted because the job ends or has something
   * else to do.
   */
  async #attempt(job: Job, action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (this.#options.signal.aborted || error instanceof Superseded) job.superseded();
      else await job.failed(error);
    }
  }

  #follow({ integrity, types }: WantedJob): Followed {
    const { client, logger, metrics, nodeName } = this.#options;
    const job = new Job({ ...this.#options, wake: this.#wake }, types, integrity);
    const stop = new AbortController();
    const { namespace = '', name = '' } = integrity.metadata;
    const common = { client, logger, metrics, signal: stop.signal, namespace };
    let isStatusKnown = false;
    let configuration: ConfigMap | undefined;
    const ended = Promise.all([
      followOne<FileIntegrityNodeStatus>({
        ...common,
        type: types.nodeStatuses,
        name: nodeStatusName(name, nodeName),
        transform: slimStatus,
        onChange: (status) => {
          // FileIntegrity `a` on node `b-c` and `a-b` on node `c` have the same status name: requests to the other
          // node must be ignored.
          job.status = status?.nodeName === nodeName ? status : undefined;
          // The configuration is passed on only after the status, which decides whether a missing baseline is the first
          // one.
          if (!isStatusKnown && configuration !== undefined) job.configuration = configuration;
          isStatusKnown = true;
        },
      }),
      followOne<ConfigMap>({
        ...common,
        type: configMaps,
        name: activeConfigName(name),
        transform: slimConfigMap,
        labelSelector: names.aideConfLabel,
        onChange: (configMap) => {
          configuration = configMap;
          if (isStatusKnown) job.configuration = configMap;
        },
      }),
    ]);
    logger.info({ fileIntegrity: job.key }, 'a FileIntegrity selects this node');
    return { job, stop, ended };
  }

  #end(key: string): void {
    const followed = this.#followed.get(key);
    if (followed === undefined) return;
    this.#followed.delete(key);
    this.#options.logger.info({ fileIntegrity: key }, 'a FileIntegrity no longer selects this node');
    followed.stop.abort();
    this.#wake();
    const ending = (async () => {
      await followed.ended;
      await followed.job[Symbol.asyncDispose]();
    })().finally(() => {
      this.#ending.delete(key);
      if (!this.#options.signal.aborted) this.#followWanted();
    });
    this.#ending.set(key, ending);
  }
}

/** Aborts the current step because another one has to be done. */
class Superseded extends Error {}

function planOf(job: Job, nowMs: number): Planned {
  const { view } = job;
  return { job, view, step: stepOf(view, nowMs) };
}

async function oneByOne(
  provider: IntegrityProvider,
  jobs: readonly Parameters<IntegrityProvider['check']>[0][],
  options: Pick<Parameters<IntegrityProvider['check']>[1], 'signal'>,
  counts: NodeCounts,
): Promise<PromiseSettledResult<CheckResult>[]> {
  const results: PromiseSettledResult<CheckResult>[] = [];
  for (const job of jobs) {
    // Each job's progress starts at zero.
    const onProgress = counts.progress();
    const [result] = await Promise.allSettled([provider.check(job, { ...options, onProgress })]);
    options.signal.throwIfAborted();
    results.push(result);
  }
  return results;
}
