/** Writes reports to the API, as the kind that it serves. */
import { deleteSame } from '../../lib/kube/client/delete-same.ts';
import { managedBy, managedByLabel } from '../managed-by.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { isNotFound, orUndefined } from '../../lib/kube/client/client-errors.ts';
import { type Clock, systemClock } from '../../lib/time/clock.ts';
import type { ResourceType } from '../../lib/kube/object/object.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import type { Report } from './report-entry.ts';
import { reportTypes } from './report-types.ts';
import { digestOf, reportObject } from './report-object.ts';
import { servedReportKinds } from './served-kinds.ts';

/** How long it may take to notice that a definition was installed. */
const ASK_AGAIN_MS = 60_000;
/** After this time, a report is written again even if unchanged: that repairs changes by others, and deletions. */
const REFRESH_MS = 3_600_000;

interface ReportWriterOptions {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly clock?: Clock;
}

export interface ReportTarget {
  readonly namespace: string;
  readonly name: string;
}

interface Written {
  readonly digest: string;
  readonly atMs: number;
}

/**
 * Writes each report as a whole, by server-side apply. An unchanged report is not written again. Which kinds are served is determined when
 * there is something to write: PolicyReport is preferred, otherwise OpenReports' Report is used. If neither is served, nothing is written:
 * the log says so once, {@link missing} says it all the time, and the API is asked again after a minute.
 */
export class ReportWriter {
  readonly #client: KubeClient;
  readonly #logger: Logger;
  readonly #clock: Clock;
  /** The served report kinds, the one to write first; undefined if not yet known. */
  #served: readonly ResourceType[] | undefined;
  #askedMs = 0;
  #isReportedMissing = false;
  /** What was written, keyed by namespace and name. Some 200 bytes for each node and FileIntegrity. */
  readonly #written = new Map<string, Written>();

  constructor({ client, logger, clock = systemClock }: ReportWriterOptions) {
    this.#client = client;
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Why no reports are written, for a condition or a log; undefined if they are, or if that is not known yet. */
  get missing(): string | undefined {
    return this.#served?.length === 0
      ? 'The API serves neither PolicyReport (wgpolicyk8s.io/v1alpha2) nor Report (openreports.io/v1alpha1): no reports are written.'
      : undefined;
  }

  /**
   * Creates or updates the report.
   *
   * @returns whether it is stored: false if the API serves no kind of report.
   * @throws {KubeError} also if the definition was just removed; the next call notices that. RampartError
   *   `API_UNREACHABLE`; the reason of the signal.
   */
  async write(report: Report, signal: AbortSignal): Promise<boolean> {
    const [type, ...others] = await this.#kinds(signal);
    if (type === undefined) return false;
    const key = keyOf(report);
    const object = reportObject(type, report);
    const digest = digestOf(object);
    const before = this.#written.get(key);
    const nowMs = this.#clock.monotonicMs();
    if (before?.digest === digest && nowMs - before.atMs < REFRESH_MS) return true;
    try {
      await this.#client.apply(type, object, { fieldManager: managedBy, force: true, signal });
    } catch (error) {
      // Either the definition is gone or the namespace: the next call determines which.
      if (isNotFound(error)) this.#served = undefined;
      throw error;
    }
    // Deletes the report of the other kind, written when only that kind was served.
    if (before === undefined) for (const other of others) await this.#deleteOurs(other, report, signal);
    this.#written.set(key, { digest, atMs: nowMs });
    return true;
  }

  /** Deletes the report if it exists and is ours. @throws as {@link write}. */
  async delete(target: ReportTarget, signal: AbortSignal): Promise<void> {
    this.#written.delete(keyOf(target));
    for (const type of await this.#kinds(signal)) await this.#deleteOurs(type, target, signal);
  }

  async #deleteOurs(
    type: ResourceType,
    { namespace, name }: ReportTarget,
    signal: AbortSignal,
  ): Promise<void> {
    const report = await orUndefined(this.#client.get(type, { namespace, name }, { signal }));
    if (report?.metadata.labels?.[managedByLabel] !== managedBy) return;
    await deleteSame(this.#client, type, report, { signal });
  }

  async #kinds(signal: AbortSignal): Promise<readonly ResourceType[]> {
    const nowMs = this.#clock.monotonicMs();
    const served = this.#served;
    if (served !== undefined && (served.length > 0 || nowMs - this.#askedMs < ASK_AGAIN_MS)) return served;
    const kinds = await servedReportKinds(this.#client, signal);
    const found = kinds.map((kind) => reportTypes[kind].namespaced);
    this.#served = found;
    this.#askedMs = nowMs;
    this.#notify(found);
    return found;
  }

  #notify([type]: readonly ResourceType[]): void {
    if (type === undefined && !this.#isReportedMissing) {
      this.#isReportedMissing = true;
      this.#logger.warn(
        `${this.missing} Install one of them, e.g. with kubectl apply -k deploy/policy-reports/; Rampart notices within a minute.`,
      );
    } else if (type !== undefined && this.#isReportedMissing) {
      this.#isReportedMissing = false;
      this.#logger.info({ kind: type.kind, group: type.group }, 'writing reports');
    }
  }
}

function keyOf({ namespace, name }: ReportTarget): string {
  return `${namespace}/${name}`;
}
