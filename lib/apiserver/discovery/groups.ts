/** The served kinds by group and version, in the order in which discovery shows them. */
import { compareText } from '../../output/compare-text.ts';
import type { Registry } from '../resources/registry.ts';
import { apiVersionOf, type Resource } from '../resources/resource.ts';
import { compareVersions } from '../resources/version-order.ts';

/** The kinds of one version of a group, sorted by name. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  readonly resources: readonly Resource[];
}

export interface Group {
  /** '' is the core group. */
  readonly name: string;
  /** The preferred one first. */
  readonly versions: readonly [GroupVersion, ...GroupVersion[]];
}

/**
 * Priorities of the built-in groups: `groupPriorityMinimum` of their APIServices (kubernetes
 * `pkg/controlplane/apiserver/aggregator.go` and `cmd/kube-apiserver/app/aggregator.go`).
 */
const builtInPriorities: ReadonlyMap<string, number> = new Map([
  ['', 18_000],
  ['apps', 17_800],
  ['events.k8s.io', 17_750],
  ['authentication.k8s.io', 17_700],
  ['authorization.k8s.io', 17_600],
  ['autoscaling', 17_500],
  ['batch', 17_400],
  ['certificates.k8s.io', 17_300],
  ['networking.k8s.io', 17_200],
  ['policy', 17_100],
  ['rbac.authorization.k8s.io', 17_000],
  ['storage.k8s.io', 16_800],
  ['apiextensions.k8s.io', 16_700],
  ['admissionregistration.k8s.io', 16_700],
  ['scheduling.k8s.io', 16_600],
  ['coordination.k8s.io', 16_500],
  ['node.k8s.io', 16_300],
  ['discovery.k8s.io', 16_200],
  ['flowcontrol.apiserver.k8s.io', 16_100],
]);

/** Priority of all other groups (apiextensions `crdregistration_controller.go`). */
const customPriority = 1_000;

/** All groups, sorted by priority, then by name. */
export function groupsOf(registry: Registry): readonly Group[] {
  const byGroup = new Map<string, Map<string, Resource[]>>();
  for (const resource of registry.all) {
    const { group, version } = resource;
    let versions = byGroup.get(group);
    if (versions === undefined) byGroup.set(group, (versions = new Map()));
    const resources = versions.get(version);
    if (resources === undefined) versions.set(version, [resource]);
    else resources.push(resource);
  }
  const groups: Group[] = [];
  for (const [name, byVersion] of byGroup) {
    const versions = [...byVersion]
      .sort(([a], [b]) => compareVersions(a, b))
      .map(([version, resources]) => ({
        group: name,
        version,
        apiVersion: apiVersionOf({ group: name, version }),
        resources: resources.sort((a, b) => compareText(a.plural, b.plural)),
      }));
    const [preferred, ...others] = versions;
    if (preferred !== undefined) groups.push({ name, versions: [preferred, ...others] });
  }
  return groups.sort((a, b) => priorityOf(b) - priorityOf(a) || compareText(a.name, b.name));
}

function priorityOf({ name }: Group): number {
  return builtInPriorities.get(name) ?? customPriority;
}
