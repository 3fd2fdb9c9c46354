/** Who owns what after an object changed. */
import type { Comparison } from './compare.ts';
import type { Conflict } from './conflicts.ts';
import { difference, FieldSet, intersection, recursiveDifference, union } from './field-set.ts';
import type { Manager, Managers } from './managed-fields.ts';
import { fieldElement, type FieldPath } from './path-element.ts';

/** The path of nested fields: `metadata`, `name`. */
export function fieldPath(...names: readonly string[]): FieldPath {
  return names.map(fieldElement);
}

/** Fields that the server sets and that have no owner. In `metadata`, only the named fields. */
export const ownedByNobody = {
  top: new Set(['apiVersion', 'kind', 'metadata']),
  metadata: new Set([
    'name',
    'namespace',
    'creationTimestamp',
    'selfLink',
    'uid',
    'clusterName',
    'generation',
    'managedFields',
    'resourceVersion',
  ]),
} as const satisfies Record<string, ReadonlySet<string>>;

const unowned = FieldSet.of(
  ...[...ownedByNobody.top].map((name) => fieldPath(name)),
  ...[...ownedByNobody.metadata].map((name) => fieldPath('metadata', name)),
);

export function ownable(fields: FieldSet): FieldSet {
  return difference(fields, unowned);
}

/** The comparison without fields that the endpoint does not write, such as `status` in writes of the main resource. */
export function without(comparison: Comparison, fields: FieldSet): Comparison {
  if (fields.isEmpty) return comparison;
  return {
    added: recursiveDifference(comparison.added, fields),
    modified: recursiveDifference(comparison.modified, fields),
    removed: recursiveDifference(comparison.removed, fields),
  };
}

/** Changed fields that other managers own, sorted by manager, then by path. */
export function conflictsOf(managers: Managers, self: string, { added, modified }: Comparison): Conflict[] {
  const changed = union(modified, added);
  if (changed.isEmpty) return [];
  return [...managers]
    .filter(([id]) => id !== self)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, manager]) => {
      return [...intersection(manager.fields, changed).paths()].map((path) => ({ manager, path }));
    });
}

/**
 * The managers after a change by one of them: the others no longer own changed or removed fields; a manager
 * without fields is removed.
 *
 * @param self the manager that keeps its fields; `undefined` if all may lose some.
 */
export function afterChange(
  managers: Managers,
  self: string | undefined,
  comparison: Comparison,
): Map<string, Manager> {
  const lost = union(union(comparison.modified, comparison.added), comparison.removed);
  const after = new Map<string, Manager>();
  for (const [id, manager] of managers) {
    const fields = id === self || lost.isEmpty ? manager.fields : difference(manager.fields, lost);
    if (!fields.isEmpty) after.set(id, fields === manager.fields ? manager : { ...manager, fields });
  }
  return after;
}
