/** Where a scan keeps what it found out of objects, whichever form the reports have. */
import type { ReportFacts, ReportSubject } from './report-facts.ts';
import type { AuditReport } from './report.ts';

/** What somebody has done to what a report says of an object. */
export interface ReportChange {
  readonly uid: string;
  /** Of what it says now; undefined: nothing. */
  readonly digest: string | undefined;
  /** Of the report: the one before where it was deleted. */
  readonly version: string;
}

/** What is known of the report of an object. */
export interface KnownReport extends ReportFacts {
  /** The version and the uid of the report. */
  readonly version: string;
  readonly reportUid: string | undefined;
}

/** `namespace` is '' for what is in none; what is found out of an object is under its uid. */
export interface Reports {
  /** Calls to the API. */
  readonly writes: number;
  readonly deletions: number;
  /** Resolves when it is known what there is. Before that, nothing may be asked. */
  readonly synced: Promise<unknown>;
  readonly isSynced: boolean;
  /** What is known without reading; undefined where there is none. */
  facts(namespace: string, uid: string): KnownReport | undefined;
  /** What there is of an object; undefined where there is nothing. @throws {KubeError} */
  read(
    namespace: string,
    uid: string,
    signal: AbortSignal,
  ): Promise<Pick<AuditReport, 'results' | 'scope'> | undefined>;
  /**
   * Makes it so, at once or when it is flushed.
   *
   * @param report of one object.
   * @param known its version, where there is one.
   * @returns its version, '' where versions mean nothing; undefined where its namespace is going.
   * @throws {KubeError}
   */
  write(report: AuditReport, known: string | undefined, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Removes what there is of an object, as it is known; one that is another by now stays.
   *
   * @param written the version that was written last: `facts` may be behind.
   * @throws {KubeError}
   */
  delete(namespace: string, uid: string, written: string | undefined, signal: AbortSignal): Promise<void>;
  /** Writes what was held back of a namespace. What could not be written is held on to. @throws {KubeError} */
  flush(namespace: string, signal: AbortSignal): Promise<void>;
  /** Removes reports that say the same in the other form, and flushes all. @throws {KubeError} */
  sweep(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void>;
  /** Removes reports of the other kind (`--report-kind`), once those of this one are written. @throws {KubeError} */
  removeOtherKind(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void>;
  /** All objects that there is something of; what changes meanwhile is seen or not. */
  all(): Iterable<{ readonly namespace: string; readonly uid: string; readonly scope: ReportSubject }>;
  /** Tells of changes that others make, and of some of one's own. */
  subscribe(listener: (change: ReportChange) => void): Disposable;
}
