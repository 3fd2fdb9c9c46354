/**
 * The rules for a CustomResourceDefinition's schema, besides those for structural schemas (apiextensions-apiserver
 * `pkg/apis/apiextensions/validation/validation.go`, `ValidateCustomResourceDefinitionOpenAPISchema`).
 */
import { checkFieldPath } from './rules/field-path.ts';
import { fieldError, type Cause } from './field-error.ts';
import { additionalOf, itemsOf, type JsonSchema, metaFields, type ValidationRule } from './json-schema.ts';

interface Surroundings {
  readonly root: boolean;
  /** Whether the schema is in apiVersion, kind or metadata of a resource. */
  readonly resourceMeta: boolean;
  /** Why the schema may not have a default; `undefined` if it may. */
  readonly noDefault: string | undefined;
}

/** The causes. If there are any, validation rules are not compiled. */
export function openApiCauses(schema: JsonSchema, path: string): Cause[] {
  const causes: Cause[] = [];
  if (schema.nullable === true) {
    causes.push(fieldError.forbidden(`${path}.nullable`, 'nullable cannot be true at the root'));
  }
  visit(schema, path, { root: true, resourceMeta: false, noDefault: undefined }, causes);
  return causes;
}

const types = ['array', 'boolean', 'integer', 'number', 'object', 'string'];

const notSupported: readonly (readonly [keyof JsonSchema, (schema: JsonSchema) => boolean])[] = [
  ['id', (schema) => Boolean(schema.id)],
  ['additionalItems', (schema) => schema.additionalItems !== undefined],
  ['patternProperties', (schema) => Object.keys(schema.patternProperties ?? {}).length > 0],
  ['definitions', (schema) => Object.keys(schema.definitions ?? {}).length > 0],
  ['dependencies', (schema) => schema.dependencies !== undefined],
  ['$ref', (schema) => schema.$ref !== undefined],
];

function visit(schema: JsonSchema, path: string, around: Surroundings, causes: Cause[]): void {
  keywords(schema, path, around, causes);
  const inside: Surroundings = { ...around, root: false };
  const additional = additionalOf(schema);
  if (schema.additionalProperties !== undefined) {
    if (Object.keys(schema.properties ?? {}).length > 0 && schema.additionalProperties !== true) {
      const words = 'additionalProperties and properties are mutual exclusive';
      causes.push(fieldError.forbidden(`${path}.additionalProperties`, words));
    }
    if (additional !== undefined) {
      const reason = 'inside additionalProperties applying to object metadata';
      const noDefault = around.resourceMeta ? reason : around.noDefault;
      visit(additional, `${path}.additionalProperties`, { ...inside, noDefault }, causes);
    }
  }
  const resource = around.root || schema['x-kubernetes-embedded-resource'] === true;
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const meta = resource && metaFields.has(name);
    const noDefault = meta && around.root ? `in top-level ${name}` : around.noDefault;
    const next = { ...inside, resourceMeta: around.resourceMeta || meta, noDefault };
    visit(property, `${path}.properties[${name}]`, next, causes);
  }
  if (schema.not !== undefined) visit(schema.not, `${path}.not`, inside, causes);
  for (const keyword of ['allOf', 'oneOf', 'anyOf'] as const) {
    schema[keyword]?.forEach((part, index) => visit(part, `${path}.${keyword}[${index}]`, inside, causes));
  }
  const items = itemsOf(schema);
  if (items !== undefined) visit(items, `${path}.items`, inside, causes);
  extensions(schema, items, path, causes);
  schema['x-kubernetes-validations']?.forEach((rule, index) =>
    ruleText(rule, schema, `${path}.x-kubernetes-validations[${index}]`, causes),
  );
}

function keywords(schema: JsonSchema, path: string, around: Surroundings, causes: Cause[]): void {
  if (schema.type && schema.type !== 'null' && !types.includes(schema.type)) {
    causes.push(fieldError.notSupported(`${path}.type`, schema.type, types));
  }
  if (schema.default !== undefined && around.noDefault !== undefined) {
    causes.push(fieldError.forbidden(`${path}.default`, `must not be set ${around.noDefault}`));
  }
  for (const [keyword, used] of notSupported) {
    if (used(schema)) causes.push(fieldError.forbidden(`${path}.${keyword}`, `${keyword} is not supported`));
  }
  if (schema.type === 'null') {
    const words = 'type cannot be set to null, use nullable as an alternative';
    causes.push(fieldError.forbidden(`${path}.type`, words));
  }
  if (Array.isArray(schema.items)) {
    causes.push(fieldError.forbidden(`${path}.items`, 'items must be a schema object and not an array'));
  }
  if (around.resourceMeta && schema['x-kubernetes-embedded-resource'] === true) {
    const field = `${path}.x-kubernetes-embedded-resource`;
    causes.push(fieldError.forbidden(field, 'must not be used inside of resource meta'));
  }
  if (schema.uniqueItems === true) {
    const words = 'uniqueItems cannot be set to true since the runtime complexity becomes quadratic';
    causes.push(fieldError.forbidden(`${path}.uniqueItems`, words));
  }
  if (schema['x-kubernetes-preserve-unknown-fields'] === false) {
    const field = `${path}.x-kubernetes-preserve-unknown-fields`;
    causes.push(fieldError.invalid(field, false, 'must be true or undefined'));
  }
}

function mustHaveType(
  schema: JsonSchema,
  type: string,
  keyword: string,
  path: string,
  causes: Cause[],
): void {
  if (schema.type === type) return;
  const words = `must be ${type} if ${keyword} is specified`;
  causes.push(
    schema.type
      ? fieldError.invalid(`${path}.type`, schema.type, words)
      : fieldError.required(`${path}.type`, words),
  );
}

function extensions(schema: JsonSchema, items: JsonSchema | undefined, path: string, causes: Cause[]): void {
  const mapType = schema['x-kubernetes-map-type'];
  if (mapType !== undefined) {
    mustHaveType(schema, 'object', 'x-kubernetes-map-type', path, causes);
    if (!['atomic', 'granular'].includes(mapType)) {
      causes.push(fieldError.notSupported(`${path}.x-kubernetes-map-type`, mapType, ['atomic', 'granular']));
    }
  }
  const listType = schema['x-kubernetes-list-type'];
  if (listType !== undefined) {
    mustHaveType(schema, 'array', 'x-kubernetes-list-type', path, causes);
    if (schema.type === 'array' && listType === 'set' && items !== undefined) setItems(items, path, causes);
    if (!['atomic', 'set', 'map'].includes(listType)) {
      causes.push(
        fieldError.notSupported(`${path}.x-kubernetes-list-type`, listType, ['atomic', 'set', 'map']),
      );
    }
  }
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  if (keys.length > 0 && listType !== 'map') {
    const field = `${path}.x-kubernetes-list-type`;
    const words = 'must be map if x-kubernetes-list-map-keys is non-empty';
    causes.push(
      listType === undefined ? fieldError.required(field, words) : fieldError.invalid(field, listType, words),
    );
  }
  if (listType === 'map') mapList(schema, items, keys, path, causes);
  if (items?.nullable === true && (listType === 'map' || listType === 'set')) {
    const words = `cannot be nullable when x-kubernetes-list-type is ${listType}`;
    causes.push(fieldError.forbidden(`${path}.items.nullable`, words));
  }
}

/** Items of a set are compared as a whole, so they have to be scalars or atomic. */
function setItems(items: JsonSchema, path: string, causes: Cause[]): void {
  const words = 'must be atomic as item of a list with x-kubernetes-list-type=set';
  const [listType, mapType] = [items['x-kubernetes-list-type'], items['x-kubernetes-map-type']];
  if (items.type === 'array' && listType !== undefined && listType !== 'atomic') {
    causes.push(fieldError.invalid(`${path}.items.x-kubernetes-list-type`, listType, words));
  }
  if (items.type === 'object' && mapType !== 'atomic') {
    causes.push(fieldError.invalid(`${path}.items.x-kubernetes-map-type`, mapType, words));
  }
}

function mapList(
  schema: JsonSchema,
  items: JsonSchema | undefined,
  keys: readonly string[],
  path: string,
  causes: Cause[],
): void {
  const keysField = `${path}.x-kubernetes-list-map-keys`;
  if (keys.length === 0) {
    causes.push(fieldError.required(keysField, 'must not be empty if x-kubernetes-list-type is map'));
  }
  if (schema.items === undefined) {
    const words = 'must have a schema if x-kubernetes-list-type is map';
    causes.push(fieldError.required(`${path}.items`, words));
  }
  if (items === undefined) return;
  if (items.type !== 'object') {
    const words = "must be object if parent array's x-kubernetes-list-type is map";
    causes.push(fieldError.invalid(`${path}.items.type`, items.type ?? '', words));
    return;
  }
  keys.forEach((key, index) => {
    const field = `${path}.items.properties[${key}]`;
    const property = Object.hasOwn(items.properties ?? {}, key) ? items.properties?.[key] : undefined;
    if (keys.indexOf(key) !== index) {
      causes.push(fieldError.invalid(keysField, keys, 'must not contain duplicate entries'));
    }
    if (property === undefined) {
      causes.push(fieldError.invalid(keysField, keys, 'entries must all be names of item properties'));
      return;
    }
    if (property.type === 'array' || property.type === 'object') {
      const words = "must be a scalar type if parent array's x-kubernetes-list-type is map";
      causes.push(fieldError.invalid(`${field}.type`, items.type, words));
    }
    if (!items.required?.includes(key) && property.default === undefined) {
      const words =
        'this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property';
      causes.push(fieldError.required(`${field}.default`, words));
    }
    if (property.nullable === true) {
      const words = 'this property is in x-kubernetes-list-map-keys, so it cannot be nullable';
      causes.push(fieldError.forbidden(`${field}.nullable`, words));
    }
  });
}

const reasons = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired'];
const hasNewline = (text: string): boolean => /[\n\r]/.test(text);

function ruleText(rule: ValidationRule, schema: JsonSchema, path: string, causes: Cause[]): void {
  const [text, message] = [rule.rule.trim(), rule.message?.trim() ?? ''];
  if (text === '') causes.push(fieldError.required(`${path}.rule`, 'rule is not specified'));
  else if (rule.message && message === '') {
    causes.push(fieldError.invalid(`${path}.message`, rule.message, 'must be non-empty if specified'));
  } else if (hasNewline(message)) {
    causes.push(fieldError.invalid(`${path}.message`, rule.message, 'must not contain line breaks'));
  } else if (hasNewline(text) && message === '') {
    const words = 'message must be specified if rule contains line breaks';
    causes.push(fieldError.required(`${path}.message`, words));
  }
  if (rule.messageExpression && rule.messageExpression.trim() === '') {
    const words = 'messageExpression must be non-empty if specified';
    causes.push(fieldError.required(`${path}.messageExpression`, words));
  }
  if (rule.reason !== undefined && !reasons.includes(rule.reason)) {
    causes.push(fieldError.notSupported(`${path}.reason`, rule.reason, reasons));
  }
  if (!rule.fieldPath) return;
  const field = `${path}.fieldPath`;
  if (rule.fieldPath.trim() === '') {
    causes.push(fieldError.invalid(field, rule.fieldPath, 'must be non-empty if specified'));
  }
  if (hasNewline(rule.fieldPath)) {
    causes.push(fieldError.invalid(field, rule.fieldPath, 'must not contain line breaks'));
  }
  if (checkFieldPath(rule.fieldPath, schema) === undefined) {
    causes.push(fieldError.invalid(field, rule.fieldPath, 'must be a valid path'));
  }
}
