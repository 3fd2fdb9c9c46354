/** The namespaces that every cluster has. */
import type { Registry } from '../resources/registry.ts';
import type { Store } from '../store/store.ts';
import { hasCode, type VerbCalls } from './verb-calls.ts';

const defaultNamespaces: readonly string[] = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];

/** Creates those that are missing. */
export async function createDefaultNamespaces(
  {
    store,
    registry,
    calls,
  }: { readonly store: Store; readonly registry: Registry; readonly calls: VerbCalls },
  signal: AbortSignal,
): Promise<void> {
  const resource = registry.findStored('namespaces');
  if (resource === undefined) return;
  const missing = defaultNamespaces.filter((name) => store.get(resource.storeName, '', name) === undefined);
  await Promise.all(
    missing.map(async (name) => {
      try {
        const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
        await calls.create(resource, '', object, signal);
      } catch (error) {
        if (!hasCode(error, 409)) throw error;
      }
    }),
  );
}
