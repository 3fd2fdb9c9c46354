/**
 * The migration from `kubectl apply` to `kubectl apply --server-side`: fields in the annotation written by the former do
 * not cause conflicts in the latter.
 */
import { canonicalJson, fieldOf, isObject, setField, type JsonObject } from '../../json/json.ts';
import { assertNesting } from '../../json/bounds.ts';
import { compare } from './compare.ts';
import type { Conflict } from './conflicts.ts';
import { difference } from './field-set.ts';
import { fieldsOf } from './fields-of.ts';
import type { ApplyType } from './type.ts';

const annotation = 'kubectl.kubernetes.io/last-applied-configuration';

/** The manager name of `kubectl apply --server-side`; only for this manager is the annotation examined. */
export const kubectl = 'kubectl';

/** The conflicts without those about fields that still have the value set by client-side `kubectl apply`. */
export function withoutLastApplied(
  conflicts: readonly Conflict[],
  live: JsonObject,
  apiVersion: string,
  type: ApplyType,
): readonly Conflict[] {
  const last = lastAppliedOf(live);
  if (last === undefined || fieldOf(last, 'apiVersion') !== apiVersion) return conflicts;
  const { added, modified, removed } = compare(last, live, type);
  const unchanged = difference(difference(difference(fieldsOf(last, type), modified), added), removed);
  return conflicts.filter(({ path }) => !unchanged.has(path));
}

function lastAppliedOf(object: JsonObject): JsonObject | undefined {
  const text = annotationsOf(object)?.[annotation];
  if (typeof text !== 'string' || text === '') return undefined;
  try {
    const last = JSON.parse(text) as unknown;
    assertNesting(last, annotation);
    return isObject(last) ? last : undefined;
  } catch {
    // The annotation may contain any text; an invalid configuration resolves no conflict.
    return undefined;
  }
}

/**
 * Updates the annotation, if present, with the configuration that kubectl applied, so that client-side apply
 * still works.
 */
export function withLastApplied(object: JsonObject, applied: JsonObject): JsonObject {
  const annotations = annotationsOf(object);
  if (annotations === undefined || !annotations[annotation]) return object;
  const configuration = withAnnotations(applied, (old) => {
    const { [annotation]: _, ...others } = old;
    return others;
  });
  return withAnnotations(object, (old) => ({ ...old, [annotation]: `${canonicalJson(configuration)}\n` }));
}

function annotationsOf(object: JsonObject): JsonObject | undefined {
  const metadata = fieldOf(object, 'metadata');
  const annotations = isObject(metadata) ? fieldOf(metadata, 'annotations') : undefined;
  return isObject(annotations) ? annotations : undefined;
}

function withAnnotations(object: JsonObject, change: (annotations: JsonObject) => JsonObject): JsonObject {
  const annotations = annotationsOf(object);
  if (annotations === undefined) return object;
  const metadata = { ...(object['metadata'] as JsonObject) };
  setField(metadata, 'annotations', change(annotations));
  return { ...object, metadata };
}
