/**
 * One FileIntegrity on this node: what is known of it, and how each step of its plan is done. The steps of all jobs of a node
 * are done one after the other, see jobs.ts.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { apiVersionOf, type ConfigMap, type Node } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type FileIntegrity, type FileIntegrityNodeStatus, type IntegrityTypes, names } from '../api.ts';
import { configurationId } from '../aide-conf/digest.ts';
import { BaselineError } from '../database/baseline-error.ts';
import type { SigningKey } from '../database/signature.ts';
import type { CheckResult, InitResult, IntegrityJob, IntegrityProvider } from '../provider/provider.ts';
import { CurrentFindings } from '../results/findings.ts';
import { hostPath } from '../results/held-finding.ts';
import { integrityLine } from './finding-line.ts';
import type { JobContext } from './job-context.ts';
import { JobInputs } from './job-inputs.ts';
import { JobLive } from './job-live.ts';
import { JobResults, type ResultFacts } from './job-results.ts';
import { JobRecord } from './job-record.ts';
import { JobTimes } from './job-times.ts';
import { KeyFollower } from './key-follower.ts';
import { LargeFiles } from './large-files.ts';
import type { JobReading } from './node-counts.ts';
import { jobDirectoryName } from './old-jobs.ts';
import type { AcceptRequest, InitReason, JobView } from './plan.ts';
import { NewestBaseline } from '../database/newest-baseline.ts';
import { PackageUpdates } from '../packages/package-updates.ts';
import { explanationText } from '../model/explanation.ts';
import { pathsThatFit } from './accepted-entries.ts';
import type { FindingChange } from '../model/finding.ts';

/** How many characters a reason that names updates may have. */
const maxReason = 1000;

export class Job implements AsyncDisposable {
  readonly key: string;
  readonly uid: string;
  /** In that of all jobs. */
  readonly directoryName: string;
  readonly #context: JobContext;
  readonly #logger: Logger;
  readonly #directory: string;
  readonly #stop = new AbortController();
  readonly #times: JobTimes;
  readonly #findings: CurrentFindings;
  readonly #record: JobRecord;
  readonly #results: JobResults;
  readonly #live: JobLive;
  readonly #large: LargeFiles;
  readonly #packages: PackageUpdates;
  readonly #key: KeyFollower;
  readonly #inputs: JobInputs;
  readonly #newest = new NewestBaseline();
  #signingKey: SigningKey | undefined;
  #baseline: JobView['baseline'] = 'unknown';
  /** The configuration that the baseline was made with, or that it could not be made with. */
  #configuration: string | undefined;
  #wantsScan = false;
  #isChecking = false;
  /** Why nothing could be said of all files the last time. */
  #failure: unknown;

  constructor(context: JobContext, { integrities }: IntegrityTypes, integrity: FileIntegrity) {
    const { namespace = '', name = '', uid = '' } = integrity.metadata;
    const { client, clock, nodeName, containers } = context;
    const { signal } = this.#stop;
    this.key = `${namespace}/${name}`;
    this.uid = uid;
    this.#context = context;
    this.#inputs = new JobInputs(nodeName, integrity);
    const logger = (this.#logger = context.logger.child({ fileIntegrity: this.key }));
    this.directoryName = jobDirectoryName(namespace, name);
    this.#directory = join(context.directory, this.directoryName);
    this.#times = new JobTimes(clock, () => this.#inputs.schedule);
    this.#record = new JobRecord(this.#directory, uid, logger);
    this.#findings = new CurrentFindings({ prefix: context.root.prefix, onChange: this.#onFindings });
    this.#results = new JobResults({
      ...{ client, clock, nodeName, logger, signal },
      fileIntegrity: { namespace, name },
      owner: { apiVersion: apiVersionOf(integrities), kind: integrities.kind, name, uid },
      directory: this.#directory,
      findings: this.#findings,
      onSent: () => void context.counts.results++,
    });
    this.#packages = new PackageUpdates({
      ...{ root: context.root, directory: this.#directory, findings: this.#findings, logger },
      isAccepting: () => this.#inputs.spec.config.acceptPackageUpdates === true,
      onAcceptable: () => context.wake(),
      onBroken: () => this.#reportSoon(),
      idleMs: context.packagesIdleMs,
    });
    this.#live = new JobLive(
      context.live,
      {
        ...{ key: this.key, nodeName, containers, logger, findings: this.#findings },
        ...{ packages: this.#packages, largeBytes: context.largeBytes },
        isHeld: () => this.#inputs.isHeld,
        requestScan: (why) => {
          logger.info({ why }, 'scan requested');
          this.#times.checkSoon();
          context.wake();
        },
      },
      () => this.#reportSoon(),
    );
    this.#large = new LargeFiles({
      ...{ findings: this.#findings, logger, nowMs: () => clock.wallMs() },
      progress: () => context.counts.progress(),
      isHeld: () => this.#inputs.isHeld,
      onRead: () => this.#results.soon(() => this.#facts()),
    });
    this.#setLevel();
    this.#key = new KeyFollower({
      ...{ client, namespace, clock, logger, signal },
      onKey: (key) => {
        this.#signingKey = key;
        this.#forgetBaseline();
        context.wake();
      },
      onMissing: (why) =>
        this.#results.reportError(
          new RampartError(errorCodes.NOT_FOUND, { what: 'there is no key for signing baselines', why }),
          this.#facts(),
        ),
    });
    void this.#key.run();
  }

  get integrity(): FileIntegrity {
    return this.#inputs.integrity;
  }

  /** The present FileIntegrity. */
  set integrity(integrity: FileIntegrity) {
    const { provider } = this.#inputs.spec;
    this.#changeHeld(() => (this.#inputs.integrity = integrity));
    this.#setLevel();
    if (provider !== integrity.spec.provider) this.#forgetBaseline();
    this.#times.reschedule();
    this.#packages.acceptHeld();
    this.#context.wake();
  }

  set node(node: Node | undefined) {
    this.#changeHeld(() => (this.#inputs.node = node));
    this.#context.wake();
  }

  set configuration(configMap: ConfigMap | undefined) {
    if (!this.#inputs.takeConfiguration(configMap)) return;
    this.#forgetBaseline();
    this.#context.wake();
  }

  /** The operator's knowledge of this node; undefined if it has none. */
  set status(status: FileIntegrityNodeStatus | undefined) {
    const before = new Set(this.#record.requests.map(({ id }) => id));
    this.#record.status = status;
    this.#newest.learn(this.#record.newestBaseline);
    // A new request: it is tried at once.
    if (this.#record.requests.some(({ id }) => !before.has(id))) this.#times.tryNow();
    this.#context.wake();
  }

  get view(): JobView {
    return {
      gracePeriodMs: this.#inputs.schedule.gracePeriodS * 1000,
      provider: this.#inputs.spec.provider,
      hasConfiguration: this.#inputs.conf !== undefined,
      hasKey: this.#signingKey !== undefined,
      isHeld: this.#inputs.isHeld,
      isReconfigured: this.#inputs.isReconfiguredSince(this.#record.notes.machineConfig),
      requests: this.#record.requests,
      baseline: this.#baseline,
      // The API takes precedence over a note, which may have been put back.
      madeBy: this.#newest.newest?.provider ?? this.#record.notes.madeBy,
      knowsFindings: this.#findings.isKnown,
      firstDueMs: this.#times.firstDueMs,
      checkDueMs: this.#times.checkDueMs,
      hasAcceptable: this.#packages.hasAcceptable,
      wantsScan: this.#wantsScan,
      retryDueMs: this.#times.retryDueMs,
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

  /** Changes when the inputs of a run that has begun are outdated. */
  stampOf(kind: 'init' | 'accept' | 'check'): string {
    return this.#inputs.stampOf(kind, this.#record.requests);
  }

  async look(): Promise<void> {
    // The key may have been replaced for a while and may now be the right one again.
    if (this.#baseline === 'broken') await this.#key.ask();
    const [provider, job] = [await this.#provider(), await this.#job()];
    if (await this.#record.read(job.signingKey)) {
      const waiting = await this.#results.resume(job.signingKey, this.#record.notes.sequence);
      if (waiting) this.#logger.info('sending a result from before the restart');
    }
    const state = await provider.state(job);
    const { madeBy } = this.#record.notes;
    if (
      state === 'none' &&
      (madeBy === provider.name || (madeBy === undefined && this.#record.wasSeenByOperator))
    ) {
      throw new BaselineError('missing', job.directory, 'it is gone');
    }
    this.#baseline = state;
    this.#times.works();
    if (state !== 'ready') return;
    this.#configuration = configurationId(provider.name, job.conf.text);
    const { continuedFromMs } = this.#record;
    if (continuedFromMs !== undefined) {
      const made = new Date(continuedFromMs).toISOString();
      this.#logger.info({ made }, 'continuing from the baseline of an earlier FileIntegrity of this name');
    }
    this.#times.resumed(this.#record.notes.checkedMs);
    if (!this.#live.isRunning) await this.#packages.resume(job.signingKey);
    // The results of the one before went with it.
    if (continuedFromMs !== undefined && !this.#record.wasSeenByOperator) this.#wantsScan = true;
    await this.#startLive(job, provider);
  }

  async init(reason: InitReason, requests: readonly string[], signal: AbortSignal): Promise<void> {
    const { clock, counts } = this.#context;
    const provider = await this.#provider();
    // A baseline signed with the previous key would be refused as soon as the new one is known.
    await this.#key.ask();
    let job = await this.#job();
    await this.#record.readIfOurs(job.signingKey);
    await this.#stopWatching();
    if (this.#record.continuedFromMs !== undefined) {
      // A kill after the new baseline must not leave a note that describes it as the previous one.
      this.#record.done({ madeFor: undefined });
      await this.#record.write(this.#results.sequence, job.signingKey);
    }
    const request = requests.at(-1);
    const startedMs = clock.monotonicMs();
    // Before the files: what is updated meanwhile is not what the baseline has.
    const packages = provider.openBaseline === undefined ? undefined : await this.#packages.read();
    const make = (): Promise<InitResult> =>
      provider.init(job, { signal, onProgress: counts.progress(), request });
    let made = await make();
    while (job.signingKey !== this.#signingKey) {
      // The key was replaced meanwhile.
      job = await this.#job();
      made = await make();
    }
    const { entries, unread } = made;
    counts.scans.init++;
    counts.scanSeconds.add((clock.monotonicMs() - startedMs) / 1000);
    this.#logger.info({ reason, entries, unread }, 'created a baseline');
    await this.#packages.begin(packages, job.signingKey);
    this.#baseline = 'ready';
    this.#configuration = configurationId(provider.name, job.conf.text);
    this.#wantsScan = false;
    this.#failure = undefined;
    if (reason === 'first') this.#times.succeededFirst();
    else this.#times.succeeded();
    this.#findings.reset(entries, unread);
    this.#large.clear();
    const { machineConfig } = this.#inputs;
    this.#record.done(
      {
        ...{ madeBy: provider.name, checkedMs: clock.wallMs() },
        madeFor: { uid: this.uid, atMs: clock.wallMs() },
        ...(machineConfig && { machineConfig }),
      },
      requests,
    );
    await this.#results.report(this.#facts());
    await this.#record.write(this.#results.sequence, job.signingKey);
    await this.#startLive(job, provider);
  }

  async accept(request: AcceptRequest, signal: AbortSignal): Promise<void> {
    const { prefix } = this.#context.root;
    const [provider, job] = [await this.#provider(), await this.#job()];
    const paths = pathsThatFit(request.path, this.#findings.paths(request.seenUntilMs), prefix);
    await this.#stopWatching();
    const { author, reason, id } = request;
    const about = { author, reason, request: id };
    const { unread } = await provider.accept(job, paths, about, { signal }).catch(async (error: unknown) => {
      if (!(error instanceof BaselineError)) await this.#startLive(job, provider);
      throw error;
    });
    this.#context.counts.scans.accept++;
    const left = new Set(unread);
    this.#findings.accept(paths.filter((path) => !left.has(path)));
    this.#logger.info({ author, reason, accepted: paths.length - left.size, unread }, 'accepted findings');
    // Those that are only counted are not known by name.
    if (this.#findings.omitted > 0) this.#wantsScan = true;
    this.#record.done({}, [id]);
    await this.#results.report(this.#facts());
    await this.#record.write(this.#results.sequence, job.signingKey);
    await this.#startLive(job, provider);
  }

  /** Accepts updates of packages into the baseline, if the files are still as explained. */
  async acceptUpdates(signal: AbortSignal): Promise<void> {
    const [provider, job] = [await this.#provider(), await this.#job()];
    const all = this.#packages.acceptable();
    const updates = [...new Set([...all.values()].map(({ explanation }) => explanationText(explanation)))];
    const paths = [...all.keys()].sort((a, b) => (a < b ? -1 : 1));
    const expected = new Map(
      [...all].flatMap(([path, { update }]) => (update.change ? [[path, update.change]] : [])),
    );
    const about = { author: 'dpkg', reason: updates.join(', ').slice(0, maxReason) };
    await this.#stopWatching();
    const { unread } = await provider
      .accept(job, paths, about, { signal, expected })
      .catch(async (error: unknown) => {
        if (!(error instanceof BaselineError)) await this.#startLive(job, provider);
        throw error;
      });
    this.#context.counts.scans.accept++;
    await this.#packages.wereAccepted(all, new Set(unread));
    this.#logger.info({ updates, accepted: paths.length - unread.length }, 'accepted updates of packages');
    await this.#results.report(this.#facts());
    await this.#record.write(this.#results.sequence, job.signingKey);
    await this.#startLive(job, provider);
  }

  /** A scan begins. @throws what is wrong before it */
  async beginCheck(): Promise<IntegrityJob> {
    const job = await this.#job();
    this.#isChecking = true;
    this.#wantsScan = false;
    this.#findings.beginScan();
    return job;
  }

  async endCheck(result: CheckResult): Promise<void> {
    const { clock, counts } = this.#context;
    counts.scans.check++;
    this.#times.checked();
    this.#isChecking = false;
    this.#large.add(result.large ?? []);
    this.#findings.endScan(result.report, clock.wallMs(), result.counted, this.#large.paths);
    this.#failure = undefined;
    this.#times.succeeded();
    const { problems } = result.report;
    const { prefix } = this.#context.root;
    if (problems.length > 0) {
      const some = problems.slice(0, 3).map(({ path, code }) => `${hostPath(path, prefix)}: ${code}`);
      this.#logger.warn({ count: result.report.counts.problems, some }, 'some files could not be read');
    }
    // A baseline from before there was such an operator.
    const machineConfig = this.#record.notes.machineConfig ?? this.#inputs.machineConfig;
    this.#record.done({ checkedMs: clock.wallMs(), ...(machineConfig && { machineConfig }) });
    await this.#results.reportScan(result, this.#facts());
    const job = await this.#job();
    await this.#record.write(this.#results.sequence, job.signingKey);
    const provider = await this.#provider();
    // After a baseline that was broken.
    if (!this.#live.isRunning) await this.#startLive(job, provider);
    else this.#large.start(job, provider);
  }

  /** A step was aborted, because something else has to be done. */
  superseded(): void {
    this.#findings.abortScan();
    // The scan was begun for a reason, which still stands.
    if (this.#isChecking) this.#wantsScan = true;
    this.#isChecking = false;
  }

  async failed(error: unknown): Promise<void> {
    this.#failure = error;
    const { conf, spec } = this.#inputs;
    if (conf !== undefined) this.#configuration = configurationId(spec.provider, conf);
    this.#findings.abortScan();
    this.#isChecking = false;
    this.#context.counts.scans.failed++;
    const dueMs = this.#times.failed();
    if (error instanceof BaselineError) {
      await this.#stopWatching();
      this.#baseline = 'broken';
      this.#times.checkDueMs = dueMs;
    } else this.#times.retryDueMs = dueMs;
    this.#logger.error({ err: error }, 'the state of the files is unknown');
    await this.#results.reportError(error, this.#facts());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#stopWatching();
    this.#packages[Symbol.dispose]();
    await this.#results.ended(this.#signingKey);
  }

  #setLevel(): void {
    this.#logger.level = this.#inputs.spec.debug === true ? 'debug' : this.#context.logger.level;
  }

  /** When the holdoff ends, a scan finds the changes made meanwhile. */
  #changeHeld(change: () => void): void {
    const { isHeld } = this.#inputs;
    change();
    if (isHeld && !this.#inputs.isHeld) this.#wantsScan = true;
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
      signingKey: this.#signingKey as SigningKey,
      maxBackups: this.#inputs.schedule.maxBackups,
      newest: this.#newest,
    };
  }

  #forgetBaseline(): void {
    this.#baseline = 'unknown';
    this.#times.forgetFailures();
  }

  #facts(): ResultFacts {
    const { detection, isRunning } = this.#live;
    const packagesReason =
      detection.events === 'sensor' ? this.#packages.unrecognized : 'the author of changes is unknown';
    return {
      detection: { ...detection, ...(isRunning && packagesReason !== undefined && { packagesReason }) },
      accepted: this.#packages.accepted,
      reading: this.#large.paths,
      doneRequests: this.#record.notes.doneRequests,
      continuedFromMs: this.#record.continuedFromMs,
      key: this.#signingKey,
      baseline: this.#newest.current,
      configuration: this.#configuration,
      periodMs: this.#inputs.schedule.gracePeriodS * 1000,
      failure: this.#failure,
    };
  }

  /** Reports the results of events. A step reports its results itself. */
  #reportSoon(): void {
    if (this.#live.isRunning && this.#findings.isKnown) this.#results.soon(() => this.#facts());
  }

  async #startLive(job: IntegrityJob, provider: IntegrityProvider): Promise<void> {
    if (this.#stop.signal.aborted) return;
    await this.#live.start(job, provider);
    this.#large.start(job, provider);
  }

  async #stopWatching(): Promise<void> {
    await this.#large.stop();
    await this.#live.stop();
  }

  readonly #onFindings = (changes: readonly FindingChange[]): void => {
    const { sink, nodeName, counts, clock } = this.#context;
    const of = { fileIntegrity: this.key, nodeName, nowMs: clock.wallMs() };
    for (const change of changes) {
      if (change.state === 'found') counts.findings[change.finding.seenBy]++;
      sink(integrityLine(change, of));
    }
    this.#reportSoon();
  };
}
