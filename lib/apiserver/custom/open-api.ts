/**
 * The OpenAPI schemas of custom resources (apiextensions-apiserver `pkg/controller/openapi/builder`): those of the
 * CustomResourceDefinition, plus `apiVersion`, `kind` and `metadata`.
 */
import { listAt, objectAt, valueAt } from '../../json/fields.ts';
import { collectRefs, refTo } from '../builtin/facts/names.ts';
import type { OpenApiModel } from '../resources/resource.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { builtinDefinitions } from '../builtin/definitions.ts';

interface OpenApiSubject {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
}

/** `stable.example.com`, `v1`, `CronTab` -> `com.example.stable.v1.CronTab` */
export function definitionName(group: string, version: string, kind: string): string {
  return `${group.split('.').reverse().join('.')}.${version}.${kind}`;
}

/** @param schema without one, the model only says "object": if it listed the common fields, clients would reject all others. */
export function openApiModelOf(subject: OpenApiSubject, schema: JsonObject | undefined): OpenApiModel {
  const { group, version, kind, listKind } = subject;
  const name = definitionName(group, version, kind);
  const { typeMeta, listMeta, definitions } = metaSchemas();
  const withKind = (definition: JsonObject, ofKind: string): JsonObject => ({
    ...definition,
    'x-kubernetes-group-version-kind': [{ group, version, kind: ofKind }],
  });
  const list: JsonObject = {
    type: 'object',
    description: `${listKind} is a list of ${kind}.`,
    required: ['items'],
    properties: {
      ...typeMeta,
      metadata: listMeta,
      items: {
        type: 'array',
        description: 'The objects in the list.',
        items: { $ref: refTo(name) },
      },
    },
  };
  const object = schema === undefined ? { type: 'object' } : withMeta(withEmbedded(schema));
  return {
    name,
    definitions: new Map([
      ...definitions,
      [name, withKind(object, kind)],
      [definitionName(group, version, listKind), withKind(list, listKind)],
    ]),
  };
}

/** Adds `apiVersion`, `kind` and `metadata` to the schema of an object. */
function withMeta(schema: JsonObject): JsonObject {
  const { typeMeta, objectMeta } = metaSchemas();
  const properties = { ...objectAt(schema, 'properties'), ...typeMeta, metadata: objectMeta };
  return { ...schema, properties };
}

/** Adds `apiVersion`, `kind` and `metadata` to the schemas of embedded resources; other parts of the schema are shared. */
function withEmbedded(schema: JsonObject): JsonObject {
  const changed: JsonObject = {};
  const properties = fieldOf(schema, 'properties');
  if (isObject(properties)) {
    const made = Object.entries(properties).map(
      ([name, value]) => [name, isObject(value) ? withEmbedded(value) : value] as const,
    );
    if (made.some(([name, value]) => value !== properties[name])) {
      changed['properties'] = Object.fromEntries(made);
    }
  }
  for (const keyword of ['items', 'additionalProperties']) {
    const inner = fieldOf(schema, keyword);
    if (!isObject(inner)) continue;
    const made = withEmbedded(inner);
    if (made !== inner) changed[keyword] = made;
  }
  const result = Object.keys(changed).length === 0 ? schema : { ...schema, ...changed };
  return fieldOf(schema, 'x-kubernetes-embedded-resource') === true ? embedded(result) : result;
}

function embedded(schema: JsonObject): JsonObject {
  const required = [...new Set([...listAt(schema, 'required'), 'kind', 'apiVersion'])];
  return { ...withMeta(schema), required };
}

const prefix = 'io.k8s.apimachinery.pkg.apis.meta.v1';

/** The schemas of the fields that every custom resource has, taken from the built-in kinds. */
interface MetaSchemas {
  /** `apiVersion` and `kind`. */
  readonly typeMeta: Readonly<JsonObject>;
  readonly objectMeta: Readonly<JsonObject>;
  readonly listMeta: Readonly<JsonObject>;
  /** All definitions that the others refer to, keyed by name. */
  readonly definitions: ReadonlyMap<string, JsonObject>;
}

let made: MetaSchemas | undefined;

/** Made on first use, then shared and never changed. */
function metaSchemas(): MetaSchemas {
  if (made !== undefined) return made;
  const all = builtinDefinitions();
  const any = all.get('io.k8s.api.core.v1.ConfigMap') ?? {};
  const anyList = all.get('io.k8s.api.core.v1.ConfigMapList') ?? {};
  const definitions = new Map<string, JsonObject>();
  for (const name of ['ObjectMeta', 'ListMeta']) reach(`${prefix}.${name}`, all, definitions);
  made = {
    typeMeta: {
      apiVersion: property(any, 'apiVersion') ?? { type: 'string' },
      kind: property(any, 'kind') ?? { type: 'string' },
    },
    objectMeta: property(any, 'metadata') ?? { allOf: [{ $ref: refTo(`${prefix}.ObjectMeta`) }] },
    listMeta: property(anyList, 'metadata') ?? { allOf: [{ $ref: refTo(`${prefix}.ListMeta`) }] },
    definitions,
  };
  return made;
}

function property(definition: JsonObject, name: string): JsonObject | undefined {
  const found = valueAt(definition, 'properties', name);
  return isObject(found) ? found : undefined;
}

/** Adds a definition and all that it refers to. */
function reach(name: string, all: ReadonlyMap<string, JsonObject>, into: Map<string, JsonObject>): void {
  const definition = all.get(name);
  if (definition === undefined || into.has(name)) return;
  into.set(name, definition);
  const referred: string[] = [];
  collectRefs(definition, referred);
  for (const one of referred) reach(one, all, into);
}
