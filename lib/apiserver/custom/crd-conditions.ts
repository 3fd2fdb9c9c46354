/** Conditions of a CustomResourceDefinition. */
import { objectAt, objectsAt } from '../../json/fields.ts';
import { type Condition, setCondition as setIn } from '../../kube/object/conditions.ts';
import type { JsonObject } from '../../json/json.ts';

export type NewCondition = Pick<Condition, 'message' | 'reason' | 'status' | 'type'>;

/** The conditions with one of them set; the same array if nothing changes. `lastTransitionTime` changes only with the status. */
export function withCondition(
  conditions: readonly JsonObject[],
  condition: NewCondition,
  now: Date,
): readonly JsonObject[] {
  // Stored conditions have the fields that the schema of the kind requires.
  const list = conditions as readonly JsonObject[] & readonly Condition[];
  const change = { ...condition, observedGeneration: undefined };
  return setIn(list, change, { wallMs: () => now.getTime() }) as readonly JsonObject[] & readonly Condition[];
}

/** Sets a condition of an object in place. */
export function setCondition(object: JsonObject, condition: NewCondition, now = new Date()): void {
  const conditions = withCondition(objectsAt(object, 'status', 'conditions'), condition, now);
  object['status'] = { ...objectAt(object, 'status'), conditions };
}
