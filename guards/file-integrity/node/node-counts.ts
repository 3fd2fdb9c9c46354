/** The guard's counters on a node, and its metrics. */
import type { Metrics } from '../../../lib/telemetry/metrics.ts';
import type { ScanProgress } from '../provider/provider.ts';
import { Histogram } from '../../../lib/telemetry/histogram.ts';

/** Of one FileIntegrity, as it is now. */
export interface JobReading {
  /** `namespace/name` */
  readonly key: string;
  readonly findings: number;
  readonly unread: number;
  /** The state of its files is unknown. */
  readonly errored: boolean;
  /** There is a result that the API does not have. */
  readonly pending: boolean;
}

export class NodeCounts {
  /** Checks and baselines that came to an end, by what they came to. */
  readonly scans = { check: 0, init: 0, accept: 0, failed: 0 };
  readonly scanSeconds = new Histogram([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]);
  files = 0;
  bytes = 0;
  results = 0;
  /** Of other programs that scan. */
  #cpuMs = 0;
  readonly findings = { event: 0, scan: 0 };
  /** Jobs of this node; none before the first FileIntegrity is for it. */
  jobs: () => Iterable<JobReading> = () => [];

  /** Grows as long as a scan goes on, also within one large file. */
  get work(): number {
    return this.files + this.bytes + this.#cpuMs;
  }

  /** Takes the sums of one run as they grow. */
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
    const name = (rest: string): string => `rampart_file_integrity_${rest}`;
    metrics.counter({ name: name('runs_total'), help: 'Scans, by kind.', labelNames: ['kind'] }, () =>
      Object.entries(this.scans).map(([kind, value]) => ({ labels: { kind }, value })),
    );
    metrics.histogram(
      { name: name('scan_seconds'), help: 'Duration of scans, each for one or more FileIntegrities.' },
      () => this.scanSeconds.read(),
    );
    const counter = (rest: string, help: string, read: () => number): void =>
      metrics.counter({ name: name(rest), help }, read);
    counter('files_total', 'Files examined by scans.', () => this.files);
    counter('read_bytes_total', 'Bytes read by scans for checksums.', () => this.bytes);
    counter('results_total', 'Results accepted by the API.', () => this.results);
    metrics.counter(
      {
        name: name('findings_total'),
        help: 'New findings, by how they were detected.',
        labelNames: ['seen_by'],
      },
      () => Object.entries(this.findings).map(([by, value]) => ({ labels: { seen_by: by }, value })),
    );
    const gauge = (rest: string, help: string, read: (job: JobReading) => number): void =>
      metrics.gauge({ name: name(rest), help, labelNames: ['file_integrity'] }, () =>
        [...this.jobs()].map((job) => ({ labels: { file_integrity: job.key }, value: read(job) })),
      );
    gauge('findings', 'Files that differ from the baseline now.', (job) => job.findings);
    gauge('unread', 'Paths that the last scan could not read.', (job) => job.unread);
    gauge('errored', 'Whether the state of the files is unknown.', (job) => (job.errored ? 1 : 0));
    gauge('result_pending', 'Whether a result is waiting to be written to the API.', (job) =>
      job.pending ? 1 : 0,
    );
  }
}
