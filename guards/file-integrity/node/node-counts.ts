/** The guard's counters on a node, and its metrics. */
import type { Metrics } from '../../../lib/telemetry/metrics.ts';
import { byLabel, metricFamily } from '../../../lib/telemetry/metric-family.ts';
import type { ScanProgress } from '../provider/provider.ts';
import type { Detection } from '../model/finding.ts';
import { Histogram } from '../../../lib/telemetry/histogram.ts';

/** Current values for one FileIntegrity. */
export interface JobReading {
  /** `namespace/name` of the FileIntegrity. */
  readonly key: string;
  readonly findings: number;
  readonly unread: number;
  /** Whether the state of its files is unknown. */
  readonly errored: boolean;
  /** Whether there is a result that the API has not received yet. */
  readonly pending: boolean;
  /** How changes are detected between scans. */
  readonly detection: Detection;
  /** When the last scan or baseline was completed, in ms since 1970; undefined before the first. */
  readonly scannedMs: number | undefined;
  /** How often it is scanned; undefined while scans are held. */
  readonly periodMs: number | undefined;
}

export class NodeCounts {
  /** Completed scans by kind, and failed ones. */
  readonly scans = { check: 0, init: 0, accept: 0, failed: 0 };
  readonly scanSeconds = new Histogram([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]);
  files = 0;
  bytes = 0;
  results = 0;
  /** CPU time of other programs that scan, in ms. */
  #cpuMs = 0;
  readonly findings = { event: 0, scan: 0 };
  /** Jobs of this node; empty until the first FileIntegrity selects the node. */
  jobs: () => Iterable<JobReading> = () => [];

  /** Increases while a scan makes progress, even within one large file. */
  get work(): number {
    return this.files + this.bytes + this.#cpuMs;
  }

  /** Returns a function that receives the growing totals of one run, and adds the increases. */
  progress(): (sums: Pick<ScanProgress, 'files' | 'bytes' | 'cpuMs'>) => void {
    let [files, bytes, cpuMs] = [0, 0, 0];
    return (sums) => {
      this.files += sums.files - files;
      this.bytes += sums.bytes - bytes;
      ({ files, bytes } = sums);
      if (sums.cpuMs === undefined) return;
      this.#cpuMs += sums.cpuMs - cpuMs;
      cpuMs = sums.cpuMs;
    };
  }

  register(metrics: Pick<Metrics, 'counter' | 'gauge' | 'histogram'>): void {
    const { counter, gauge } = metricFamily(metrics, 'rampart_file_integrity');
    counter('runs', 'Scans, by kind.', () => byLabel('kind', this.scans), ['kind']);
    const scans = {
      name: 'rampart_file_integrity_scan_seconds',
      help: 'Duration of scans, each for one or more FileIntegrities.',
    };
    metrics.histogram(scans, () => this.scanSeconds.read());
    counter('files', 'Files examined by scans.', () => this.files);
    counter('read_bytes', 'Bytes read by scans for checksums.', () => this.bytes);
    counter('results', 'Results accepted by the API.', () => this.results);
    const findings = () => byLabel('seen_by', this.findings);
    counter('findings', 'New findings, by how they were detected.', findings, ['seen_by']);
    const ofJobs = (name: string, help: string, read: (job: JobReading) => number | undefined): void =>
      gauge(
        name,
        help,
        () =>
          [...this.jobs()].flatMap((job) => {
            const value = read(job);
            return value === undefined ? [] : [{ labels: { file_integrity: job.key }, value }];
          }),
        ['file_integrity'],
      );
    const seconds = (ms: number | undefined): number | undefined => ms && ms / 1000;
    ofJobs(
      'last_scan_timestamp_seconds',
      'When a scan or a new baseline was last complete, since the Unix epoch.',
      (job) => seconds(job.scannedMs),
    );
    ofJobs('scan_period_seconds', 'Time between scans, unless they are held off.', (job) =>
      seconds(job.periodMs),
    );
    ofJobs('findings', 'Files that differ from the baseline now.', (job) => job.findings);
    ofJobs('unread', 'Paths that the last scan could not read.', (job) => job.unread);
    ofJobs('errored', 'Whether the state of the files is unknown.', (job) => (job.errored ? 1 : 0));
    ofJobs('result_pending', 'Whether a result is waiting to be written to the API.', (job) =>
      job.pending ? 1 : 0,
    );
  }
}
