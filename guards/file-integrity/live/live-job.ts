/** The interface between the jobs of a node and what watches their files. */
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
  /** Used to look up single paths (`baseline.find`). It is open until this is disposed. */
  readonly baseline: Baseline;
  /** Wall clock. The job's files have not been followed since then; undefined if they never were. */
  readonly unfollowedSinceMs?: number | undefined;
  /** Call its `update`; results and lines follow from it. */
  readonly findings: CurrentFindings;
  readonly containers: ContainerSource;
  readonly logger: Logger;
  /**
   * Takes changes by dpkg, and decides which of them to report. Without it, updates of packages are findings
   * like others.
   */
  readonly packages?: PackageUpdates;
  /** A larger file keeps nothing else waiting while it is read. Default: 256 MiB. */
  readonly largeBytes?: number | undefined;
  /**
   * Whether the annotation `holdoff` is set: changes are not reported then. A scan follows when it is
   * removed.
   */
  readonly isHeld: () => boolean;
  /** How changes are known from now on; part of results. */
  readonly notify: (detection: Detection) => void;
  /** A full scan as soon as may be, e.g. since events were lost. */
  readonly requestScan: (why: string) => void;
}

/**
 * Begins to watch. Called when a job has a baseline; the result is disposed before another baseline replaces
 * that one, and at the end. It must not throw: paths that cannot be watched are reported by `notify`.
 */
export type StartLive = (job: LiveJob) => AsyncDisposable | Disposable;
