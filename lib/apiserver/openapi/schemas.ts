/** The schemas of a document: those of the served kinds and all that they refer to. */
import { collectRefs, nameOfRef, refTo } from '../builtin/facts/names.ts';
import { type PatchField, type PatchType, patchTypeOf } from '../patch/merge-keys.ts';
import { apiVersionOf, type Resource } from '../resources/resource.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import {
  deleteOptionsName,
  listMetaName,
  listName,
  objectMetaName,
  patchName,
  statusName,
} from './operations.ts';

const patchSchema = {
  type: 'object',
  description: 'A patch; what it consists of depends on its media type.',
};

export type Definitions = ReadonlyMap<string, JsonObject>;

/**
 * The schemas for a document about some kinds. The arguments are not changed.
 *
 * @param shared schemas to which kinds refer without having them: custom resources have no ObjectMeta of their own.
 */
export function schemasOf(resources: readonly Resource[], shared: Definitions): Map<string, JsonObject> {
  const schemas = new Map<string, JsonObject>();
  for (const resource of resources) addKind(schemas, resource, shared);
  schemas.set(patchName, patchSchema);
  for (const name of [deleteOptionsName, statusName]) addClosure(schemas, name, shared, shared);
  for (const resource of resources) {
    if (resource.isCustom) continue;
    annotateLists(schemas, resource.openApi.name, patchTypeOf(apiVersionOf(resource), resource.kind));
  }
  return new Map([...schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function addKind(schemas: Map<string, JsonObject>, resource: Resource, shared: Definitions): void {
  const { openApi, group, version, kind, listKind } = resource;
  addClosure(schemas, openApi.name, openApi.definitions, shared);
  const own = schemas.get(openApi.name) ?? {};
  schemas.set(openApi.name, withKind(resource.isCustom ? withTypeMeta(own) : own, { group, version, kind }));
  addClosure(schemas, objectMetaName, openApi.definitions, shared);
  addList(schemas, resource, { group, version, kind: listKind });
  addClosure(schemas, listMetaName, openApi.definitions, shared);
  for (const { openApi: other, ...subresource } of resource.subresources.values()) {
    if (other === undefined) continue;
    addClosure(schemas, other.name, other.definitions, shared);
    const { group: itsGroup, version: itsVersion, kind: itsKind } = subresource;
    const schema = schemas.get(other.name) ?? {};
    schemas.set(other.name, withKind(schema, { group: itsGroup, version: itsVersion, kind: itsKind }));
  }
}

function addList(schemas: Map<string, JsonObject>, resource: Resource, kind: object): void {
  const name = listName(resource);
  const known = resource.openApi.definitions.get(name);
  if (known !== undefined) {
    addClosure(schemas, name, resource.openApi.definitions, resource.openApi.definitions);
    schemas.set(name, withKind(schemas.get(name) ?? {}, kind));
    return;
  }
  schemas.set(
    name,
    withKind(
      {
        type: 'object',
        description: `A list of ${resource.kind} objects.`,
        required: ['items'],
        properties: {
          ...typeMeta,
          metadata: { allOf: [{ $ref: refTo(listMetaName) }], description: 'Metadata of the list.' },
          items: {
            type: 'array',
            description: `The ${resource.kind} objects.`,
            items: { $ref: refTo(resource.openApi.name) },
          },
        },
      },
      kind,
    ),
  );
}

/**
 * Adds a schema and all that it refers to. A missing schema becomes one that allows any value, so that no reference
 * is dangling.
 */
function addClosure(
  schemas: Map<string, JsonObject>,
  first: string,
  definitions: Definitions,
  shared: Definitions,
): void {
  const open = [first];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (schemas.has(name)) continue;
    const schema = definitions.get(name) ??
      shared.get(name) ?? { 'x-kubernetes-preserve-unknown-fields': true };
    schemas.set(name, schema);
    collectRefs(schema, open);
  }
}

const kindExtension = 'x-kubernetes-group-version-kind';

/** Adds the extension by which kubectl finds the schema of a kind. */
function withKind(schema: JsonObject, kind: object): JsonObject {
  return Array.isArray(schema[kindExtension]) ? schema : { ...schema, [kindExtension]: [kind] };
}

const typeMeta = {
  apiVersion: { type: 'string', description: 'The group and version of the kind.' },
  kind: { type: 'string', description: 'The kind of the object.' },
} as const;

/**
 * Fields that all objects have and a CustomResourceDefinition omits (apiextensions `builder.go`,
 * buildKubeNative).
 */
function withTypeMeta(schema: JsonObject): JsonObject {
  const { properties } = schema;
  // Without properties, all fields are allowed; if these were the only ones, kubectl would reject all others.
  if (!isObject(properties)) return schema;
  const { apiVersion = typeMeta.apiVersion, kind = typeMeta.kind, metadata: sent, ...others } = properties;
  const description =
    isObject(sent) && 'description' in sent ? sent['description'] : 'Metadata of the object.';
  const metadata =
    isObject(sent) && (isObject(sent['allOf']) || Array.isArray(sent['allOf']) || '$ref' in sent)
      ? sent
      : { allOf: [{ $ref: refTo(objectMetaName) }], description };
  return { ...schema, properties: { apiVersion, kind, metadata, ...others } };
}

/** Fields for which a patch lists the keys to keep: `patchStrategy` with `retainKeys` in k8s.io/api. */
const retainsKeys: ReadonlySet<string> = new Set([
  'io.k8s.api.core.v1.PodSpec volumes',
  'io.k8s.api.apps.v1.DeploymentSpec strategy',
]);

/** Annotates the lists in the fields of a schema, and of schemas that it refers to. Schemas are replaced, not changed. */
function annotateLists(schemas: Map<string, JsonObject>, name: string, type: PatchType): void {
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
  // Stored before the recursion, so that the changes of schemas that refer to each other are not lost.
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

/** The schema that a property or the items of its list refer to. */
function targetOf(property: unknown): string | undefined {
  if (!isObject(property)) return undefined;
  const { $ref, allOf, items } = property;
  if (typeof $ref === 'string') return nameOfRef($ref);
  const [first] = Array.isArray(allOf) ? (allOf as readonly unknown[]) : [];
  return targetOf(first) ?? targetOf(items);
}
