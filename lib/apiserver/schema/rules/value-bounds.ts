/**
 * The largest and the shortest values that a schema allows, by its bounds or by what fits into one request (apiserver
 * `pkg/cel/common/schemas.go`, `pkg/cel/types.go`, `pkg/cel/limits.go`; apiextensions-apiserver
 * `pkg/apiserver/schema/cel/compilation.go`).
 */
import { escapeName } from '../../../cel/escape.ts';
import type { SchemaNode } from '../node.ts';
import { celTypeOf } from './schema-type.ts';

const maxRequest = 3 * 1024 * 1024;
/** The content of a list, map or string that fills a whole request, without its brackets or quotes. */
const maxContent = maxRequest - 2;

/** Formats with a type of their own: the lengths of the shortest and the longest value in JSON. */
const formats: ReadonlyMap<string, readonly [min: number, max: number]> = new Map([
  ['duration', [3, 32]],
  ['date', [12, 12]],
  ['date-time', [21, 32]],
]);

const atLeastNone = (limit: number): number => Math.max(0, limit);

/** How often a value of at least this many characters can occur in a request. */
export const maxOccurrences = (shortest: number): number => Math.floor(maxRequest / (shortest + 1));

/** The most bytes of a string, items of a list or entries of a map that a schema allows; 0 for other types. */
function largest(node: SchemaNode): number {
  const { maxLength, maxItems, maxProperties, format = '', enum: values } = node.schema;
  // A character can take four bytes.
  if (node.intOrString) return maxLength === undefined ? maxContent : atLeastNone(maxLength) * 4;
  if (node.schema.type === 'array') {
    const shortest = node.items === undefined ? 0 : shortestValue(node.items, node.items.embedded);
    return maxItems === undefined ? Math.floor(maxContent / (shortest + 1)) : atLeastNone(maxItems);
  }
  if (node.schema.type === 'object') {
    if (node.additional === undefined) return 0;
    const shortest = shortestValue(node.additional, node.additional.embedded);
    return maxProperties === undefined ? Math.floor(maxContent / (shortest + 6)) : atLeastNone(maxProperties);
  }
  if (node.schema.type !== 'string') return 0;
  const ofFormat = formats.get(format);
  if (ofFormat !== undefined) return ofFormat[1];
  if (maxLength !== undefined) return atLeastNone(maxLength) * (format === 'byte' ? 1 : 4);
  if (format === 'byte' || values === undefined || values.length === 0) return maxContent;
  return Math.max(0, ...values.map((value) => (typeof value === 'string' ? Buffer.byteLength(value) : 0)));
}

const scalars: ReadonlyMap<string, number> = new Map([
  ['boolean', 4],
  ['number', 1],
  ['integer', 1],
]);

/** The length in JSON of the shortest value of a schema that rules can see. */
export function shortestValue(node: SchemaNode, resource: boolean): number {
  if (node.intOrString) return 1;
  const type = node.schema.type ?? '';
  if (type === 'string') return formats.get(node.schema.format ?? '')?.[0] ?? 2;
  if (type !== 'object' || node.additional !== undefined) return scalars.get(type) ?? 2;
  let size = 2;
  for (const name of new Set(node.required)) {
    const property = node.properties.get(name);
    if (resource && resourceFields.has(name)) size += Buffer.byteLength(name) + 2 + 4;
    else if (property !== undefined && property.schema.default === undefined) {
      // As in Kubernetes, parts that rules cannot see are not counted.
      if (celTypeOf(property, property.embedded) === undefined) continue;
      size += Buffer.byteLength(name) + shortestValue(property, property.embedded) + 4;
    }
  }
  return size;
}

const resourceFields: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

/** The largest size of `apiVersion`, `kind` and fields of `metadata`: their texts count as unbounded. */
function boundOfResource(path: readonly string[]): number | undefined {
  const [first, second, ...rest] = path;
  if (first !== 'metadata') return path.length === 1 ? maxContent : undefined;
  if (second === undefined) return 0;
  return rest.length === 0 && (second === 'name' || second === 'generateName') ? maxContent : undefined;
}

/**
 * The largest size of the values at a path below a schema; `undefined` if there is no such path.
 *
 * @param path field names as in CEL, and `@items`, `@values` or `@keys`
 */
export function boundAt(node: SchemaNode, resource: boolean, path: readonly string[]): number | undefined {
  const [name, ...rest] = path;
  if (name === undefined) return largest(node);
  if (name === '@items' || name === '@values') {
    const part = node.schema.type === 'array' ? node.items : node.additional;
    return part && boundAt(part, part.embedded, rest);
  }
  // Kubernetes counts keys of maps as size 0, so that reading them costs nothing.
  if (name === '@keys') return node.additional !== undefined && rest.length === 0 ? 0 : undefined;
  if (resource && resourceFields.has(name)) return boundOfResource(path);
  if (node.schema.type !== 'object' || node.additional !== undefined) return undefined;
  for (const [field, property] of node.properties) {
    if (field !== name && escapeName(field) !== name) continue;
    const known = celTypeOf(property, property.embedded) !== undefined;
    return known ? boundAt(property, property.embedded, rest) : undefined;
  }
  return undefined;
}
