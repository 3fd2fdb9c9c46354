/**
 * Converts definitions for `compileSchema`: without `$ref`, without descriptions, and with the extensions for what JSON
 * Schema cannot express.
 */
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import {
  intOrStringName,
  microTimeName,
  nameOfRef,
  quantityName,
  rawExtensionName,
  timeName,
} from './facts/names.ts';

/** Any value: its content is opaque, or checked elsewhere. */
const anything: JsonObject = { 'x-kubernetes-preserve-unknown-fields': true };

const wellKnown: ReadonlyMap<string, JsonObject> = new Map([
  [intOrStringName, { 'x-kubernetes-int-or-string': true }],
  // A string or a number. `quantities.ts` checks it, with the API server's messages.
  [quantityName, anything],
  [rawExtensionName, anything],
]);

/**
 * Keywords with the same meaning in OpenAPI and for `compileSchema`. List types are omitted: for built-in kinds, duplicates are reported
 * with other messages.
 */
const kept = ['type', 'required', 'enum', 'default'] as const;

/** The whole schema of a kind. A recursive definition (JSONSchemaProps) is expanded only once. */
export function inlineDefinition(definitions: ReadonlyMap<string, JsonObject>, kind: string): JsonObject {
  const entered = new Set<string>();

  function definitionOf(name: string): JsonObject {
    const known = wellKnown.get(name);
    if (known !== undefined) return known;
    const definition = definitions.get(name);
    if (definition === undefined || entered.has(name)) return anything;
    entered.add(name);
    const schema = inlined(definition);
    entered.delete(name);
    // A time that is not a pointer is null if unset; `go-form.ts` removes all other nulls.
    return name === timeName || name === microTimeName ? { ...schema, nullable: true } : schema;
  }

  function inlined(source: JsonObject): JsonObject {
    const name = refIn(source);
    if (name !== undefined) {
      const schema = definitionOf(name);
      return 'default' in source ? { ...schema, default: source['default'] } : schema;
    }
    const schema: JsonObject = {};
    for (const keyword of kept) if (keyword in source) schema[keyword] = source[keyword];
    // Base64 is checked by the validation of each kind: Kubernetes allows an empty text, the format does not.
    if (typeof source['format'] === 'string' && source['format'] !== 'byte')
      schema['format'] = source['format'];
    const { properties, items, additionalProperties } = source;
    if (isObject(properties)) {
      schema['properties'] = Object.fromEntries(
        Object.entries(properties).map(([field, property]) => [field, inlined(property as JsonObject)]),
      );
    }
    if (isObject(items)) schema['items'] = inlined(items);
    if (isObject(additionalProperties)) schema['additionalProperties'] = inlined(additionalProperties);
    const open = properties === undefined && additionalProperties === undefined && items === undefined;
    const typed = typeof source['type'] === 'string' && source['type'] !== 'object';
    return open && !typed ? { ...schema, ...anything } : schema;
  }

  const schema = definitionOf(kind);
  const properties = schema['properties'];
  // The metadata of a resource is checked elsewhere, with the same rules for all kinds.
  if (isObject(properties) && 'metadata' in properties) properties['metadata'] = { type: 'object' };
  return schema;
}

/** The definition to which a schema refers, directly or as the only item of an `allOf`. */
export function refIn(schema: JsonObject): string | undefined {
  const allOf = fieldOf(schema, 'allOf');
  const only: unknown = Array.isArray(allOf) ? allOf[0] : undefined;
  const ref = isObject(only) ? fieldOf(only, '$ref') : undefined;
  return typeof ref === 'string' ? nameOfRef(ref) : undefined;
}
