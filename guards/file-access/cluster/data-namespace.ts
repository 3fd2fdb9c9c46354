/** Keeps the namespace of KiveData in existence while this guard runs in a cluster; Kive's policies are in it too. */
import { managedLabels } from '../../../guard/managed-by.ts';
import type { GuardContext } from '../../../guard/context.ts';
import { isAlreadyExists } from '../../../lib/kube/client/client-errors.ts';
import { done, runController } from '../../../lib/kube/controller/controller.ts';
import { keyQueue } from '../../../lib/kube/controller/key-queue.ts';
import { whenSynced } from '../../../lib/kube/controller/run-parts.ts';
import { namespaces } from '../../../lib/kube/object/object.ts';
import { kiveDataNamespace as name } from '../api.ts';

/** Labels that distinguish a namespace created here from Kive's own. */
export const dataNamespaceLabels = managedLabels;

/** Creates the namespace whenever it is missing, until the signal aborts. */
export async function keepDataNamespace(context: GuardContext): Promise<void> {
  const { client, signal, logger, metrics } = context;
  const cache = context.cache({ type: namespaces, fieldSelector: `metadata.name=${name}` });
  using _ready = context.health.ready('namespace', () =>
    cache.get(name) === undefined ? 'it does not exist yet' : undefined,
  );
  using queue = keyQueue();
  using _deleted = cache.subscribe(({ type }) => {
    if (type === 'deleted') queue.add(name);
  });
  await whenSynced([cache], signal, async () => {
    queue.add(name);
    await runController({
      ...{ name: 'file-access-namespace', queue, signal, logger, metrics: metrics?.controllers },
      reconcile: async (_, of) => {
        if (cache.get(name) !== undefined) return done;
        try {
          const namespace = { metadata: { name, labels: dataNamespaceLabels } };
          await client.create(namespaces, namespace, { signal: of });
          logger.info({ namespace: name }, 'created the namespace');
        } catch (error) {
          if (!isAlreadyExists(error)) throw error;
        }
        return done;
      },
    });
  });
}
