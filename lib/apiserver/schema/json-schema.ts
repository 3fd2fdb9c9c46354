/**
 * The schema language of CustomResourceDefinitions (`JSONSchemaProps` of apiextensions.k8s.io/v1), and functions to read
 * it from any JSON.
 */
import { fieldError, type Cause } from './field-error.ts';
import { fieldOf, isObject, jsonType, type JsonObject } from '../../json/json.ts';

/** Fields of every resource, whatever its schema. */
export const metaFields: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

/** An entry of `x-kubernetes-validations`. */
export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: string;
  readonly fieldPath?: string;
  readonly optionalOldSelf?: boolean;
}

/** The types of keyword values, keyed by the name of the shape. */
interface Shapes {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  strings: readonly string[];
  list: readonly unknown[];
  any: unknown;
  schema: JsonSchema;
  schemas: readonly JsonSchema[];
  'schema map': Readonly<Record<string, JsonSchema>>;
  'schema or list': JsonSchema | readonly JsonSchema[];
  'schema or boolean': JsonSchema | boolean;
  object: JsonObject;
  rules: readonly ValidationRule[];
}

type Shape = keyof Shapes;

const keywords = {
  id: 'string',
  $schema: 'string',
  $ref: 'string',
  description: 'string',
  title: 'string',
  type: 'string',
  format: 'string',
  default: 'any',
  example: 'any',
  externalDocs: 'any',
  maximum: 'number',
  exclusiveMaximum: 'boolean',
  minimum: 'number',
  exclusiveMinimum: 'boolean',
  multipleOf: 'number',
  maxLength: 'integer',
  minLength: 'integer',
  pattern: 'string',
  maxItems: 'integer',
  minItems: 'integer',
  uniqueItems: 'boolean',
  maxProperties: 'integer',
  minProperties: 'integer',
  required: 'strings',
  enum: 'list',
  items: 'schema or list',
  allOf: 'schemas',
  oneOf: 'schemas',
  anyOf: 'schemas',
  not: 'schema',
  properties: 'schema map',
  additionalProperties: 'schema or boolean',
  patternProperties: 'schema map',
  additionalItems: 'schema or boolean',
  definitions: 'schema map',
  dependencies: 'object',
  nullable: 'boolean',
  'x-kubernetes-preserve-unknown-fields': 'boolean',
  'x-kubernetes-embedded-resource': 'boolean',
  'x-kubernetes-int-or-string': 'boolean',
  'x-kubernetes-list-type': 'string',
  'x-kubernetes-list-map-keys': 'strings',
  'x-kubernetes-map-type': 'string',
  'x-kubernetes-validations': 'rules',
} as const satisfies Record<string, Shape>;

/**
 * `JSONSchemaProps`. For the keywords, see https://kubernetes.io/docs/reference/kubernetes-api (apiextensions
 * v1).
 */
export type JsonSchema = { readonly [Keyword in keyof typeof keywords]?: Shapes[(typeof keywords)[Keyword]] };

const shapes = new Map<string, Shape>(Object.entries(keywords));

/** The schema in `items`: a structural schema allows only one. */
export function itemsOf(schema: JsonSchema): JsonSchema | undefined {
  return schema.items !== undefined && !Array.isArray(schema.items)
    ? (schema.items as JsonSchema)
    : undefined;
}

export function additionalOf(schema: JsonSchema): JsonSchema | undefined {
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
}

const ruleShapes: Readonly<Record<string, 'string' | 'boolean'>> = {
  rule: 'string',
  message: 'string',
  messageExpression: 'string',
  reason: 'string',
  fieldPath: 'string',
  optionalOldSelf: 'boolean',
};

/** Limit of nesting, since functions recurse over schemas. No real schema is that deep. */
const maxDepth = 500;

/**
 * Checks that a value has the shape of a schema: that each keyword has the right type. A keyword that is null counts as
 * absent; unknown keywords are ignored, because strict field validation reports them.
 *
 * @returns the causes; if it is empty, the value can be cast to {@link JsonSchema}.
 */
export function checkShape(value: unknown, path: string): Cause[] {
  const causes: Cause[] = [];
  schemaShape(value, path, 0, causes);
  return causes;
}

function wrong(value: unknown, path: string, type: string, causes: Cause[]): void {
  causes.push(fieldError.typeInvalid(path, jsonType(value), `must be ${type}`));
}

function schemaShape(value: unknown, path: string, depth: number, causes: Cause[]): void {
  if (causes.length >= 100) return;
  if (!isObject(value)) return wrong(value, path, 'an object', causes);
  if (depth > maxDepth) {
    causes.push(fieldError.forbidden(path, `a schema must not nest deeper than ${maxDepth}`));
    return;
  }
  for (const keyword of Object.keys(value)) {
    const shape = shapes.get(keyword);
    const content = fieldOf(value, keyword);
    if (shape !== undefined && content !== null && content !== undefined) {
      keywordShape(content, shape, `${path}.${keyword}`, depth, causes);
    }
  }
}

function keywordShape(value: unknown, shape: Shape, path: string, depth: number, causes: Cause[]): void {
  switch (shape) {
    case 'any':
      return;
    case 'string':
    case 'boolean':
      if (typeof value !== shape) wrong(value, path, `a ${shape}`, causes);
      return;
    case 'number':
      if (typeof value !== 'number' || !Number.isFinite(value)) wrong(value, path, 'a number', causes);
      return;
    case 'integer':
      if (!Number.isSafeInteger(value)) wrong(value, path, 'an integer', causes);
      return;
    case 'object':
      if (!isObject(value)) wrong(value, path, 'an object', causes);
      return;
    case 'list':
    case 'strings':
      if (!Array.isArray(value)) wrong(value, path, 'an array', causes);
      else if (shape === 'strings') {
        value.forEach((item, index) => keywordShape(item, 'string', `${path}[${index}]`, depth, causes));
      }
      return;
    case 'rules':
      if (!Array.isArray(value)) wrong(value, path, 'an array', causes);
      else value.forEach((rule, index) => ruleShape(rule, `${path}[${index}]`, depth, causes));
      return;
    case 'schema or boolean':
      if (typeof value !== 'boolean') schemaShape(value, path, depth + 1, causes);
      return;
    case 'schema':
      schemaShape(value, path, depth + 1, causes);
      return;
    case 'schema or list':
      if (!Array.isArray(value)) schemaShape(value, path, depth + 1, causes);
      else value.forEach((item, index) => schemaShape(item, `${path}[${index}]`, depth + 1, causes));
      return;
    case 'schemas':
      if (!Array.isArray(value)) wrong(value, path, 'an array', causes);
      else value.forEach((item, index) => schemaShape(item, `${path}[${index}]`, depth + 1, causes));
      return;
    case 'schema map':
      if (!isObject(value)) return wrong(value, path, 'an object', causes);
      for (const name of Object.keys(value)) schemaShape(value[name], `${path}[${name}]`, depth + 1, causes);
  }
}

function ruleShape(value: unknown, path: string, depth: number, causes: Cause[]): void {
  if (!isObject(value)) return wrong(value, path, 'an object', causes);
  for (const [name, shape] of Object.entries(ruleShapes)) {
    const content = fieldOf(value, name);
    if (content !== undefined && content !== null)
      keywordShape(content, shape, `${path}.${name}`, depth, causes);
  }
}

/** A copy of the known keywords that are not null: null counts as absent. Only call after {@link checkShape}. */
export function withoutNulls(schema: JsonSchema): JsonSchema {
  const copy: JsonObject = {};
  for (const [keyword, value] of Object.entries(schema)) {
    const shape = shapes.get(keyword);
    if (value !== null && shape !== undefined) copy[keyword] = withoutNullsIn(value, shape);
  }
  return copy;
}

function withoutNullsIn(value: unknown, shape: Shape): unknown {
  if (shape === 'rules') {
    return (value as JsonObject[]).map((rule) => ({
      rule: '',
      ...Object.fromEntries(Object.entries(rule).filter((entry) => entry[1] !== null)),
    }));
  }
  if (!shape.startsWith('schema') || typeof value === 'boolean') return value;
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item as JsonSchema));
  if (shape !== 'schema map') return withoutNulls(value as JsonSchema);
  const copy: JsonObject = Object.create(null) as JsonObject;
  for (const [name, item] of Object.entries(value as JsonObject))
    copy[name] = withoutNulls(item as JsonSchema);
  return copy;
}
