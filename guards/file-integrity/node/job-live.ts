import { readAideConf } from '../aide-conf/evaluate.ts';
import { reportOptionsOf } from '../aide-conf/report-options.ts';
import { nodeEnvironment } from '../aide-conf/conf-environment.ts';
import { type Detection, noDetection } from '../model/finding.ts';
import type { IntegrityJob, IntegrityProvider } from '../provider/provider.ts';
import type { LiveJob, StartLive } from '../live/live-job.ts';

export type LiveFacts = Pick<
  LiveJob,
  | 'key'
  | 'nodeName'
  | 'findings'
  | 'containers'
  | 'logger'
  | 'packages'
  | 'largeBytes'
  | 'isHeld'
  | 'requestScan'
>;

export class JobLive implements AsyncDisposable {
  readonly #start: StartLive | undefined;
  readonly #facts: LiveFacts;
  readonly #onDetection: () => void;
  #stack: AsyncDisposableStack | undefined;
  #detection: Detection = noDetection;
  #stoppedMs: number | undefined;

  /** @param onDetection called when the detection has changed */
  constructor(start: StartLive | undefined, facts: LiveFacts, onDetection: () => void) {
    this.#start = start;
    this.#facts = facts;
    this.#onDetection = onDetection;
  }

  get isRunning(): boolean {
    return this.#stack !== undefined;
  }

  get detection(): Detection {
    return this.#detection;
  }

  /** Uses the present baseline. Failures are logged, and scans continue. */
  async start(job: IntegrityJob, provider: IntegrityProvider): Promise<void> {
    await this.stop();
    if (this.#start === undefined || provider.openBaseline === undefined) return;
    const stack = new AsyncDisposableStack();
    try {
      const baseline = stack.use(await provider.openBaseline(job));
      const conf = readAideConf(job.conf.name, job.conf.text, nodeEnvironment(job.root));
      this.#stack = stack;
      stack.use(
        this.#start({
          ...this.#facts,
          ...{ root: job.root, conf, reportOptions: reportOptionsOf(conf), baseline },
          unfollowedSinceMs: this.#stoppedMs,
          tell: (detection) => {
            this.#detection = detection;
            this.#onDetection();
          },
        }),
      );
    } catch (err) {
      this.#facts.logger.error({ err }, 'changes are unknown until the next scan');
      this.#stack = undefined;
      await stack.disposeAsync();
    }
  }

  async stop(): Promise<void> {
    const stack = this.#stack;
    if (stack !== undefined) this.#stoppedMs = Date.now();
    this.#stack = undefined;
    this.#detection = noDetection;
    try {
      await stack?.disposeAsync();
    } catch (err) {
      this.#facts.logger.error({ err }, 'the file watch did not stop cleanly');
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
