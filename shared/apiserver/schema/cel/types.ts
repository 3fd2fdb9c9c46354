/**
 * The types that rules see (apiserver `pkg/cel/common/schemas.go`): which fields of a schema exist in CEL, of
 * what type, and how large each can get, for the estimate of a rule's cost.
 *
 * @module
 */
import type { SchemaNode } from '../node.ts';
import { escapeName } from './escape.ts';

/** No request is larger: 3 MiB. */
export const maxRequestBytes = 3 * 1024 * 1024;

export type CelKind =
  | 'int'
  | 'double'
  | 'bool'
  | 'string'
  | 'bytes'
  | 'duration'
  | 'timestamp'
  | 'dyn'
  | 'list'
  | 'map'
  | 'object';

export interface CelType {
  readonly kind: CelKind;
  readonly nullable: boolean;
  /** Characters, items or entries at most; what has none of them counts as empty, which makes comparing it free. */
  readonly maxElements: number;
  /** Bytes of the shortest JSON of such a value. */
  readonly minSizeBytes: number;
  /** Items of a list, values of a map. */
  readonly element?: CelType;
  /** Fields of an object by their name in CEL. */
  readonly fields?: ReadonlyMap<string, CelField>;
}

export interface CelField {
  /** The name in JSON. */
  readonly name: string;
  readonly type: CelType;
}

/**
 * The type of a schema in CEL, `undefined` when rules cannot see it: an untyped value that keeps unknown fields.
 *
 * @param resource whether the value is a resource: `apiVersion`, `kind`, `metadata.name` and
 *   `metadata.generateName` are there then, whatever the schema says.
 */
export function celTypeOf(node: SchemaNode, resource = false): CelType | undefined {
  const { schema, nullable } = node;
  if (node.intOrString) {
    const maxElements =
      schema.maxLength === undefined ? maxRequestBytes - 2 : Math.max(0, schema.maxLength) * 4;
    return { kind: 'dyn', nullable, maxElements, minSizeBytes: 1 };
  }
  switch (schema.type ?? '') {
    case 'array':
      return listType(node);
    case 'object':
      return node.additionalAllowed === undefined || resource ? objectType(node, resource) : mapType(node);
    case 'string':
      return stringType(node);
    case 'boolean':
      return { kind: 'bool', nullable, maxElements: 0, minSizeBytes: 4 };
    case 'number':
      return { kind: 'double', nullable, maxElements: 0, minSizeBytes: 1 };
    case 'integer':
      return { kind: 'int', nullable, maxElements: 0, minSizeBytes: 1 };
    default:
      return undefined;
  }
}

function listType(node: SchemaNode): CelType | undefined {
  const element = node.items && celTypeOf(node.items, node.items.embedded);
  if (element === undefined) return undefined;
  const most = Math.floor((maxRequestBytes - 2) / (element.minSizeBytes + 1));
  const maxElements = node.schema.maxItems === undefined ? most : Math.max(0, node.schema.maxItems);
  return { kind: 'list', nullable: node.nullable, maxElements, minSizeBytes: 2, element };
}

function mapType(node: SchemaNode): CelType | undefined {
  const element = node.additional && celTypeOf(node.additional, node.additional.embedded);
  if (element === undefined) return undefined;
  const most = Math.floor((maxRequestBytes - 2) / (element.minSizeBytes + 6));
  const maxElements = node.schema.maxProperties === undefined ? most : Math.max(0, node.schema.maxProperties);
  return { kind: 'map', nullable: node.nullable, maxElements, minSizeBytes: 2, element };
}

const text: CelType = { kind: 'string', nullable: false, maxElements: maxRequestBytes - 2, minSizeBytes: 2 };

const resourceMetadata: CelType = {
  kind: 'object',
  nullable: false,
  maxElements: 0,
  minSizeBytes: 2,
  fields: new Map([
    ['name', { name: 'name', type: text }],
    ['generateName', { name: 'generateName', type: text }],
  ]),
};

function objectType(node: SchemaNode, resource: boolean): CelType {
  const fields = new Map<string, CelField>();
  const required = new Set(node.required);
  let minSizeBytes = 2;
  for (const [name, property] of node.properties) {
    const type = celTypeOf(property, property.embedded);
    if (type === undefined) continue;
    const escaped = escapeName(name);
    if (escaped !== undefined) fields.set(escaped, { name, type });
    if (required.has(name) && property.schema.default === undefined) {
      minSizeBytes += name.length + type.minSizeBytes + 4;
    }
  }
  if (resource) {
    for (const name of ['apiVersion', 'kind']) fields.set(name, { name, type: text });
    fields.set('metadata', { name: 'metadata', type: resourceMetadata });
  }
  return { kind: 'object', nullable: node.nullable, maxElements: 0, minSizeBytes, fields };
}

function stringType(node: SchemaNode): CelType {
  const { maxLength, format } = node.schema;
  const nullable = node.nullable;
  switch (format ?? '') {
    case 'byte': {
      const maxElements = maxLength === undefined ? maxRequestBytes - 2 : Math.max(0, maxLength);
      return { kind: 'bytes', nullable, maxElements, minSizeBytes: 2 };
    }
    case 'duration':
      return { kind: 'duration', nullable, maxElements: 32, minSizeBytes: 3 };
    case 'date':
      return { kind: 'timestamp', nullable, maxElements: 12, minSizeBytes: 12 };
    case 'date-time':
      return { kind: 'timestamp', nullable, maxElements: 32, minSizeBytes: 21 };
    default:
  }
  const longest = node.enumeration?.reduce<number>(
    (most, one) => Math.max(most, typeof one === 'string' ? one.length : 0),
    0,
  );
  // A length counts code points, a request bytes: up to four for one.
  const maxElements = maxLength === undefined ? (longest ?? maxRequestBytes - 2) : Math.max(0, maxLength) * 4;
  return { kind: 'string', nullable, maxElements, minSizeBytes: 2 };
}

/** How often a value can stand in lists and maps without a limit in one request. */
export function maxCardinality(type: CelType): number {
  return Math.floor(maxRequestBytes / (type.minSizeBytes + 1));
}
