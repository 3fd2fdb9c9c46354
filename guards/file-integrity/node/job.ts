/**
 * One FileIntegrity on this node: its parts and how they are connected, its state as seen by plan.ts, and its steps.
 * The steps of all jobs of a node run one after another, see jobs.ts.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { apiVersionOf, type ConfigMap, type Node } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type FileIntegrity, type FileIntegrityNodeStatus, type IntegrityTypes, names } from '../api.ts';
import { configurationId } from '../aide-conf/digest.ts';
import { BaselineError } from '../database/baseline-error.ts';
import type { SigningKey } from '../database/signature.ts';
import type {
  AcceptOptions,
  Acceptance,
  CheckResult,
  IntegrityJob,
  IntegrityProvider,
} from '../provider/provider.ts';
import { CurrentFindings } from '../results/findings.ts';
import { hostPath } from '../results/held-finding.ts';
import { integrityLine } from './finding-line.ts';
import type { JobContext } from './job-context.ts';
import { JobInputs } from './job-inputs.ts';
import { JobLive } from './job-live.ts';
import { JobResults, type ResultFacts } from './job-results.ts';
import { JobRecord } from './job-record.ts';
import { JobState } from './job-state.ts';
import { KeyFollower } from './key-follower.ts';
import type { JobReading } from './node-counts.ts';
import { jobDirectoryName } from './old-jobs.ts';
import type { AcceptRequest, InitReason, JobView } from './plan.ts';
import { NewestBaseline } from '../database/newest-baseline.ts';
import { PackageUpdates } from '../packages/package-updates.ts';
import { pathsThatFit } from './accepted-entries.ts';
import type { ByteString } from '../model/entry.ts';
import type { FindingChange } from '../model/finding.ts';

export class Job implements AsyncDisposable {
  readonly key: string;
  readonly uid: string;
  /** Name of the job's directory within the directory of all jobs. */
  readonly directoryName: string;
  readonly #context: JobContext;
  readonly #logger: Logger;
  readonly #directory: string;
  readonly #stop = new AbortController();
  /** What the FileIntegrity, its configuration and the Node request. */
  readonly #inputs: JobInputs;
  /** What a restarted agent needs, and the requests that are not completed yet. */
  readonly #record: JobRecord;
  readonly #key: KeyFollower;
  /** What is known about the baseline, and when a step is due. */
  readonly #state: JobState;
  readonly #findings: CurrentFindings;
  readonly #packages: PackageUpdates;
  /** Compares files between the steps. */
  readonly #live: JobLive;
  readonly #results: JobResults;
  readonly #newest = new NewestBaseline();

  constructor(context: JobContext, { integrities }: IntegrityTypes, integrity: FileIntegrity) {
    const { namespace = '', name = '', uid = '' } = integrity.metadata;
    const { client, clock, nodeName, containers } = context;
    const { signal } = this.#stop;
    this.key = `${namespace}/${name}`;
    this.uid = uid;
    this.#context = context;
    this.#inputs = new JobInputs(nodeName, integrity, () => (this.#state.wantsScan = true));
    const logger = (this.#logger = context.logger.child({ fileIntegrity: this.key }));
    this.directoryName = jobDirectoryName(namespace, name);
    this.#directory = join(context.directory, this.directoryName);
    this.#state = new JobState(clock, () => this.#inputs.schedule);
    this.#record = new JobRecord(this.#directory, uid, logger);
    this.#findings = new CurrentFindings({ prefix: context.root.prefix, onChange: this.#onFindings });
    this.#results = new JobResults({
      ...{ client, clock, nodeName, logger, signal },
      fileIntegrity: { namespace, name },
      owner: { apiVersion: apiVersionOf(integrities), kind: integrities.kind, name, uid },
      ...{ directory: this.#directory, findings: this.#findings },
      facts: () => this.#facts(),
      onSent: () => void context.counts.results++,
    });
    this.#packages = new PackageUpdates({
      ...{ root: context.root, directory: this.#directory, findings: this.#findings, logger },
      isAccepting: () => this.#inputs.spec.config.acceptPackageUpdates === true,
      onAcceptable: () => context.wake(),
      onBroken: () => this.#reportSoon(),
      idleMs: context.packagesIdleMs,
    });
    this.#live = new JobLive({
      ...{ key: this.key, nodeName, containers, logger, findings: this.#findings, signal },
      ...{ packages: this.#packages, largeBytes: context.largeBytes, start: context.live },
      nowMs: () => clock.wallMs(),
      progress: () => context.counts.progress(),
      isHeld: () => this.#inputs.isHeld,
      requestScan: (why) => {
        logger.info({ why }, 'scan requested');
        this.#state.times.checkSoon();
        context.wake();
      },
      onDetection: () => this.#reportSoon(),
      onLargeRead: () => this.#results.soon(),
    });
    this.#setLevel();
    this.#key = new KeyFollower({
      ...{ client, namespace, clock, logger, signal },
      onKey: () => {
        this.#state.forgetBaseline();
        context.wake();
      },
      onMissing: (error) => this.#results.reportError(error),
    });
    void this.#key.run();
  }

  get integrity(): FileIntegrity {
    return this.#inputs.integrity;
  }

  /** The current FileIntegrity. */
  set integrity(integrity: FileIntegrity) {
    const { provider } = this.#inputs.spec;
    this.#inputs.integrity = integrity;
    this.#setLevel();
    if (provider !== integrity.spec.provider) this.#state.forgetBaseline();
    this.#state.times.reschedule();
    this.#packages.acceptHeld();
    this.#context.wake();
  }

  set node(node: Node | undefined) {
    this.#inputs.node = node;
    this.#context.wake();
  }

  set configuration(configMap: ConfigMap | undefined) {
    if (!this.#inputs.takeConfiguration(configMap)) return;
    this.#state.forgetBaseline();
    this.#context.wake();
  }

  /** What the operator knows about this node; undefined if it knows nothing. */
  set status(status: FileIntegrityNodeStatus | undefined) {
    if (this.#record.takeStatus(status)) this.#state.times.tryNow();
    this.#newest.learn(this.#record.newestBaseline);
    this.#context.wake();
  }

  get view(): JobView {
    return {
      ...this.#state.view,
      gracePeriodMs: this.#inputs.schedule.gracePeriodS * 1000,
      provider: this.#inputs.spec.provider,
      hasConfiguration: this.#inputs.conf !== undefined,
      hasKey: this.#key.key !== undefined,
      isHeld: this.#inputs.isHeld,
      isReconfigured: this.#inputs.isReconfiguredSince(this.#record.notes.machineConfig),
      requests: this.#record.requests,
      // The API takes precedence over the note: an old note may have been restored.
      madeBy: this.#newest.newest?.provider ?? this.#record.notes.madeBy,
      knowsFindings: this.#findings.isKnown,
      hasAcceptable: this.#packages.hasAcceptable,
    };
  }

  get reading(): JobReading {
    const { added, removed, changed, problems } = this.#findings.counts;
    return {
      key: this.key,
      findings: added + removed + changed,
      unread: problems,
      errored: this.#results.isErrored,
      pending: this.#results.isPending,
      detection: this.#live.detection,
      scannedMs: this.#record.notes.checkedMs,
      periodMs: this.#inputs.isHeld ? undefined : this.#inputs.schedule.gracePeriodS * 1000,
    };
  }

  /** Identifies the inputs of a step: if the stamp changes while the step runs, the step is outdated. */
  stampOf(kind: 'init' | 'accept' | 'check'): string {
    return this.#inputs.stampOf(kind, this.#record.requests);
  }

  async look(): Promise<void> {
    // The key may have been wrong for a while, and be right again now.
    if (this.#state.isBroken) await this.#key.ask();
    const [provider, job] = [await this.#provider(), await this.#job()];
    if (await this.#record.read(job.signingKey)) {
      const waiting = await this.#results.resume(job.signingKey, this.#record.notes.sequence);
      if (waiting) this.#logger.info('sending a result from before the restart');
    }
    const state = await provider.state(job);
    if (state === 'none' && this.#record.hadBaselineOf(provider.name))
      throw new BaselineError('missing', job.directory, 'it is gone');
    this.#state.looked(state, configurationId(provider.name, job.conf.text));
    if (state !== 'ready') return;
    const { continuedFromMs } = this.#record;
    if (continuedFromMs !== undefined) {
      const made = new Date(continuedFromMs).toISOString();
      this.#logger.info({ made }, 'continuing from the baseline of an earlier FileIntegrity of this name');
    }
    this.#state.times.resumed(this.#record.notes.checkedMs);
    if (!this.#live.isRunning) await this.#packages.resume(job.signingKey);
    // The results for the earlier FileIntegrity were deleted with it.
    if (continuedFromMs !== undefined && !this.#record.wasSeenByOperator) this.#state.wantsScan = true;
    await this.#live.start(job, provider);
  }

  async init(reason: InitReason, requests: readonly string[], signal: AbortSignal): Promise<void> {
    const { clock, counts } = this.#context;
    const provider = await this.#provider();
    // If the key has been replaced, a baseline signed with the old one would soon be refused: read the key now.
    await this.#key.ask();
    let job = await this.#job();
    await this.#record.readIfOurs(job.signingKey);
    await this.#live.stop();
    if (this.#record.continuedFromMs !== undefined) {
      // If the process is killed after the baseline is made, the note must not claim that it is the earlier
      // FileIntegrity's.
      this.#record.done({ madeFor: undefined });
      await this.#record.write(this.#results.sequence, job.signingKey);
    }
    const startedMs = clock.monotonicMs();
    // Read before the files are: the baseline may lack updates that are made meanwhile.
    const packages = provider.openBaseline === undefined ? undefined : await this.#packages.read();
    const make = () =>
      provider.init(job, { signal, onProgress: counts.progress(), request: requests.at(-1) });
    let { entries, unread } = await make();
    while (job.signingKey !== this.#key.key) {
      // The key was replaced meanwhile, so create the baseline again.
      job = await this.#job();
      ({ entries, unread } = await make());
    }
    counts.scans.init++;
    counts.scanSeconds.add((clock.monotonicMs() - startedMs) / 1000);
    this.#logger.info({ reason, entries, unread }, 'created a baseline');
    await this.#packages.begin(packages, job.signingKey);
    this.#state.initialized(reason, configurationId(provider.name, job.conf.text));
    this.#findings.reset(entries, unread);
    this.#live.large.clear();
    const { machineConfig } = this.#inputs;
    const atMs = clock.wallMs();
    const made = { madeBy: provider.name, madeFor: { uid: this.uid, atMs }, checkedMs: atMs };
    this.#record.done({ ...made, ...(machineConfig && { machineConfig }) }, requests);
    await this.#goOn(job, provider);
  }

  async accept(request: AcceptRequest, signal: AbortSignal): Promise<void> {
    const { author, reason, id, path, seenUntilMs } = request;
    const paths = pathsThatFit(path, this.#findings.paths(seenUntilMs), this.#context.root.prefix);
    await this.#accept(paths, { author, reason, request: id }, { signal }, (left) => {
      this.#findings.accept(paths.filter((one) => !left.has(one)));
      const unread = [...left];
      this.#logger.info({ author, reason, accepted: paths.length - left.size, unread }, 'accepted findings');
      // Findings beyond the limit are only counted: a scan has to find the paths of the rest.
      if (this.#findings.omitted > 0) this.#state.wantsScan = true;
      this.#record.done({}, [id]);
    });
  }

  /** Accepts package updates into the baseline, if the files are still as the updates explain. */
  async acceptUpdates(signal: AbortSignal): Promise<void> {
    const all = this.#packages.acceptable();
    const { paths, updates, about, expected } = all;
    await this.#accept(paths, about, { signal, expected }, async (left) => {
      await this.#packages.wereAccepted(all, left);
      this.#logger.info({ updates, accepted: paths.length - left.size }, 'accepted updates of packages');
    });
  }

  /** @param onAccepted called with the paths that could not be accepted, before the result is reported */
  async #accept(
    paths: readonly ByteString[],
    about: Acceptance,
    options: AcceptOptions,
    onAccepted: (left: ReadonlySet<ByteString>) => Promise<void> | void,
  ): Promise<void> {
    const [provider, job] = [await this.#provider(), await this.#job()];
    await this.#live.stop();
    const { unread } = await provider.accept(job, paths, about, options).catch(async (error: unknown) => {
      if (!(error instanceof BaselineError)) await this.#live.start(job, provider);
      throw error;
    });
    this.#context.counts.scans.accept++;
    await onAccepted(new Set(unread));
    await this.#goOn(job, provider);
  }

  /** Starts a scan. @throws what prevents it */
  async beginCheck(): Promise<IntegrityJob> {
    const job = await this.#job();
    this.#state.beginCheck();
    this.#findings.beginScan();
    return job;
  }

  async endCheck(result: CheckResult): Promise<void> {
    const { clock, counts, root } = this.#context;
    const { report, counted, large = [] } = result;
    counts.scans.check++;
    this.#state.endCheck();
    this.#live.large.add(large);
    this.#findings.endScan(report, clock.wallMs(), counted, this.#live.large.paths);
    const { problems } = report;
    if (problems.length > 0) {
      const some = problems.slice(0, 3).map(({ path, code }) => `${hostPath(path, root.prefix)}: ${code}`);
      this.#logger.warn({ count: report.counts.problems, some }, 'some files could not be read');
    }
    // The baseline may have been made before the node had a Machine Config Operator.
    const machineConfig = this.#record.notes.machineConfig ?? this.#inputs.machineConfig;
    this.#record.done({ checkedMs: clock.wallMs(), ...(machineConfig && { machineConfig }) });
    await this.#results.reportScan(result);
    const job = await this.#job();
    await this.#record.write(this.#results.sequence, job.signingKey);
    await this.#live.resume(job, await this.#provider());
  }

  /** Call when a step was aborted because another one has to be done. */
  superseded(): void {
    this.#findings.abortScan();
    this.#state.superseded();
  }

  async failed(error: unknown): Promise<void> {
    const { conf, spec } = this.#inputs;
    this.#state.failed(error, conf === undefined ? undefined : configurationId(spec.provider, conf));
    this.#findings.abortScan();
    this.#context.counts.scans.failed++;
    if (error instanceof BaselineError) await this.#live.stop();
    this.#logger.error({ err: error }, 'the state of the files is unknown');
    await this.#results.reportError(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#live.stop();
    this.#packages[Symbol.dispose]();
    await this.#results.ended(this.#key.key);
  }

  #setLevel(): void {
    this.#logger.level = this.#inputs.spec.debug === true ? 'debug' : this.#context.logger.level;
  }

  #provider(): Promise<IntegrityProvider> {
    return this.#context.providers(this.#inputs.spec.provider);
  }

  async #job(): Promise<IntegrityJob> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    return {
      key: this.key,
      conf: { name: `ConfigMap ${this.key}, ${names.confKey}`, text: this.#inputs.conf ?? '' },
      root: this.#context.root,
      directory: this.#directory,
      signingKey: this.#key.key as SigningKey,
      maxBackups: this.#inputs.schedule.maxBackups,
      newest: this.#newest,
    };
  }

  #facts(): ResultFacts {
    return {
      detection: this.#live.detection,
      accepted: this.#packages.accepted,
      reading: this.#live.large.paths,
      doneRequests: this.#record.notes.doneRequests,
      continuedFromMs: this.#record.continuedFromMs,
      key: this.#key.key,
      baseline: this.#newest.current,
      configuration: this.#state.configuration,
      periodMs: this.#inputs.schedule.gracePeriodS * 1000,
      failure: this.#state.failure,
    };
  }

  /** Reports changes that events have shown. Steps report their results themselves. */
  #reportSoon(): void {
    if (this.#live.isRunning && this.#findings.isKnown) this.#results.soon();
  }

  /** After a step: reports its outcome, saves the state for a restart, and watches the files again. */
  async #goOn(job: IntegrityJob, provider: IntegrityProvider): Promise<void> {
    await this.#results.report();
    await this.#record.write(this.#results.sequence, job.signingKey);
    await this.#live.start(job, provider);
  }

  readonly #onFindings = (changes: readonly FindingChange[]): void => {
    const { sink, nodeName, counts, clock } = this.#context;
    for (const change of changes) {
      if (change.state === 'found') counts.findings[change.finding.seenBy]++;
      sink(integrityLine(change, { fileIntegrity: this.key, nodeName, nowMs: clock.wallMs() }));
    }
    this.#reportSoon();
  };
}
