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
  /** Policies' requests: gets notified of changes. */
  readonly asked: AskedCluster;
  /** The time from one full pass to the next. */
  readonly intervalMs: number;
  /** Where reports go. Default: the API. */
  readonly store?: Reports;
  readonly failuresOnly: boolean;
  readonly reportKind: ReportKind;
  readonly reportsBy: ReportsBy;
  readonly parallelNamespaces: number;
  /** Resources audited in parallel in each of these namespaces. */
  readonly parallelResources: number;
  /** Number for each object. */
  readonly parallelPolicies: number;
  readonly pageSize: number;
  /** Besides Rampart's own. */
  readonly ignoredNamespaces?: ReadonlySet<string>;
  /** Only these; undefined: all. */
  readonly onlyNamespaces?: ReadonlySet<string>;
  /** Whether cluster-scoped objects are audited. Default: true. */
  readonly cluster?: boolean;
  readonly onEvaluated?: (evaluation: Evaluation, result: ReportResult | undefined) => void;
  /** Gets results that have changed. Default: none. */
  readonly findings?: Pick<PolicyFindings, 'audited'>;
  readonly onPass?: (summary: PassSummary) => void;
  /**
   * Called at each failure of a namespace ('' for cluster-scoped objects): whether a pass should end without it. Default: never; it is tried
   * again.
   */
  readonly givesUp?: (namespace: string, error: unknown) => boolean;
  readonly clock?: Clock;
}
