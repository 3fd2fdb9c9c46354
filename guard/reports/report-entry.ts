/** A guard's report, in whichever kind it is written. */
import type { V1ObjectReference } from '@kubernetes/client-node';

import type { OwnerReference, Wire } from '../../lib/kube/object/object.ts';

/** The kinds of reports that can be written, as named in options. */
export const reportKinds = ['policyreport', 'openreports'] as const;
export type ReportKind = (typeof reportKinds)[number];

/** Worst first. `fail`: something was found; `error`: it could not be checked. */
export const reportResults = ['fail', 'error', 'warn', 'skip', 'pass'] as const;
export type ReportResult = (typeof reportResults)[number];

/** Definitions of PolicyReport from before 2022 reject `critical` and `info`. */
type ReportSeverity = 'critical' | 'high' | 'medium' | 'low' | 'info';

/** The subject of a report, or of one entry. */
export type ReportSubject = Pick<
  Wire<V1ObjectReference>,
  'apiVersion' | 'kind' | 'name' | 'namespace' | 'uid'
>;

export interface ReportEntry {
  /** The guard: `rampart/file-integrity`. */
  readonly source: string;
  /** The name of the user's object: of a FileIntegrity or a policy, for example. */
  readonly policy: string;
  readonly rule: string;
  readonly category: string;
  readonly severity: ReportSeverity;
  readonly result: ReportResult;
  /** For people; truncated beyond 1,024 characters. */
  readonly message: string;
  /**
   * In ms since 1970. For `fail` and `warn`, when it was seen. The other results describe no event, so the time of the first one is kept
   * until something else in the report changes: otherwise each scan would cause a write.
   */
  readonly timestampMs: number;
  /** Values are truncated beyond 1,024 characters. */
  readonly properties: Readonly<Record<string, string>>;
  /** Set if it differs from the subject of the report. */
  readonly subject?: ReportSubject;
}

export type ReportCounts = Readonly<Partial<Record<ReportResult, number>>>;

/** The complete content of a report: it replaces the report with the same name. */
export interface Report {
  readonly namespace: string;
  readonly name: string;
  readonly scope: ReportSubject;
  /** The most important ones first: if there are too many, those at the end are omitted. */
  readonly entries: readonly ReportEntry[];
  /** Entries that the caller has already left out: they are counted, but not shown. */
  readonly omitted?: ReportCounts;
  /** Where all entries can be found; mentioned if some are omitted. */
  readonly completeAt?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** The object that the report is deleted with. It must be in the same namespace, or cluster-scoped. */
  readonly owner?: OwnerReference;
}
