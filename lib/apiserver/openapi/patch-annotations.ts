/**
 * How strategic merge patches merge lists, as extensions of schemas. kubectl makes its patches by them; a list without
 * is replaced as a whole.
 */
import { nameOfRef } from '../builtin/facts/names.ts';
import type { PatchField, PatchType } from '../patch/merge-keys.ts';
import { isObject, type JsonObject } from '../../json/json.ts';

/** Fields of which a patch names all that stay: `patchStrategy` with `retainKeys` in k8s.io/api. */
const retainsKeys: ReadonlySet<string> = new Set([
  'io.k8s.api.core.v1.PodSpec volumes',
  'io.k8s.api.apps.v1.DeploymentSpec strategy',
]);

/** Marks the fields of a schema, and of those that it refers to. Schemas are replaced, not changed. */
export function annotateLists(schemas: Map<string, JsonObject>, name: string, type: PatchType): void {
  const schema = schemas.get(name);
  if (schema === undefined) return;
  const { properties } = schema;
  if (!isObject(properties)) return;
  const marked: JsonObject = { ...properties };
  for (const [field, property] of Object.entries(properties)) {
    const merged = type.get(field);
    if (!isObject(property)) continue;
    const extensions = extensionsOf(`${name} ${field}`, merged);
    if (extensions !== undefined) marked[field] = { ...property, ...extensions };
  }
  // Before going on, so that schemas that refer to each other are not lost.
  schemas.set(name, { ...schema, properties: marked });
  for (const [field, { type: inner }] of type) {
    const target = targetOf(marked[field]);
    if (inner !== undefined && target !== undefined) annotateLists(schemas, target, inner);
  }
}

function extensionsOf(place: string, field: PatchField | undefined): JsonObject | undefined {
  const merges = field?.mergesList === true;
  const retains = retainsKeys.has(place);
  if (!merges && !retains) return undefined;
  const strategy = [...(merges ? ['merge'] : []), ...(retains ? ['retainKeys'] : [])].join(',');
  return {
    ...(field?.mergeKey === undefined ? {} : { 'x-kubernetes-patch-merge-key': field.mergeKey }),
    'x-kubernetes-patch-strategy': strategy,
  };
}

/** What a property or the items of its list refer to. */
function targetOf(property: unknown): string | undefined {
  if (!isObject(property)) return undefined;
  const { $ref, allOf, items } = property;
  if (typeof $ref === 'string') return nameOfRef($ref);
  const [first] = Array.isArray(allOf) ? (allOf as readonly unknown[]) : [];
  return targetOf(first) ?? targetOf(items);
}
