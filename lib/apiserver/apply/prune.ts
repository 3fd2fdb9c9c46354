/** What goes when a manager no longer applies it. */
import { difference, type FieldSet, intersection, union } from './field-set.ts';
import { fieldsOf } from './fields-of.ts';
import { removeFields } from './remove.ts';
import type { ApplyType } from './type.ts';
import { withNamedParents } from './typed-sets.ts';

/**
 * Removes what the manager applied last time and does not apply now, unless it is owned still.
 *
 * @param last what the manager owned.
 * @param owned what anybody owns now, the manager included.
 */
export function prune(merged: unknown, last: FieldSet, owned: FieldSet, type: ApplyType): unknown {
  if (difference(last, owned).isEmpty) return merged;
  const inMerged = withNamedParents(fieldsOf(merged, type), type);
  const lastWhole = withNamedParents(last, type);
  const ownedWhole = withNamedParents(owned, type);
  const removed = removeFields(merged, lastWhole, type);
  // A list item that goes would take along what others own in it: these fields, and all on the way to them, stay.
  const afterRemoval = withNamedParents(fieldsOf(removed, type), type);
  const kept = removeFields(merged, difference(inMerged, union(afterRemoval, ownedWhole)), type);
  // What nobody owned, and so was not this manager's to remove, stays too.
  const afterKeeping = withNamedParents(fieldsOf(kept, type), type);
  return removeFields(merged, intersection(difference(inMerged, afterKeeping), lastWhole), type);
}
