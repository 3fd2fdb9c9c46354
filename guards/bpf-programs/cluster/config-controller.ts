/** Reports in the status of each Config, the object that bpfman-operator is installed with, that it has no effect here. */
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import {
  type ControllerContext,
  done,
  type Result,
  runController,
} from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { setCondition } from '../../../lib/kube/object/conditions.ts';
import { type Config, configType } from '../api.ts';

interface ConfigControllerOptions extends ControllerContext {
  readonly configs: IndexedCache<Config>;
}

const message = 'Rampart does not use it: its own options are those of its agents and its operator.';

/** Runs until `signal` aborts; the cache must be synced. */
export async function runConfigController(options: ConfigControllerOptions): Promise<void> {
  const { client, configs } = options;
  using queue = keyQueue();
  using _configs = configs.subscribe(({ key }) => queue.add(key));
  for (const key of configs.keys()) queue.add(key);
  const reconcile = async (name: string, signal: AbortSignal): Promise<Result> => {
    const config = configs.get(name);
    if (config === undefined || isDeleting(config)) return done;
    const before = config.status?.conditions;
    const conditions = setCondition(before, {
      ...{ type: 'Used', status: 'False', reason: 'NotUsed', message },
      observedGeneration: config.metadata.generation,
    });
    if (conditions === before) return done;
    const patch = { type: 'merge', body: { status: { conditions } } } as const;
    await orUndefined(client.patch(configType, { name, subresource: 'status' }, patch, { signal }));
    return done;
  };
  await runController({ ...options, name: 'bpf-programs-configs', queue, reconcile, workers: 1 });
}
