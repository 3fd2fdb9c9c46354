/**
 * Compares the files of a job with its baseline between the steps: when events report changes, and when large files are
 * read after a scan. Both use the current baseline, so they are stopped before it is replaced.
 */
import { readAideConf } from '../aide-conf/evaluate.ts';
import { reportOptionsOf } from '../aide-conf/report-options.ts';
import { nodeEnvironment } from '../aide-conf/conf-environment.ts';
import { type Detection, noDetection } from '../model/finding.ts';
import type { PackageUpdates } from '../packages/package-updates.ts';
import type { IntegrityJob, IntegrityProvider } from '../provider/provider.ts';
import type { LiveJob, StartLive } from '../live/live-job.ts';
import { LargeFiles, type LargeFilesOptions } from './large-files.ts';

/** The fields of a {@link LiveJob} other than those of its baseline. */
type LiveFacts = Pick<
  LiveJob,
  'key' | 'nodeName' | 'findings' | 'containers' | 'logger' | 'largeBytes' | 'isHeld' | 'requestScan'
>;

export interface JobLiveOptions extends LiveFacts, Pick<LargeFilesOptions, 'nowMs' | 'progress'> {
  /** Starts to watch the files; without it, only scans find changes. */
  readonly start: StartLive | undefined;
  readonly packages: PackageUpdates;
  /** Nothing is started once the signal aborts. */
  readonly signal: AbortSignal;
  /** Called when the detection has changed. */
  readonly onDetection: () => void;
  /** Called when a large file was read. */
  readonly onLargeRead: () => void;
}

/** Whoever calls `start` must call `stop`. */
export class JobLive {
  readonly large: LargeFiles;
  readonly #options: JobLiveOptions;
  #stack: AsyncDisposableStack | undefined;
  #detection: Detection = noDetection;
  #stoppedMs: number | undefined;

  constructor(options: JobLiveOptions) {
    this.#options = options;
    this.large = new LargeFiles({ ...options, onRead: options.onLargeRead });
  }

  get isRunning(): boolean {
    return this.#stack !== undefined;
  }

  get detection(): Detection {
    const detection = this.#detection;
    const packagesReason =
      detection.events === 'sensor'
        ? this.#options.packages.unrecognized
        : 'the author of changes is unknown';
    return this.isRunning && packagesReason !== undefined ? { ...detection, packagesReason } : detection;
  }

  /** Starts both, with the current baseline. If changes cannot be watched, that is logged, and only scans find them. */
  async start(job: IntegrityJob, provider: IntegrityProvider): Promise<void> {
    if (this.#options.signal.aborted) return;
    await this.#stopWatch();
    await this.#startWatch(job, provider);
    this.large.start(job, provider);
  }

  /** Call after a scan: watching continues, and the files that the scan skipped are read. */
  async resume(job: IntegrityJob, provider: IntegrityProvider): Promise<void> {
    // Watching was stopped if the baseline was broken.
    if (!this.isRunning) await this.start(job, provider);
    else this.large.start(job, provider);
  }

  async stop(): Promise<void> {
    await this.large.stop();
    await this.#stopWatch();
  }

  async #startWatch(job: IntegrityJob, provider: IntegrityProvider): Promise<void> {
    const { start, logger, onDetection } = this.#options;
    if (start === undefined || provider.openBaseline === undefined) return;
    const stack = new AsyncDisposableStack();
    try {
      const baseline = stack.use(await provider.openBaseline(job));
      const conf = readAideConf(job.conf.name, job.conf.text, nodeEnvironment(job.root));
      this.#stack = stack;
      stack.use(
        start({
          ...this.#options,
          ...{ root: job.root, conf, reportOptions: reportOptionsOf(conf), baseline },
          unfollowedSinceMs: this.#stoppedMs,
          notify: (detection) => {
            this.#detection = detection;
            onDetection();
          },
        }),
      );
    } catch (err) {
      logger.error({ err }, 'changes are unknown until the next scan');
      this.#stack = undefined;
      await stack.disposeAsync();
    }
  }

  async #stopWatch(): Promise<void> {
    const stack = this.#stack;
    if (stack !== undefined) this.#stoppedMs = Date.now();
    this.#stack = undefined;
    this.#detection = noDetection;
    try {
      await stack?.disposeAsync();
    } catch (err) {
      this.#options.logger.error({ err }, 'the file watch did not stop cleanly');
    }
  }
}
