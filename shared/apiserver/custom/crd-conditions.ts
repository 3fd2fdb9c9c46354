/**
 * Conditions of a CustomResourceDefinition.
 *
 * @module
 */
import { isObject, type JsonObject } from '../schema/json.ts';
import { objects, part, text } from './crd.ts';

export interface NewCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** Conditions with one set; the same array where nothing changes. The time changes with the status only. */
export function withCondition(
  conditions: readonly JsonObject[],
  condition: NewCondition,
  now: Date,
): readonly JsonObject[] {
  const { type, status, reason, message } = condition;
  const at = conditions.findIndex((one) => one['type'] === type);
  const old = conditions[at];
  if (
    old !== undefined &&
    ['status', 'reason', 'message'].every((name) => text(old, name) === pick(condition, name))
  ) {
    return conditions;
  }
  const time =
    old !== undefined && text(old, 'status') === status ? old['lastTransitionTime'] : timestamp(now);
  const made = { ...old, type, status, reason, message, lastTransitionTime: time ?? timestamp(now) };
  return old === undefined ? [...conditions, made] : conditions.with(at, made);
}

function pick(condition: NewCondition, name: string): unknown {
  return condition[name as keyof NewCondition];
}

/** Sets a condition of an object in place. */
export function setCondition(object: JsonObject, condition: NewCondition, now = new Date()): void {
  const status = isObject(object['status']) ? object['status'] : {};
  const conditions = withCondition(objects(part(object, 'status'), 'conditions'), condition, now);
  object['status'] = { ...status, conditions };
}

/** RFC 3339 in whole seconds, as metav1.Time prints it. */
export function timestamp(now: Date): string {
  return `${now.toISOString().slice(0, 19)}Z`;
}
