/**
 * The rules of structural schemas (apiextensions-apiserver `pkg/apiserver/schema/validation.go` and
 * `complete.go`): types are specified outside of allOf, anyOf, oneOf and not, which may only narrow them.
 */
import { fieldError, type Cause } from './field-error.ts';
import { deepEqual } from '../../json/json.ts';
import { additionalOf, itemsOf, type JsonSchema } from './json-schema.ts';
import { Regex, RegexSyntaxError } from '../../regex/regex.ts';

type Level = 'root' | 'item' | 'field';

/** The causes, sorted by field and message. */
export function structuralCauses(schema: JsonSchema, path: string): Cause[] {
  const causes: Cause[] = [];
  invariants(schema, 'root', path, causes);
  valueCompleteness(schema, schema, path, path, causes);
  const line = (cause: Cause): string => `${cause.field}: ${cause.message}`;
  return causes.sort((a, b) => (line(a) < line(b) ? -1 : 1));
}

const typeMissing: Readonly<Record<Level, string>> = {
  root: 'must not be empty at the root',
  item: 'must not be empty for specified array items',
  field: 'must not be empty for specified object fields',
};

const intOrStringTypes: readonly JsonSchema[] = [{ type: 'integer' }, { type: 'string' }];

function invariants(schema: JsonSchema, level: Level, path: string, causes: Cause[]): void {
  const items = itemsOf(schema);
  const additional = additionalOf(schema);
  if (schema.type === 'array' && items === undefined) {
    causes.push(fieldError.required(`${path}.items`, 'must be specified'));
  }
  if (items !== undefined) invariants(items, 'item', `${path}.items`, causes);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    invariants(property, 'field', `${path}.properties[${name}]`, causes);
  }
  if (schema.additionalProperties !== undefined) {
    if (level === 'root') {
      causes.push(fieldError.forbidden(`${path}.additionalProperties`, 'must not be used at the root'));
    }
    if (additional !== undefined) invariants(additional, 'field', `${path}.additionalProperties`, causes);
  }
  extensions(schema, path, causes);
  // A schema with x-kubernetes-int-or-string may repeat its types in `anyOf`, but only directly or in its first `allOf`.
  const skipAnyOf = deepEqual(schema.anyOf, intOrStringTypes);
  const skipFirstAllOf = deepEqual(schema.allOf?.[0]?.anyOf, intOrStringTypes);
  valueRules(schema, skipAnyOf, skipFirstAllOf, path, causes);
  typeRules(schema, level, path, causes);
  if (level === 'root' || schema['x-kubernetes-embedded-resource'] === true)
    resourceRules(schema, path, causes);
  const metadata = schema.properties?.['metadata'];
  if (metadata !== undefined && level === 'root')
    rootMetadata(metadata, `${path}.properties[metadata]`, causes);
}

function extensions(schema: JsonSchema, path: string, causes: Cause[]): void {
  if (schema['x-kubernetes-int-or-string'] !== true) return;
  for (const keyword of ['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-embedded-resource'] as const) {
    if (schema[keyword] !== true) continue;
    const words = 'must be false if x-kubernetes-int-or-string is true';
    causes.push(fieldError.invalid(`${path}.${keyword}`, true, words));
  }
}

function typeRules(schema: JsonSchema, level: Level, path: string, causes: Cause[]): void {
  const type = schema.type ?? '';
  const embedded = schema['x-kubernetes-embedded-resource'] === true;
  const preserves = schema['x-kubernetes-preserve-unknown-fields'] === true;
  if (embedded && type !== 'object') {
    const words = 'must be object if x-kubernetes-embedded-resource is true';
    causes.push(
      type === ''
        ? fieldError.required(`${path}.type`, words)
        : fieldError.invalid(`${path}.type`, type, words),
    );
  } else if (type === '' && schema['x-kubernetes-int-or-string'] !== true && !preserves) {
    causes.push(fieldError.required(`${path}.type`, typeMissing[level]));
  }
  if (embedded && schema.additionalProperties !== undefined) {
    const words = 'must not be used if x-kubernetes-embedded-resource is set';
    causes.push(fieldError.forbidden(`${path}.additionalProperties`, words));
  }
  if (level === 'root' && type !== '' && type !== 'object') {
    causes.push(fieldError.invalid(`${path}.type`, type, 'must be object at the root'));
  }
  if (embedded && !preserves && Object.keys(schema.properties ?? {}).length === 0) {
    const words =
      'must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields';
    causes.push(fieldError.required(`${path}.properties`, words));
  }
}

/** Checks what the schema of a resource specifies for `kind`, `apiVersion` and `metadata`. */
function resourceRules(schema: JsonSchema, path: string, causes: Cause[]): void {
  for (const [name, type] of [
    ['kind', 'string'],
    ['apiVersion', 'string'],
    ['metadata', 'object'],
  ] as const) {
    const property = schema.properties?.[name];
    if (property !== undefined && property.type !== type) {
      causes.push(
        fieldError.invalid(`${path}.properties[${name}].type`, property.type ?? '', `must be ${type}`),
      );
    }
  }
}

function rootMetadata(metadata: JsonSchema, path: string, causes: Cause[]): void {
  const { type: _type, default: _default, properties, ...rest } = metadata;
  const others = Object.keys(properties ?? {}).filter((name) => name !== 'name' && name !== 'generateName');
  const restricts = Object.keys(rest).some((keyword) => keyword !== 'example' && keyword !== 'externalDocs');
  if (others.length === 0 && !restricts) return;
  const words =
    'must not specify anything other than name and generateName, but metadata is implicitly specified';
  causes.push(fieldError.forbidden(path, words));
}

function valueRules(
  schema: JsonSchema,
  skipAnyOf: boolean,
  skipFirstAllOf: boolean,
  path: string,
  causes: Cause[],
): void {
  if (!skipAnyOf)
    schema.anyOf?.forEach((part, index) => nested(part, false, `${path}.anyOf[${index}]`, causes));
  schema.allOf?.forEach((part, index) =>
    nested(part, skipFirstAllOf && index === 0, `${path}.allOf[${index}]`, causes),
  );
  schema.oneOf?.forEach((part, index) => nested(part, false, `${path}.oneOf[${index}]`, causes));
  if (schema.not !== undefined) nested(schema.not, false, `${path}.not`, causes);
  if (!schema.pattern) return;
  try {
    void new Regex(schema.pattern);
  } catch (error) {
    if (!(error instanceof RegexSyntaxError)) throw error;
    const words = `must be a valid regular expression, but isn't: ${error.message}`;
    causes.push(fieldError.invalid(`${path}.pattern`, schema.pattern, words));
  }
}

/** Keywords not allowed inside `allOf`, `anyOf`, `oneOf` and `not`, and the message about each. */
const forbiddenInside: readonly (readonly [keyof JsonSchema, string])[] = [
  ['type', 'must be empty to be structural'],
  ['additionalProperties', 'must be undefined to be structural'],
  ['default', 'must be undefined to be structural'],
  ['title', 'must be empty to be structural'],
  ['description', 'must be empty to be structural'],
  ['nullable', 'must be false to be structural'],
  ['x-kubernetes-preserve-unknown-fields', 'must be false to be structural'],
  ['x-kubernetes-embedded-resource', 'must be false to be structural'],
  ['x-kubernetes-int-or-string', 'must be false to be structural'],
  ['x-kubernetes-list-map-keys', 'must be empty to be structural'],
  ['x-kubernetes-list-type', 'must be undefined to be structural'],
  ['x-kubernetes-map-type', 'must be undefined to be structural'],
  ['x-kubernetes-validations', 'must be empty to be structural'],
];

const isSet = (value: unknown, words: string): boolean => {
  if (words.startsWith('must be undefined')) return value !== undefined;
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
};

function nested(schema: JsonSchema, skipAnyOf: boolean, path: string, causes: Cause[]): void {
  valueRules(schema, skipAnyOf, false, path, causes);
  const items = itemsOf(schema);
  if (items !== undefined) nested(items, false, `${path}.items`, causes);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    nested(property, false, `${path}.properties[${name}]`, causes);
  }
  for (const [keyword, words] of forbiddenInside) {
    if (isSet(schema[keyword], words)) causes.push(fieldError.forbidden(`${path}.${keyword}`, words));
  }
  if (schema.properties?.['metadata'] !== undefined) {
    const words = 'must not be specified in a nested context';
    causes.push(fieldError.forbidden(`${path}.properties[metadata]`, words));
  }
}

/** Everything that is narrowed inside of these keywords has to be specified outside. Kubernetes checks this at the root only. */
function valueCompleteness(
  value: JsonSchema,
  outside: JsonSchema,
  outsidePath: string,
  path: string,
  causes: Cause[],
): void {
  const inside = (part: JsonSchema, at: string): void =>
    nestedCompleteness(part, outside, outsidePath, `${path}.${at}`, causes);
  if (value.not !== undefined) inside(value.not, 'not');
  value.allOf?.forEach((part, index) => inside(part, `allOf[${index}]`));
  value.anyOf?.forEach((part, index) => inside(part, `anyOf[${index}]`));
  value.oneOf?.forEach((part, index) => inside(part, `oneOf[${index}]`));
}

function nestedCompleteness(
  value: JsonSchema,
  outside: JsonSchema | undefined,
  outsidePath: string,
  path: string,
  causes: Cause[],
): void {
  if (outside === undefined) {
    causes.push(fieldError.required(outsidePath, `because it is defined in ${path}`));
    return;
  }
  valueCompleteness(value, outside, outsidePath, path, causes);
  const items = itemsOf(value);
  if (items !== undefined) {
    nestedCompleteness(items, itemsOf(outside), `${outsidePath}.items`, `${path}.items`, causes);
  }
  for (const [name, property] of Object.entries(value.properties ?? {})) {
    const at = `properties[${name}]`;
    const specified = Object.hasOwn(outside.properties ?? {}, name) ? outside.properties?.[name] : undefined;
    nestedCompleteness(property, specified, `${outsidePath}.${at}`, `${path}.${at}`, causes);
  }
}
