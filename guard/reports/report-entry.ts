/** A guard's report, in whichever kind it is written. */
import type { V1ObjectReference } from '@kubernetes/client-node';

import type { OwnerReference, Wire } from '../../lib/kube/object/object.ts';

/** The kinds of reports that can be written, by the names that options have for them. */
export const reportKinds = ['policyreport', 'openreports'] as const;
export type ReportKind = (typeof reportKinds)[number];

/** From the worst: `fail` found something, `error` could not find out. */
export const reportResults = ['fail', 'error', 'warn', 'skip', 'pass'] as const;
export type ReportResult = (typeof reportResults)[number];

/** `critical` and `info` are refused by definitions of PolicyReport from before 2022. */
type ReportSeverity = 'critical' | 'high' | 'medium' | 'low' | 'info';

/** The subject of a report, or of one entry. */
export type ReportSubject = Pick<
  Wire<V1ObjectReference>,
  'apiVersion' | 'kind' | 'name' | 'namespace' | 'uid'
>;

export interface ReportEntry {
  /** The guard: `rampart/file-integrity`. */
  readonly source: string;
  /** The name of the user's object: a FileIntegrity, a policy. */
  readonly policy: string;
  readonly rule: string;
  readonly category: string;
  readonly severity: ReportSeverity;
  readonly result: ReportResult;
  /** For people; longer than 1,024 characters it is cut. */
  readonly message: string;
  /**
   * ms since 1970. For `fail` and `warn`, when it was seen. For the others nothing happened that has a time: the report keeps the
   * first one until something else in it changes, as each scan would otherwise be a write.
   */
  readonly timestampMs: number;
  /** Values longer than 1,024 characters are cut. */
  readonly properties: Readonly<Record<string, string>>;
  /** Where it is about something else than the report. */
  readonly subject?: ReportSubject;
}

export type ReportCounts = Readonly<Partial<Record<ReportResult, number>>>;

/** All of one report: it replaces the one of the same name. */
export interface Report {
  readonly namespace: string;
  readonly name: string;
  readonly scope: ReportSubject;
  /** The most important ones first: if there are too many, those at the end are omitted. */
  readonly entries: readonly ReportEntry[];
  /** Entries that the caller has left out already. They are counted, not shown. */
  readonly omitted?: ReportCounts;
  /** Where all entries can be found; mentioned if some are omitted. */
  readonly completeAt?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** The report is deleted with it. It is in the same namespace, or cluster-scoped. */
  readonly owner?: OwnerReference;
}
