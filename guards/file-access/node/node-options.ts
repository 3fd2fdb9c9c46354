/** The options of this guard's part of the agent, besides its context, and the state that it reports. */
import type { Spool } from '../../../lib/spool/spool.ts';
import type { SensorModeName } from '../../../lib/sensor/modes.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { PolicyScope } from '../policy/policy-scope.ts';
import type { LocalSensorOptions, PlannedSensor } from './local-sensor.ts';
import type { CallbackTroubles } from './node-events.ts';
import type { FollowedFiles, TrapFilesOptions } from './trap-files.ts';

/** Opens what the guard uses of a kernel. */
export interface FileAccessKernel {
  openSensor(options: LocalSensorOptions): PlannedSensor;
  openFiles(options: TrapFilesOptions): FollowedFiles;
}

export interface FileAccessNodeOptions {
  /** Default: that of this machine. */
  readonly kernelId?: string;
  /** Default: that of this machine. */
  readonly kernel?: FileAccessKernel;
  readonly sensor?: {
    readonly mode?: SensorModeName | 'auto';
    readonly capacity?: number;
    readonly ratePerSecond?: number;
    readonly ringSizeBytes?: number;
  };
  /** Also receives the alerts of traps with a callback. Without it, alerts are only written as lines. */
  readonly delivery?: Pick<Delivery, 'enqueue'> & Partial<Pick<Delivery, 'stats'>> & CallbackTroubles;
  /** Queue of openHeldAlerts: keeps alerts whose container is not known yet. Without it, none waits. */
  readonly held?: Spool | undefined;
  /** Default: only policies of the system namespaces match pods in other namespaces. */
  readonly policyScope?: PolicyScope;
  /** Identifies this agent in the lease of its kernel. Default: the identity in the context. */
  readonly identity?: string;
  /**
   * Called once all existing objects have been examined, and each time this agent becomes the loader of its kernel or
   * stops being it.
   */
  readonly onState?: (state: NodeState) => void;
}

/** For health endpoints. */
export interface NodeState {
  /** Whether policies, pods and containers are known and have been examined. */
  readonly ready: boolean;
  readonly isLoader: boolean;
  readonly sensorMode: SensorModeName;
}
