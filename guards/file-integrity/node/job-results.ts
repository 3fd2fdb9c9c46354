/**
 * The results of one job: builds them from its findings, numbers and sends them, and keeps the log of the last scan on
 * the node.
 */
import { join } from 'node:path';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { OwnerReference } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { BaselineError } from '../database/baseline-error.ts';
import { replaceFile } from '../database/replace-file.ts';
import type { SigningKey } from '../database/signature.ts';
import type { PackageUpdate } from '../model/explanation.ts';
import type { ByteString } from '../model/entry.ts';
import type { Detection } from '../model/finding.ts';
import {
  maxFindings,
  maxUnreadFiles,
  maxUpdates,
  type NodeOutcome,
  type NodeResult,
} from '../results/node-result.ts';
import type { CheckResult } from '../provider/provider.ts';
import { fitLog } from '../report/log-limit.ts';
import { plainReport } from '../report/plain.ts';
import { resultLogLimitBytes } from '../results/result-config-map.ts';
import { FindingsFile } from './findings-file.ts';
import type { CurrentFindings } from '../results/findings.ts';
import { ResultSender } from './result-sender.ts';
import { defaultReportOptions, type Report } from '../model/report.ts';

export interface JobResultsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly fileIntegrity: NodeResult['fileIntegrity'];
  readonly owner: OwnerReference;
  /** Directory of the job. */
  readonly directory: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly findings: CurrentFindings;
  /** The fields of a result besides the findings, read when the result is built. */
  readonly facts: () => ResultFacts;
  readonly onSent: () => void;
}

/** A result's contents besides its findings. */
export interface ResultFacts {
  readonly detection: Detection;
  readonly doneRequests: readonly string[];
  /** See {@link NodeResult}. */
  readonly continuedFromMs: number | undefined;
  /** See {@link NodeResult}. */
  readonly baseline: NodeResult['baseline'];
  /** See {@link NodeResult}. */
  readonly configuration: string | undefined;
  /** The key that signs a result kept on disk; without it, an unsent result is only in memory. */
  readonly key: SigningKey | undefined;
  /** Large files that were not yet read since the last scan. */
  readonly reading: ReadonlySet<ByteString>;
  /** Package updates that were accepted. */
  readonly accepted: readonly PackageUpdate[];
  /** Within this time, the same error is reported only once. */
  readonly periodMs: number;
  /** Why the last scan failed; undefined if it did not. */
  readonly failure: unknown;
}

/** Delay before a result, because events come in groups: a file is written, then its mode is set. */
const gatherMs = 100;
/** Minimum time between two results caused by events; with it, a change is in the status within a second. */
const paceMs = 500;
/** The time between results is at least this many times the CPU time that building a result took. */
const paceFactor = 10;

export class JobResults {
  readonly #options: JobResultsOptions;
  readonly #sender: ResultSender;
  readonly #file: FindingsFile;
  #sequence = 0;
  #error: { readonly message: string; readonly atMs: number } | undefined;
  #last: Pick<CheckResult, 'options' | 'facts'> | undefined;
  #cancelSoon: (() => void) | undefined;
  #soonestMs = 0;

  constructor(options: JobResultsOptions) {
    this.#options = options;
    const { client, nodeName, owner, directory, logger, signal, onSent } = options;
    this.#sender = new ResultSender({
      ...{ client, nodeName, owner, logger, signal, onSent },
      path: join(directory, 'result.json'),
    });
    this.#file = new FindingsFile(directory, options.findings, logger);
    signal.addEventListener('abort', () => this.#cancelSoon?.(), { once: true });
  }

  get sequence(): number {
    return this.#sequence;
  }

  get isErrored(): boolean {
    return this.#error !== undefined;
  }

  get isPending(): boolean {
    return this.#sender.isPending;
  }

  /** Continues with the state of an earlier process, and sends a result that it could not send. Returns whether there was one. */
  async resume(key: SigningKey, sequence: number): Promise<boolean> {
    await this.#file.restore(key);
    this.#sequence = Math.max(this.#sequence, sequence);
    const result = await this.#sender.resume(key);
    this.#sequence = Math.max(this.#sequence, result?.sequence ?? 0);
    return result !== undefined;
  }

  /** Call after a scan: its whole report becomes the log. */
  async reportScan({ report, options, facts }: CheckResult): Promise<void> {
    this.#last = { options, facts };
    const log = [...plainReport(report, options, facts)].join('');
    await this.#writeLog(log);
    // If other changes were found meanwhile by comparing single paths, the result has the current state, not that of
    // the scan.
    const now = this.#options.findings.counts;
    const { added, removed, changed } = report.counts;
    const isSame = now.added === added && now.removed === removed && now.changed === changed;
    await this.#send(this.#outcome(isSame ? log : undefined));
  }

  /**
   * Reports the current state. Without known differences this is a success, unless the last scan failed: then its error
   * is reported.
   */
  async report(): Promise<void> {
    const outcome = this.#outcome(undefined);
    const { failure } = this.#options.facts();
    if (outcome.kind === 'succeeded' && failure !== undefined) {
      this.#error = undefined;
      await this.reportError(failure);
    } else await this.#send(outcome);
  }

  /** Reports soon; all changes until then are in one result. */
  soon(): void {
    const { clock, signal, logger } = this.#options;
    if (this.#cancelSoon !== undefined || signal.aborted) return;
    const delayMs = Math.max(gatherMs, this.#soonestMs - clock.monotonicMs());
    this.#cancelSoon = clock.schedule(delayMs, () => {
      this.#cancelSoon = undefined;
      const before = process.threadCpuUsage();
      this.report().catch((err: unknown) => logger.error({ err }, 'cannot create a result'));
      // CPU time, not elapsed time: waiting for a CPU on a busy machine is not our work.
      const { user, system } = process.threadCpuUsage(before);
      const workMs = (user + system) / 1000;
      this.#soonestMs = clock.monotonicMs() + Math.max(paceMs, paceFactor * workMs);
    });
  }

  /** Reports an error, after which nothing is known about the files. */
  async reportError(error: unknown): Promise<void> {
    const message = messageOf(error);
    const { clock, facts } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#error?.message === message && nowMs - this.#error.atMs < facts().periodMs) return;
    const reason = reasonOf(error);
    await this.#send({ kind: 'errored', message, ...(reason !== undefined && { reason }) });
    this.#error = { message, atMs: nowMs };
  }

  /** Call at the end. Without a key, the last findings are not kept for the next process. */
  async ended(key: SigningKey | undefined): Promise<void> {
    if (key !== undefined) await this.#file.write(key);
    await this.#sender.ended();
  }

  #outcome(log: string | undefined): NodeOutcome {
    const { findings, directory, clock } = this.#options;
    const { added, removed, changed } = findings.counts;
    if (added + removed + changed === 0) return { kind: 'succeeded' };
    const text = log ?? this.#textOf(findings.report(), clock.wallMs());
    const fitted = fitLog(text, join(directory, 'aide.log'), resultLogLimitBytes);
    return { kind: 'failed', added, changed, removed, log: fitted };
  }

  #textOf(report: Report, nowMs: number): string {
    const { options = defaultReportOptions, facts } = this.#last ?? {};
    const program = facts?.program ?? 'Rampart';
    const run = {
      ...facts,
      action: 'check' as const,
      program,
      startedMs: facts?.startedMs ?? nowMs,
      endedMs: nowMs,
    };
    return [...plainReport(report, options, run)].join('');
  }

  async #send(outcome: NodeOutcome): Promise<void> {
    const { fileIntegrity, nodeName, findings, clock, facts } = this.#options;
    const more = facts();
    const { detection, doneRequests, continuedFromMs, key, baseline, configuration } = more;
    const atMs = clock.wallMs();
    if (outcome.kind !== 'errored') this.#error = undefined;
    // Using the clock, it increases even if the last number sent is unknown.
    this.#sequence = Math.max(this.#sequence + 1, atMs);
    const known = outcome.kind === 'failed' ? findings.latest(maxFindings) : { findings: [], omitted: 0 };
    // Updates are reported even if no single file is.
    const updates = [...more.accepted, ...findings.updates()].slice(-maxUpdates);
    const unread = outcome.kind === 'errored' ? undefined : findings.unread(maxUnreadFiles);
    const reading = outcome.kind === 'errored' ? undefined : findings.reading(more.reading, maxUnreadFiles);
    const result: NodeResult = {
      ...{ fileIntegrity, nodeName, sequence: this.#sequence, atMs, outcome },
      findings: known.findings,
      omittedFindings: known.omitted,
      ...(unread && { unread }),
      ...(reading && { reading }),
      ...(updates.length > 0 && { updates }),
      ...{ detection, doneRequests },
      ...(continuedFromMs !== undefined && { continuedFromMs }),
      ...(configuration !== undefined && { configuration }),
      ...(outcome.kind !== 'errored' && baseline && { baseline }),
    };
    // Write the file first: readers of the result learn who made a change, and a kill must not lose that for later
    // results.
    if (key !== undefined) await this.#file.write(key);
    await this.#sender.send(result, key);
  }

  async #writeLog(text: string): Promise<void> {
    try {
      await replaceFile(join(this.#options.directory, 'aide.log'), async (file) => file.writeFile(text));
    } catch (err) {
      this.#options.logger.warn({ err }, 'the log of the scan could not be saved on the node');
    }
  }
}

function reasonOf(error: unknown): string | undefined {
  if (error instanceof BaselineError) {
    return ['baseline', ...error.fault.split(' ')]
      .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
      .join('');
  }
  return error instanceof RampartError ? error.code : undefined;
}
