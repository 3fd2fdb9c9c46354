/** The guard's counters on a node, and its metrics. */
import type { Metrics } from '../../../lib/telemetry/metrics.ts';
import { metricFamily } from '../../../lib/telemetry/metric-family.ts';
import type { SensorStats } from '../../../lib/sensor/options.ts';
import type { Unwatched } from '../../../lib/sensor/paths/directory-tree.ts';
import { registerSensorCounts } from '../metrics.ts';
import { Histogram } from '../../../lib/telemetry/histogram.ts';

/** Counts since the start of the process. */
export class NodeCounts {
  /** Alert lines that were written. */
  alerts = 0;
  /** Alerts given to the queues of callbacks, and those that the queues refused. */
  callbacks = 0;
  callbacksRefused = 0;
  /** Alerts that were reported without the name of the accessing container. */
  unknownAccessors = 0;
  /** Seconds from the access until the line was written. */
  readonly latencies = new Histogram([
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
  ]);
}

const zero = (): number => 0;

export interface NodeReadings {
  readonly counts: NodeCounts;
  readonly sensor: () => SensorStats;
  /** Planned alerts that are watched, and those for which there was no room. */
  readonly watched: () => number;
  readonly refused: () => number;
  readonly filtered: () => number;
  /** Moved files that are watched, and those that were dropped for lack of room. */
  readonly moved: () => number;
  readonly movedDropped: () => number;
  /** Watched files of directories, and the unwatched parts of these directories. */
  readonly directoryFiles: () => number;
  readonly unwatched: () => Unwatched;
  /** How often the kernel's queue of path events overflowed. */
  readonly overflows: () => number;
  readonly isLoader: () => boolean;
  readonly containers: () => number;
  readonly data: () => number;
}

/**
 * Registers `rampart_file_access_*`.
 *
 * @param readings - If undefined, all metrics are 0.
 * @throws if the registry already has them.
 */
export function registerNodeMetrics(
  metrics: Pick<Metrics, 'counter' | 'gauge' | 'histogram'>,
  readings?: NodeReadings,
): void {
  const { counts = new NodeCounts() } = readings ?? {};
  const { counter, gauge } = metricFamily(metrics, 'rampart_file_access');
  counter('alerts', 'Alerts raised.', () => counts.alerts);
  counter('callbacks', 'Alerts queued for a callback.', () => counts.callbacks);
  counter('callbacks_refused', 'Alerts refused by the queue of a callback.', () => counts.callbacksRefused);
  counter(
    'filtered',
    'Accesses that raised no alert because of the processes of their trap.',
    readings?.filtered ?? zero,
  );
  counter(
    'unknown_accessors',
    'Alerts by a container that the container runtime has not reported in time, or at all.',
    () => counts.unknownAccessors,
  );
  registerSensorCounts(metrics, 'rampart_file_access', () => readings?.sensor());
  metrics.histogram(
    { name: 'rampart_file_access_latency_seconds', help: 'Time from an access to its line on stdout.' },
    () => counts.latencies.read(),
  );
  gauge('moved', 'Moved files that are still watched for their traps.', readings?.moved ?? zero);
  counter(
    'moved_dropped',
    'Moved files that are no longer watched because their trap has too many.',
    readings?.movedDropped ?? zero,
  );
  gauge(
    'directory_files',
    'Files in the directories of traps that are watched.',
    readings?.directoryFiles ?? zero,
  );
  gauge(
    'unwatched_files',
    'Files in the directories of traps that are not watched because they exceed the limit.',
    () => readings?.unwatched().files ?? 0,
  );
  gauge(
    'unwatched_directories',
    'Directories below those of traps whose files are not watched because inotify watches are used up.',
    () => readings?.unwatched().directories ?? 0,
  );
  counter(
    'path_overflows',
    'Times the queue of events of followed paths was full; all of them were looked up again.',
    readings?.overflows ?? zero,
  );
  gauge('watched', 'Traps on files in containers that are watched.', readings?.watched ?? zero);
  gauge('refused', 'Traps on files that exceed the capacity of the sensor.', readings?.refused ?? zero);
  gauge('loader', 'Whether this agent is the loader of its kernel.', () =>
    readings?.isLoader() === true ? 1 : 0,
  );
  gauge('containers', 'Running containers on this node.', readings?.containers ?? zero);
  gauge('kivedata', 'KiveData of the kernel of the agent.', readings?.data ?? zero);
}
