/**
 * What the agent runs for this guard on a node: it finds the files, and where it is the one for its kernel, alerts
 * accesses to them.
 */
import type { NodeContext } from '../../guard/context.ts';
import type { SensorModeName } from '../../lib/sensor/modes.ts';
import type { Delivery } from './delivery/delivery.ts';
import { FileAccessNode } from './node/file-access-node.ts';
import type { CallbackTroubles } from './node/node-events.ts';

export interface FileAccessNodeOptions {
  /** Default: that of this machine, see `node/kernel-id.ts`. */
  readonly kernelId?: string;
  readonly sensor?: {
    readonly mode?: SensorModeName | 'auto';
    readonly capacity?: number;
    readonly ratePerSecond?: number;
    readonly ringSizeBytes?: number;
  };
  /** Takes alerts of traps with a callback too. Without it they are lines only. */
  readonly delivery?: Pick<Delivery, 'enqueue'> & CallbackTroubles;
  /** In the lease of its kernel. Default: that of the context. */
  readonly identity?: string;
  /** Called once when what there is has been looked at, and each time it becomes the loader of its kernel or not. */
  readonly onState?: (state: NodeState) => void;
}

/** For health endpoints. */
export interface NodeState {
  /** Policies, pods and containers are known, and have been looked at. */
  readonly ready: boolean;
  readonly isLoader: boolean;
  readonly sensorMode: SensorModeName;
}

/**
 * Finds the files of the policies in the containers of this node, tells them as KiveData, and alerts accesses to the files
 * of this kernel while no other agent on it does; until `signal` aborts.
 *
 * That the API or the namespace `kivebpf-system` is not there ends nothing: it goes on with what it knows, and tries again.
 *
 * @throws {RampartError} what LocalSensor throws when the kernel does not take the sensor; `LIMIT` when
 *   fs.inotify.max_user_instances is reached.
 */
export async function runFileAccessNode(
  context: NodeContext,
  options: FileAccessNodeOptions = {},
): Promise<void> {
  using node = new FileAccessNode(context, options);
  await node.run();
}
