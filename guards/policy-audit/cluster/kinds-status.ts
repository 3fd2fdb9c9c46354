/** Reports in the status of policies if the API serves none of the kinds that their rules name. */
import type { GuardContext } from '../../../guard/context.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { done, type Result, runController } from '../../../lib/kube/controller/controller.ts';
import { isDeleting } from '../../../lib/kube/controller/finalizers.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import { type AnyKubewardenPolicy, kubewardenTypes } from '../api.ts';
import { statusOfKinds } from '../policies/policy-status.ts';
import { policyId } from '../policies/read-policy.ts';
import type { Scanner } from '../scanner/scanner.ts';

/** Runs until the signal of the context aborts. */
export async function reportUnservedKinds(
  context: GuardContext,
  scanner: Pick<Scanner, 'onUnserved' | 'unserved'>,
): Promise<void> {
  const { client, signal, logger, metrics } = context;
  const caches = kubewardenTypes.map(
    (type) => [type as ResourceType, context.cache<AnyKubewardenPolicy>({ type })] as const,
  );
  using queue = keyQueue();
  using subscriptions = new DisposableStack();
  for (const [{ plural }, cache] of caches)
    subscriptions.use(cache.subscribe(({ key }) => queue.add(`${plural}/${key}`)));
  subscriptions.use(
    scanner.onUnserved(() => {
      for (const [{ plural }, cache] of caches) for (const key of cache.keys()) queue.add(`${plural}/${key}`);
    }),
  );
  const reconcile = async (key: string, stop: AbortSignal): Promise<Result> => {
    const slash = key.indexOf('/');
    const [type, cache] = caches.find(([{ plural }]) => plural === key.slice(0, slash)) ?? [];
    const object = cache?.get(key.slice(slash + 1));
    if (type === undefined || object === undefined || isDeleting(object)) return done;
    const status = statusOfKinds(object, scanner.unserved.get(policyId({ ...object, kind: type.kind })));
    if (status === undefined) return done;
    const { namespace, name = '', resourceVersion } = object.metadata;
    const target = { namespace, name, subresource: 'status' };
    const body = { metadata: { resourceVersion }, status: { conditions: status.conditions } };
    await orUndefined(client.patch(type, target, { type: 'merge', body }, { signal: stop }));
    return done;
  };
  await runController({
    ...{ name: 'kinds-of-policies', queue, reconcile, signal, logger, metrics: metrics?.controllers },
  });
}
