/**
 * A CustomResourceDefinition that is deleted takes its objects with it (apiextensions-apiserver
 * `pkg/controller/finalizer/crd_finalizer.go`).
 */
import { setImmediate as turn } from 'node:timers/promises';

import { messageOf } from '../../errors/errors.ts';
import type { Store } from '../store/store.ts';
import type { VerbCalls } from '../upkeep/verb-calls.ts';
import type { Crd } from './crd.ts';
import { resourcesOfCrd, type SchemaModels } from './custom-resource.ts';
import type { StoredForm } from './stored-form.ts';

interface CleanupContext {
  readonly store: Store;
  readonly calls: VerbCalls;
  readonly signal: AbortSignal;
}

/**
 * Asks for the deletion of all objects. Those with finalizers stay until somebody removes these.
 *
 * @returns how many are left, and what went wrong.
 */
export async function deleteInstances(
  crd: Crd,
  served: { readonly models: SchemaModels; readonly stored: StoredForm } | undefined,
  { store, calls, signal }: CleanupContext,
): Promise<{ readonly count: number; readonly errors: readonly string[] }> {
  const namespaces = await namespacesOf(crd, store, signal);
  if (namespaces.size === 0) return { count: 0, errors: [] };
  // Objects are deleted also where no version is served any more.
  const versions = crd.versions.map((version) => ({ ...version, served: version.storage }));
  const [resource] = resourcesOfCrd({ ...crd, versions }, { names: crd.acceptedNames, ...served });
  if (resource === undefined) return { count: 0, errors: [] };
  const errors: string[] = [];
  for (const namespace of namespaces) {
    signal.throwIfAborted();
    try {
      await calls.deleteCollection(resource, namespace, 'Background', signal);
    } catch (error) {
      errors.push(messageOf(error));
    }
  }
  const { items, remaining } = store.list(crd.name, { limit: 1 });
  return { count: items.length + remaining, errors };
}

async function namespacesOf(crd: Crd, store: Store, signal: AbortSignal): Promise<Set<string>> {
  const namespaces = new Set<string>();
  for (const portion of store.listPortions(crd.name).portions) {
    for (const { namespace } of portion) namespaces.add(namespace);
    await turn();
    signal.throwIfAborted();
  }
  return namespaces;
}
