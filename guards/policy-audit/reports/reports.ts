/** Where a scan stores its results, whatever the form of the reports. */
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

/** The known facts about the report of an object. */
export interface KnownReport extends ReportFacts {
  /** The version and the uid of the report. */
  readonly version: string;
  readonly reportUid: string | undefined;
}

/** `namespace` is '' for cluster-scoped objects; results of an object are stored under its uid. */
export interface Reports {
  /** Calls to the API. */
  readonly writes: number;
  readonly deletions: number;
  /** Resolves when the existing reports are known. Nothing may be queried before that. */
  readonly synced: Promise<unknown>;
  readonly isSynced: boolean;
  /** Facts that are known without reading; undefined if there is no report. */
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
   * Writes it, at once or on the next flush.
   *
   * @param report of one object.
   * @param known its version, if there is one.
   * @returns its version, '' if versions mean nothing; undefined if its namespace is terminating.
   * @throws {KubeError}
   */
  write(report: AuditReport, known: string | undefined, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Removes the known results for an object; if they have changed, they stay.
   *
   * @param written the last written version: `facts` may be behind.
   * @throws {KubeError}
   */
  delete(namespace: string, uid: string, written: string | undefined, signal: AbortSignal): Promise<void>;
  /**
   * Writes the held back results of a namespace. Results that could not be written are kept.
   *
   * @throws {KubeError}
   */
  flush(namespace: string, signal: AbortSignal): Promise<void>;
  /** Flushes everything, and removes reports with the same results in the other layout: one per object, or one per namespace. @throws {KubeError} */
  sweep(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void>;
  /** Removes reports of the other kind (`--report-kind`), once those of this one are written. @throws {KubeError} */
  removeOtherKind(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void>;
  /** All objects with results; concurrent changes may or may not be seen. */
  all(): Iterable<{ readonly namespace: string; readonly uid: string; readonly scope: ReportSubject }>;
  /** Reports changes by others, and some of our own. */
  subscribe(listener: (change: ReportChange) => void): Disposable;
}
