import { isObject, setField, type JsonObject } from '../../json/json.ts';
import { assertNesting } from '../../json/bounds.ts';
import { Refusal } from '../../json/refusal.ts';

/**
 * Applies a merge patch to an object of the API. Neither argument is changed; the result shares parts of both.
 *
 * @param patch the decoded request body; anything.
 * @throws {Refusal} 400 for a patch that is not an object, or nested too deep.
 */
export function applyMergePatch(original: JsonObject, patch: unknown): JsonObject {
  if (!isObject(patch)) throw new Refusal(400, 'Invalid JSON Patch: a merge patch must be an object');
  assertNesting(patch, 'the patch');
  return mergePatch(original, patch) as JsonObject;
}

/** The function MergePatch of RFC 7386, section 2, for any JSON values. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged: JsonObject = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else setField(merged, name, mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, value));
  }
  return merged;
}
