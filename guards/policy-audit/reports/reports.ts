/** Where a scan stores its results, in either form of reports. */
import type { ReportFacts, ReportSubject } from './report-facts.ts';
import type { AuditReport } from './report.ts';

/** A change by another client to the results for an object. */
export interface ReportChange {
  readonly uid: string;
  /** Digest of the current results; undefined without results. */
  readonly digest: string | undefined;
  /** Version of the report: the previous one if it was deleted. */
  readonly version: string;
}

/** What is known about the report of an object. */
export interface KnownReport extends ReportFacts {
  /** The version and the uid of the report. */
  readonly version: string;
  readonly reportUid: string | undefined;
}

/** In all methods, `namespace` is '' for cluster-scoped objects. The results for an object are stored under its uid. */
export interface Reports {
  /** Number of calls that have changed something in the API. */
  readonly writes: number;
  readonly deletions: number;
  /** Resolves when the existing reports are known. Call no other method before that. */
  readonly synced: Promise<unknown>;
  readonly isSynced: boolean;
  /** What is known without reading the report; undefined if the object has no report. */
  facts(namespace: string, uid: string): KnownReport | undefined;
  /**
   * The results for an object; undefined without results.
   *
   * @throws {KubeError}
   */
  read(
    namespace: string,
    uid: string,
    signal: AbortSignal,
  ): Promise<Pick<AuditReport, 'results' | 'scope'> | undefined>;
  /**
   * Writes a report, at once or on the next flush.
   *
   * @param report - The report of one object.
   * @param known - Version of the existing report; undefined without one.
   * @returns the new version, or '' if reports have no versions; undefined if the namespace is terminating.
   * @throws {KubeError}
   */
  write(report: AuditReport, known: string | undefined, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Removes the known results for an object. If the results have changed, they are kept.
   *
   * @param written - The version that was last written: `facts` may be older.
   * @throws {KubeError}
   */
  delete(namespace: string, uid: string, written: string | undefined, signal: AbortSignal): Promise<void>;
  /**
   * Writes the results of a namespace that were held back. Results that could not be written are kept.
   *
   * @throws {KubeError}
   */
  flush(namespace: string, signal: AbortSignal): Promise<void>;
  /**
   * Flushes everything, and removes the reports in the other layout (one per object, or one per namespace) that
   * hold the same results. @throws {KubeError}
   */
  sweep(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void>;
  /** Removes reports of the other kind (`--report-kind`) once those of the current kind have been written. @throws {KubeError} */
  removeOtherKind(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void>;
  /** All objects with results; concurrent changes may or may not be seen. */
  all(): Iterable<{ readonly namespace: string; readonly uid: string; readonly scope: ReportSubject }>;
  /** The listener gets changes by other clients, and some of our own. */
  subscribe(listener: (change: ReportChange) => void): Disposable;
}
