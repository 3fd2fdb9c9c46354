/** The interface between a node's jobs and the code that watches their files. */
import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { AideConf } from '../aide-conf/conf.ts';
import type { Baseline } from '../database/read-baseline.ts';
import type { Detection } from '../model/finding.ts';
import type { ScanRoot } from '../provider/provider.ts';
import type { PackageUpdates } from '../packages/package-updates.ts';
import type { CurrentFindings } from '../results/findings.ts';
import type { ReportOptions } from '../model/report.ts';

/** A job with a baseline that can be trusted. */
export interface LiveJob {
  /** `namespace/name` of the FileIntegrity. */
  readonly key: string;
  readonly nodeName: string;
  readonly root: ScanRoot;
  readonly conf: AideConf;
  /** For `describeDifference`. */
  readonly reportOptions: ReportOptions;
  /** Used to look up single paths (`baseline.find`). It remains open until the watch is disposed. */
  readonly baseline: Baseline;
  /** Wall-clock time since which the job's files have not been watched; undefined if they never were. */
  readonly unfollowedSinceMs?: number | undefined;
  /** Receives the differences by its `update`; results and output lines are derived from it. */
  readonly findings: CurrentFindings;
  readonly containers: ContainerSource;
  readonly logger: Logger;
  /**
   * Receives changes by dpkg, and decides which of them to report. If it is absent, package updates are findings like
   * all others.
   */
  readonly packages?: PackageUpdates;
  /** A larger file is compared separately, so that nothing else waits for it. Default: 256 MiB. */
  readonly largeBytes?: number | undefined;
  /** Whether the annotation `holdoff` is set: changes are not reported then. A scan follows when the annotation is removed. */
  readonly isHeld: () => boolean;
  /** Reports how changes are detected from now on, which becomes part of results. */
  readonly notify: (detection: Detection) => void;
  /** Requests a full scan as soon as possible, e.g. because events were lost. */
  readonly requestScan: (why: string) => void;
}

/**
 * Starts watching. Called when a job has a baseline. The result is disposed before the baseline is replaced, and when
 * the job ends. Must not throw: paths that cannot be watched are reported by `notify`.
 */
export type StartLive = (job: LiveJob) => AsyncDisposable | Disposable;
