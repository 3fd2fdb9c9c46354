/** The options of the agent's part of this guard besides its context, and its state for others. */
import type { Spool } from '../../../lib/spool/spool.ts';
import type { SensorModeName } from '../../../lib/sensor/modes.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { PolicyScope } from '../policy/policy-scope.ts';
import type { LocalSensorOptions, PlannedSensor } from './local-sensor.ts';
import type { CallbackTroubles } from './node-events.ts';
import type { FollowedFiles, TrapFilesOptions } from './trap-files.ts';

/** The guard's requirements for a kernel. */
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
  /** Takes alerts of traps with a callback too. Without it they are lines only. */
  readonly delivery?: Pick<Delivery, 'enqueue'> & Partial<Pick<Delivery, 'stats'>> & CallbackTroubles;
  /** Queue of openHeldAlerts: keeps alerts whose container is not known yet. Without it, none waits. */
  readonly held?: Spool | undefined;
  /** Default: only policies of the system namespaces match pods of others. */
  readonly policyScope?: PolicyScope;
  /** In the lease of its kernel. Default: that of the context. */
  readonly identity?: string;
  /** Called once when what there is has been examined, and each time it becomes the loader of its kernel or not. */
  readonly onState?: (state: NodeState) => void;
}

/** For health endpoints. */
export interface NodeState {
  /** Policies, pods and containers are known, and have been examined. */
  readonly ready: boolean;
  readonly isLoader: boolean;
  readonly sensorMode: SensorModeName;
}
