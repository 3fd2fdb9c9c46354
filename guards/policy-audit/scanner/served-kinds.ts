/** The kinds that the API serves; each kind occurs once, whatever its versions. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { apiGroups, type ApiResource, apiResources } from '../../../lib/kube/client/discovery.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import type { GroupVersionResource } from '../engine/evaluator.ts';
import { coversCreation, coversKind } from '../policies/match.ts';
import type { Policy } from '../policies/policy.ts';

/** A kind of object that can be listed and watched. */
export interface ServedKind {
  /** `deployments.apps`, `pods`. */
  readonly key: string;
  /** The type in the API's preferred version. */
  readonly type: ResourceType;
  /** All served versions, the preferred one first. */
  readonly versions: readonly GroupVersionResource[];
  readonly shortNames: readonly string[];
}

export interface ServedKinds {
  readonly kinds: ReadonlyMap<string, ServedKind>;
  /** Everything that is served, including resources that cannot be listed and subresources such as `pods/log`. */
  readonly resources: readonly GroupVersionResource[];
  /** Versions, as `group/version`, whose discovery failed: usually those of aggregated API servers. */
  readonly unread: readonly string[];
}

/**
 * Kinds that a policy must name to apply to them: they are short-lived or change constantly. A policy for all
 * kinds would otherwise report little else.
 */
const namedOnly: ReadonlySet<string> = new Set([
  'events',
  'events.events.k8s.io',
  'leases.coordination.k8s.io',
]);

/** Kinds that serve the same objects as another kind. */
const twins: ReadonlyMap<string, string> = new Map([['events.events.k8s.io', 'events']]);

/** @throws {KubeError} if discovery fails; failures of single groups are listed in `unread`. */
export async function servedKinds(client: KubeClient, signal: AbortSignal): Promise<ServedKinds> {
  const groups = [
    { name: '', versions: ['v1'] },
    ...(await apiGroups(client, { signal })).map(({ name, preferredVersion, versions }) => ({
      name,
      versions: [...new Set([preferredVersion?.version, ...versions.map(({ version }) => version)])].filter(
        (version) => version !== undefined,
      ),
    })),
  ];
  const kinds = new Map<string, ServedKind>();
  const all: GroupVersionResource[] = [];
  const unread: string[] = [];
  for (const { name: group, versions } of groups) {
    for (const version of versions) {
      let resources: readonly ApiResource[];
      try {
        resources = await apiResources(client, { group, version }, { signal });
      } catch {
        signal.throwIfAborted();
        unread.push(`${group}/${version}`);
        continue;
      }
      for (const resource of resources) {
        add(kinds, group, version, resource);
        all.push({ group, version, resource: resource.name });
      }
    }
  }
  for (const [key, twin] of twins) if (kinds.has(twin)) kinds.delete(key);
  return { kinds, resources: all, unread };
}

function add(
  kinds: Map<string, ServedKind>,
  group: string,
  version: string,
  { name, kind, namespaced, verbs, shortNames = [] }: ApiResource,
): void {
  if (name.includes('/') || !verbs.includes('list') || !verbs.includes('watch')) return;
  const key = group === '' ? name : `${name}.${group}`;
  const known = kinds.get(key);
  const own = { group, version, resource: name };
  const type = known?.type ?? { group, version, plural: name, kind, namespaced };
  kinds.set(key, { key, type, versions: [...(known?.versions ?? []), own], shortNames });
}

/**
 * Whether a policy may apply to objects of a kind in audits, which evaluate them as if they were created now.
 */
export function auditsKind({ constraints, origin }: Policy, { key, type, versions }: ServedKind): boolean {
  if (origin.namespace !== undefined && !type.namespaced && key !== 'namespaces') return false;
  return constraints.every(({ rules }) =>
    rules.some((rule) => {
      if (!coversCreation(rule)) return false;
      if (namedOnly.has(key) && !rule.resources.some((one) => one.split('/')[0] === type.plural))
        return false;
      if (rule.scope !== '*' && (rule.scope === 'Namespaced') !== type.namespaced) return false;
      return versions.some((one) => coversKind(rule, one));
    }),
  );
}
