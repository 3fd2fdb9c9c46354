/** The options of a scanner. */
import type { GuardContext } from '../../../guard/context.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { ExceptionSet } from '../exceptions/exception-set.ts';
import type { PolicyFindings } from '../findings/policy-findings.ts';
import type { AskedCluster } from '../policies/asked-cluster.ts';
import type { PolicySet } from '../policies/policy-set.ts';
import type { Evaluation } from '../policies/open-policy.ts';
import type { ReportKind } from '../../../guard/reports/report-entry.ts';
import type { ReportResult, ReportsBy } from '../reports/report.ts';
import type { Reports } from '../reports/reports.ts';
import type { PassSummary } from './audit-pass.ts';

export interface ScannerOptions {
  readonly context: GuardContext;
  readonly policies: PolicySet;
  /** Default: none. */
  readonly exceptions?: ExceptionSet | undefined;
  /** Answers the policies' requests, and is notified of changes. */
  readonly asked: AskedCluster;
  /** Interval between two full passes. */
  readonly intervalMs: number;
  /** Where reports go. Default: the API. */
  readonly store?: Reports;
  readonly failuresOnly: boolean;
  readonly reportKind: ReportKind;
  readonly reportsBy: ReportsBy;
  readonly parallelNamespaces: number;
  /** Maximum number of objects audited concurrently in each of these namespaces. */
  readonly parallelResources: number;
  /** Maximum number of policies evaluated concurrently for each object. */
  readonly parallelPolicies: number;
  readonly pageSize: number;
  /** Namespaces that are not audited, besides Rampart's own. */
  readonly ignoredNamespaces?: ReadonlySet<string>;
  /** Only these namespaces are audited; undefined: all. */
  readonly onlyNamespaces?: ReadonlySet<string>;
  /** Whether cluster-scoped objects are audited. Default: true. */
  readonly cluster?: boolean;
  readonly onEvaluated?: (evaluation: Evaluation, result: ReportResult | undefined) => void;
  /** Receives results that have changed. Default: none. */
  readonly findings?: Pick<PolicyFindings, 'audited'>;
  readonly onPass?: (summary: PassSummary) => void;
  /**
   * Called with each failure of a namespace ('' for cluster-scoped objects). Returns whether the pass ends without
   * it; if not, the namespace is tried again. Default: never.
   */
  readonly givesUp?: (namespace: string, error: unknown) => boolean;
  readonly clock?: Clock;
}
