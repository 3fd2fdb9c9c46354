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
  /** Of single paths: `baseline.find`. It is open as long as this is not disposed. */
  readonly baseline: Baseline;
  /** Wall clock. Since then nobody has followed the files of the job; undefined where nobody had before. */
  readonly unfollowedSinceMs?: number | undefined;
  /** To be told with `update`; results and lines follow from it. */
  readonly findings: CurrentFindings;
  readonly containers: ContainerSource;
  readonly logger: Logger;
  /** Takes what dpkg changes, and says what of it is to be told. Without it, updates of packages are findings like others. */
  readonly packages?: PackageUpdates;
  /** A larger file keeps nothing else waiting while it is read. Default: 256 MiB. */
  readonly largeBytes?: number | undefined;
  /** Whether the annotation `holdoff` is there: nothing is to be said of changes then. A scan follows when it is gone. */
  readonly isHeld: () => boolean;
  /** How changes are known from now on; part of results. */
  readonly tell: (detection: Detection) => void;
  /** A full scan as soon as may be, e.g. since events were lost. */
  readonly requestScan: (why: string) => void;
}

/**
 * Begins to watch. It is called when a job has a baseline, and what it returns is disposed before another baseline takes the
 * place of that, and at the end. It must not throw: what cannot be watched is told by `tell`.
 */
export type StartLive = (job: LiveJob) => AsyncDisposable | Disposable;
