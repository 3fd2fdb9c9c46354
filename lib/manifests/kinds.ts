/** Finds the resource of an object in a manifest, by the server's discovery. */
import type { KubeClient } from '../kube/client/client.ts';
import { orUndefined } from '../kube/client/client-errors.ts';
import { apiGroups, type ApiResource, apiResources } from '../kube/client/discovery.ts';
import type { ResourceType } from '../kube/object/object.ts';

export class Kinds {
  readonly #client: KubeClient;
  readonly #versions = new Map<string, readonly ApiResource[]>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Call it when the served kinds may have changed, because custom resources were added or removed. */
  forget(): void {
    this.#versions.clear();
  }

  /** `undefined` if the server has no such kind. */
  async find(apiVersion: string, kind: string, signal: AbortSignal): Promise<ResourceType | undefined> {
    const { group, version } = split(apiVersion);
    const resources = await this.#resources(group, version, signal);
    const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
    return found === undefined
      ? undefined
      : { group, version, kind, plural: found.name, namespaced: found.namespaced };
  }

  /** All kinds whose objects can be listed and deleted, each in its preferred version. */
  async all(signal: AbortSignal): Promise<ResourceType[]> {
    const groups = await apiGroups(this.#client, { signal });
    const versions = groups.map(({ name, preferredVersion, versions: [first] }) => ({
      group: name,
      version: preferredVersion?.version ?? first?.version ?? '',
    }));
    const types: ResourceType[] = [];
    for (const { group, version } of [{ group: '', version: 'v1' }, ...versions]) {
      for (const { name, kind, namespaced, verbs } of await this.#resources(group, version, signal)) {
        if (name.includes('/') || !verbs.includes('list') || !verbs.includes('delete')) continue;
        types.push({ group, version, kind, plural: name, namespaced });
      }
    }
    return types;
  }

  async #resources(group: string, version: string, signal: AbortSignal): Promise<readonly ApiResource[]> {
    const name = `${group}/${version}`;
    const known = this.#versions.get(name);
    if (known !== undefined) return known;
    const found = await orUndefined(apiResources(this.#client, { group, version }, { signal }));
    // A missing kind is not cached: it may come with a CustomResourceDefinition.
    if (found !== undefined) this.#versions.set(name, found);
    return found ?? [];
  }
}

function split(apiVersion: string): { readonly group: string; readonly version: string } {
  const slash = apiVersion.indexOf('/');
  return { group: apiVersion.slice(0, Math.max(slash, 0)), version: apiVersion.slice(slash + 1) };
}

const firstKinds = ['Namespace', 'CustomResourceDefinition'] as const;
const secondKinds: ReadonlySet<string> = new Set([
  'ServiceAccount',
  'Secret',
  'ConfigMap',
  'ClusterRole',
  'Role',
]);

/**
 * The order in which kinds are applied: those that others depend on come first. Deletion is in reverse order.
 */
export function turnOf(kind: string): number {
  const first = firstKinds.findIndex((one) => one === kind);
  if (first >= 0) return first;
  return secondKinds.has(kind) ? firstKinds.length : firstKinds.length + 1;
}
