/**
 * Conditions in the status of a namespace that is being deleted (kubernetes
 * `pkg/controller/namespace/deletion/status_condition_utils.go`).
 */
import { type Condition as KubeCondition, setCondition } from '../../kube/object/conditions.ts';
import { groupResource, type Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';

export interface ContentReport {
  /** The number of remaining objects of each kind. */
  readonly remaining: ReadonlyMap<Resource, number>;
  /** The number of remaining objects with each finalizer, keyed by the finalizer. */
  readonly finalizers: ReadonlyMap<string, number>;
  readonly errors: readonly string[];
}

type Condition = Pick<KubeCondition, 'message' | 'reason' | 'type'> & { readonly status: 'False' | 'True' };

const removed = { reason: 'ContentRemoved', message: 'All content successfully removed' };
const fine: readonly Omit<Condition, 'status'>[] = [
  {
    type: 'NamespaceDeletionDiscoveryFailure',
    reason: 'ResourcesDiscovered',
    message: 'All resources successfully discovered',
  },
  {
    type: 'NamespaceDeletionGroupVersionParsingFailure',
    reason: 'ParsedGroupVersions',
    message: 'All legacy kube types successfully parsed',
  },
  {
    type: 'NamespaceDeletionContentFailure',
    reason: 'ContentDeleted',
    message: 'All content successfully deleted, may be waiting on finalization',
  },
  { type: 'NamespaceContentRemaining', ...removed },
  { type: 'NamespaceFinalizersRemaining', ...removed },
];

function trouble({ remaining, finalizers, errors }: ContentReport): Map<string, Omit<Condition, 'type'>> {
  const found = new Map<string, Omit<Condition, 'type'>>();
  if (errors.length > 0) {
    const message = `Failed to delete all resource types, ${errors.length} remaining: ${errors.toSorted().join(', ')}`;
    found.set('NamespaceDeletionContentFailure', {
      status: 'True',
      reason: 'ContentDeletionFailed',
      message,
    });
  }
  if (remaining.size > 0) {
    // The core group has an empty name, but Kubernetes still writes the dot before it.
    const kinds = [...remaining].map(
      ([resource, count]) =>
        `${resource.group === '' ? `${resource.plural}.` : groupResource(resource)} has ${count} resource instances`,
    );
    const message = `Some resources are remaining: ${kinds.sort().join(', ')}`;
    found.set('NamespaceContentRemaining', { status: 'True', reason: 'SomeResourcesRemain', message });
  }
  if (finalizers.size > 0) {
    const names = [...finalizers].map(([name, count]) => `${name} in ${count} resource instances`);
    const message = `Some content in the namespace has finalizers remaining: ${names.sort().join(', ')}`;
    found.set('NamespaceFinalizersRemaining', { status: 'True', reason: 'SomeFinalizersRemain', message });
  }
  return found;
}

/** @returns the new conditions; `undefined` if they are unchanged. */
export function namespaceConditions(
  old: readonly JsonObject[],
  report: ContentReport,
  now: Date,
): readonly JsonObject[] | undefined {
  const bad = trouble(report);
  // Stored conditions have the fields that the schema of the kind requires.
  const before = old as readonly JsonObject[] & readonly KubeCondition[];
  let conditions: readonly KubeCondition[] = before;
  for (const { type, reason, message } of fine) {
    const wanted = bad.get(type) ?? { status: 'False', reason, message };
    const change = { type, ...wanted, observedGeneration: undefined };
    conditions = setCondition(conditions, change, { wallMs: () => now.getTime() });
  }
  return conditions === before ? undefined : (conditions as typeof before);
}
