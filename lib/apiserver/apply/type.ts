/**
 * The facts about a type that server-side apply needs: which lists and maps are one value (atomic), and which
 * keys identify the items of the others. Made from an OpenAPI v3 schema with its x-kubernetes extensions, as
 * k8s.io/kube-openapi pkg/schemaconv does.
 */
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';

export type Scalar = 'string' | 'numeric' | 'boolean' | 'untyped';

/** The kinds of values that are allowed; at least one of the three is set. */
export interface ApplyType {
  readonly scalar: Scalar | undefined;
  readonly list: ListType | undefined;
  readonly map: MapType | undefined;
}

export interface ListType {
  readonly relation: 'atomic' | 'set' | 'map';
  /** For a list that is a map: the fields that identify its items, sorted by name. */
  readonly keys: readonly ListKey[];
  readonly items: ApplyType;
}

interface ListKey {
  readonly name: string;
  /** The value that counts for items without the field. */
  readonly default: unknown;
}

export interface MapType {
  readonly atomic: boolean;
  /** The fields that the schema names. */
  readonly fields: ReadonlyMap<string, ApplyType>;
  /** The type of all other fields; if undefined, other fields are not allowed. */
  readonly rest: ApplyType | undefined;
}

/** Any value, treated as atomic. */
const untyped: ApplyType = { scalar: 'untyped', list: atomicList(), map: atomicMap() };

function atomicList(): ListType {
  return { relation: 'atomic', keys: [], items: { scalar: 'untyped', list: undefined, map: undefined } };
}

function atomicMap(): MapType {
  return { atomic: true, fields: new Map(), rest: { scalar: 'untyped', list: undefined, map: undefined } };
}

/** The type of data without a schema: maps are merged field by field, lists are atomic. */
export const schemaless: ApplyType = selfContaining((self) => ({
  scalar: 'untyped',
  list: { relation: 'atomic', keys: [], items: untyped },
  map: { atomic: false, fields: new Map(), rest: self },
}));

function selfContaining(make: (self: ApplyType) => ApplyType): ApplyType {
  const self: { -readonly [K in keyof ApplyType]: ApplyType[K] } = { ...untyped };
  return Object.assign(self, make(self));
}

const text = { type: 'string' };

/** ObjectMeta, which the schema of a CustomResourceDefinition does not describe. */
const objectMeta: JsonObject = {
  type: 'object',
  properties: {
    ...Object.fromEntries(
      ['name', 'generateName', 'namespace', 'selfLink', 'uid', 'resourceVersion'].map((name) => [name, text]),
    ),
    generation: { type: 'integer' },
    creationTimestamp: { type: 'string', format: 'date-time' },
    deletionTimestamp: { type: 'string', format: 'date-time' },
    deletionGracePeriodSeconds: { type: 'integer' },
    labels: { type: 'object', additionalProperties: text },
    annotations: { type: 'object', additionalProperties: text },
    finalizers: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
    ownerReferences: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          ...Object.fromEntries(['apiVersion', 'kind', 'name', 'uid'].map((name) => [name, text])),
          controller: { type: 'boolean' },
          blockOwnerDeletion: { type: 'boolean' },
        },
        'x-kubernetes-map-type': 'atomic',
      },
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['uid'],
    },
    managedFields: { type: 'array', items: { type: 'object' }, 'x-kubernetes-list-type': 'atomic' },
  },
};

type ResolveRef = (ref: string) => JsonObject | undefined;

/**
 * Makes the type of a kind's objects. Takes time in proportion to the schema's size: do it once per schema.
 *
 * @param schema of the whole object; without one, the type is deduced from the data.
 * @param resolve for schemas with `$ref`; a reference that it does not find allows any value, treated as atomic.
 */
export function applyTypeOf(
  schema: JsonObject | undefined,
  resolve: ResolveRef = () => undefined,
): ApplyType {
  if (schema === undefined) return schemaless;
  return compilerFor(resolve)(schema, false);
}

function compilerFor(resolve: ResolveRef): (schema: JsonObject, preserves: boolean) => ApplyType {
  /** Keyed by `$ref`: a schema may contain itself. */
  const named = new Map<string, ApplyType>();

  function typeOf(schema: JsonObject, inherited: boolean): ApplyType {
    const ref = refOf(schema);
    if (ref !== undefined) return reference(ref, schema, inherited);
    const preserves = inherited || fieldOf(schema, 'x-kubernetes-preserve-unknown-fields') === true;
    if (fieldOf(schema, 'x-kubernetes-int-or-string') === true) return scalarType('untyped');
    switch (fieldOf(schema, 'type')) {
      case 'object':
        return { scalar: undefined, list: undefined, map: mapOf(schema, preserves) };
      case 'array':
        return { scalar: undefined, list: listType(schema, preserves), map: undefined };
      case 'integer':
      case 'number':
        return scalarType('numeric');
      case 'boolean':
        return scalarType('boolean');
      case 'string': {
        const format = fieldOf(schema, 'format');
        const plain = format === undefined || format === '' || format === 'byte';
        return scalarType(plain ? 'string' : 'untyped');
      }
      default:
        return { scalar: 'untyped', list: listType(schema, preserves), map: mapOf(schema, preserves) };
    }
  }

  function reference(ref: string, schema: JsonObject, preserves: boolean): ApplyType {
    // A quantity can be a string or a number, and the content of a RawExtension is opaque.
    if (/\.(?:Quantity|RawExtension)$/.test(ref)) return scalarType('untyped');
    const mapType = fieldOf(schema, 'x-kubernetes-map-type');
    const name = JSON.stringify([ref, mapType ?? null, preserves]);
    const made = named.get(name);
    if (made !== undefined) return made;
    const target = resolve(ref);
    if (target === undefined || refOf(target) !== undefined) return untyped;
    const type = selfContaining((self) => {
      named.set(name, self);
      return typeOf(
        mapType === undefined ? target : { ...target, 'x-kubernetes-map-type': mapType },
        preserves,
      );
    });
    return type;
  }

  function mapOf(schema: JsonObject, preserves: boolean): MapType {
    const properties = fieldOf(schema, 'properties');
    const fields = new Map<string, ApplyType>();
    if (isObject(properties)) {
      for (const [name, property] of Object.entries(properties)) {
        if (isObject(property)) fields.set(name, field(property, preserves));
      }
    }
    const additional = fieldOf(schema, 'additionalProperties');
    let rest: ApplyType | undefined;
    if (isObject(additional)) rest = field(additional, preserves);
    else if (additional === true) rest = schemaless;
    else if (additional === undefined || additional === null) {
      if (preserves || fields.size === 0) rest = schemaless;
    }
    return { atomic: fieldOf(schema, 'x-kubernetes-map-type') === 'atomic', fields, rest };
  }

  function field(schema: JsonObject, preserves: boolean): ApplyType {
    const embedded = fieldOf(schema, 'x-kubernetes-embedded-resource') === true;
    return embedded ? resource(schema, preserves) : typeOf(schema, preserves);
  }

  function listType(schema: JsonObject, preserves: boolean): ListType {
    const items = fieldOf(schema, 'items');
    if (!isObject(items)) return { relation: 'atomic', keys: [], items: untyped };
    const [relation, names] = relationOf(schema);
    const properties = fieldOf(targetOf(items), 'properties');
    const keys = names.toSorted().map((name) => {
      const property = isObject(properties) ? fieldOf(properties, name) : undefined;
      return { name, default: isObject(property) ? fieldOf(property, 'default') : undefined };
    });
    return { relation, keys, items: field(items, preserves) };
  }

  function targetOf(schema: JsonObject): JsonObject {
    const ref = refOf(schema);
    return ref === undefined ? schema : (resolve(ref) ?? {});
  }

  /** An object with apiVersion, kind and metadata, whether its schema says so or not. */
  function resource(schema: JsonObject, preserves: boolean): ApplyType {
    const type = typeOf(schema, preserves);
    if (type.map === undefined) return type;
    const metadata = type.map.fields.get('metadata');
    const known = metadata?.map?.fields.has('ownerReferences') === true;
    const fields = new Map(type.map.fields)
      .set('apiVersion', scalarType('string'))
      .set('kind', scalarType('string'))
      .set('metadata', known ? metadata : typeOf(objectMeta, false));
    return { ...type, map: { ...type.map, fields } };
  }

  return resource;
}

function scalarType(scalar: Scalar): ApplyType {
  return { scalar, list: undefined, map: undefined };
}

/** The `$ref` of a schema, which is alone, or the only item of an `allOf` beside a default or a description. */
function refOf(schema: JsonObject): string | undefined {
  const ref = fieldOf(schema, '$ref');
  if (typeof ref === 'string') return ref;
  const allOf = fieldOf(schema, 'allOf');
  if (!Array.isArray(allOf) || allOf.length !== 1 || !isObject(allOf[0])) return undefined;
  const inner = fieldOf(allOf[0], '$ref');
  return typeof inner === 'string' ? inner : undefined;
}

function relationOf(schema: JsonObject): [ListType['relation'], readonly string[]] {
  const listType = fieldOf(schema, 'x-kubernetes-list-type');
  const listKeys = fieldOf(schema, 'x-kubernetes-list-map-keys');
  const names = Array.isArray(listKeys) ? listKeys.filter((name) => typeof name === 'string') : [];
  if (listType === 'set') return ['set', []];
  if (listType === 'map') return names.length > 0 ? ['map', names] : ['atomic', []];
  if (listType !== undefined) return ['atomic', []];
  // Types older than `x-kubernetes-list-type` have the keywords of strategic merge patch instead.
  const strategy = fieldOf(schema, 'x-kubernetes-patch-strategy');
  if (strategy !== 'merge' && strategy !== 'merge,retainKeys') return ['atomic', []];
  const mergeKey = fieldOf(schema, 'x-kubernetes-patch-merge-key');
  return typeof mergeKey === 'string' ? ['map', [mergeKey]] : ['set', []];
}

/** The type of a map's field; a field that the schema does not name is treated as data without a schema. */
export function fieldType(map: MapType, name: string): ApplyType {
  return map.fields.get(name) ?? map.rest ?? schemaless;
}

/** The kind as which a value is treated: its own if the type allows that, otherwise the first one that the type allows. */
export function kindIn(type: ApplyType, value: unknown): 'map' | 'list' | 'scalar' {
  if (Array.isArray(value)) {
    if (type.list !== undefined) return 'list';
  } else if (isObject(value)) {
    if (type.map !== undefined) return 'map';
  } else if (value !== null && value !== undefined && type.scalar !== undefined) return 'scalar';
  if (type.map !== undefined) return 'map';
  return type.scalar !== undefined ? 'scalar' : 'list';
}
