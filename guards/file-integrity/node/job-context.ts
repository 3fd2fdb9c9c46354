import type { ContainerSource } from '../../../lib/cri/container-source.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { Clock } from '../../../lib/time/clock.ts';
import type { IntegrityProvider, ScanRoot } from '../provider/provider.ts';
import type { StartLive } from '../live/live-job.ts';
import type { NodeCounts } from './node-counts.ts';

export interface JobContext {
  readonly client: KubeClient;
  readonly nodeName: string;
  readonly root: ScanRoot;
  /** Directory of all jobs; each job has a subdirectory. */
  readonly directory: string;
  readonly sink: (line: string) => unknown;
  readonly containers: ContainerSource;
  readonly providers: (name: IntegrityProvider['name']) => Promise<IntegrityProvider>;
  readonly live: StartLive | undefined;
  /** See `PackageUpdatesOptions`; default: half a minute. */
  readonly packagesIdleMs?: number | undefined;
  /** Larger files are compared after all others. Default: 256 MiB. */
  readonly largeBytes?: number | undefined;
  readonly counts: NodeCounts;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called after a change that may require work. */
  readonly wake: () => void;
}
