/**
 * The types of values in rules (apiserver `pkg/cel/common/schemas.go`): which fields of a schema exist in CEL, and with
 * which type.
 */
import { escapeName } from '../../../cel/escape.ts';
import type { CelField, CelType } from '../../../cel/types.ts';
import type { SchemaNode } from '../node.ts';

/**
 * The type of a schema in CEL, `undefined` when rules cannot see it: an untyped value that keeps unknown fields.
 *
 * @param resource whether the value is a resource, which always has `apiVersion`, `kind`, `metadata.name` and
 *   `metadata.generateName`, whatever the schema says.
 */
export function celTypeOf(node: SchemaNode, resource = false): CelType | undefined {
  const { schema } = node;
  if (node.intOrString) return { kind: 'dyn' };
  switch (schema.type ?? '') {
    case 'array':
      return holderType('list', node.items);
    case 'object':
      return node.additional === undefined ? objectType(node, resource) : holderType('map', node.additional);
    case 'string':
      return { kind: stringKinds.get(schema.format ?? '') ?? 'string' };
    case 'boolean':
      return { kind: 'bool' };
    case 'number':
      return { kind: 'double' };
    case 'integer':
      return { kind: 'int' };
    default:
      return undefined;
  }
}

/** String formats that have a type of their own in CEL. */
const stringKinds: ReadonlyMap<string, CelType['kind']> = new Map([
  ['byte', 'bytes'],
  ['duration', 'duration'],
  ['date', 'timestamp'],
  ['date-time', 'timestamp'],
] as const);

function holderType(kind: 'list' | 'map', part: SchemaNode | undefined): CelType | undefined {
  const element = part && celTypeOf(part, part.embedded);
  return element && { kind, element };
}

const text: CelType = { kind: 'string' };

const resourceMetadata: CelType = {
  kind: 'object',
  fields: new Map([
    ['name', { name: 'name', type: text }],
    ['generateName', { name: 'generateName', type: text }],
  ]),
};

function objectType(node: SchemaNode, resource: boolean): CelType {
  const fields = new Map<string, CelField>();
  for (const [name, property] of node.properties) {
    const type = celTypeOf(property, property.embedded);
    const escaped = escapeName(name);
    if (type !== undefined && escaped !== undefined) fields.set(escaped, { name, type });
  }
  if (resource) {
    for (const name of ['apiVersion', 'kind']) fields.set(name, { name, type: text });
    fields.set('metadata', { name: 'metadata', type: resourceMetadata });
  }
  return { kind: 'object', fields };
}
