/** Validation of the schemas of a CustomResourceDefinition and of the fields that depend on them. */
import { compileSchema, InvalidSchemaError } from '../schema/compiled-schema.ts';
import { checkFieldPath } from '../schema/rules/field-path.ts';
import { fieldError, type Cause } from '../schema/field-error.ts';
import { checkShape, withoutNulls } from '../schema/json-schema.ts';
import { fieldOf, type JsonObject } from '../../json/json.ts';

/** The keywords allowed at the root of a schema if `status` is a subresource, and how the error message names each. */
const rootKeywords: Readonly<Record<string, string>> = {
  description: 'Description',
  type: 'Type',
  format: 'Format',
  title: 'Title',
  maximum: 'Maximum',
  exclusiveMaximum: 'ExclusiveMaximum',
  minimum: 'Minimum',
  exclusiveMinimum: 'ExclusiveMinimum',
  maxLength: 'MaxLength',
  minLength: 'MinLength',
  pattern: 'Pattern',
  maxItems: 'MaxItems',
  minItems: 'MinItems',
  uniqueItems: 'UniqueItems',
  multipleOf: 'MultipleOf',
  required: 'Required',
  items: 'Items',
  properties: 'Properties',
  externalDocs: 'ExternalDocs',
  example: 'Example',
  'x-kubernetes-preserve-unknown-fields': 'XPreserveUnknownFields',
  'x-kubernetes-validations': 'XValidations',
};

/**
 * @param schema `openAPIV3Schema`
 * @param path of the schema in messages: `spec.validation`, `spec.versions[1].schema`
 * @param known whether the stored definition has the same schema.
 */
export function schemaCauses(
  schema: JsonObject,
  path: string,
  statusEnabled: boolean,
  known: boolean,
): Cause[] {
  const causes = statusEnabled ? rootCauses(schema, path) : [];
  try {
    compileSchema(schema, { path: `${path}.openAPIV3Schema`, known });
  } catch (error) {
    if (!(error instanceof InvalidSchemaError)) throw error;
    causes.push(...error.causes);
  }
  return causes;
}

function rootCauses(schema: JsonObject, path: string): Cause[] {
  const type = fieldOf(schema, 'type');
  if (typeof type === 'string' && type !== '' && type !== 'object') {
    const why =
      'only "object" is allowed as the type at the root of the schema if the status subresource is enabled';
    return [fieldError.invalid(`${path}.openAPIV3Schema.type`, type, why)];
  }
  const other = Object.keys(schema).some((name) => !Object.hasOwn(rootKeywords, name) && isSet(schema[name]));
  if (!other) return [];
  const allowed = Object.values(rootKeywords).join(' ');
  const why = `only [${allowed}] fields are allowed at the root of the schema if the status subresource is enabled`;
  return [fieldError.invalid(`${path}.openAPIV3Schema`, schema, why)];
}

/** A keyword with an empty value counts as absent. */
function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return false;
  return !Array.isArray(value) || value.length > 0;
}

const maxSelectableFields = 8;

/** @param path `spec.selectableFields`, or that of a version */
export function selectableFieldCauses(
  fields: readonly JsonObject[],
  schema: JsonObject,
  path: string,
): Cause[] {
  // A malformed schema is reported by `schemaCauses`.
  if (checkShape(schema, '').length > 0) return [];
  const root = withoutNulls(schema);
  const causes: Cause[] = [];
  const seen = new Set<string>();
  fields.forEach((field, index) => {
    const at = `${path}[${index}].jsonPath`;
    const jsonPath = fieldOf(field, 'jsonPath');
    if (typeof jsonPath !== 'string' || jsonPath === '') {
      causes.push(fieldError.required(at));
      return;
    }
    const found = jsonPath.includes('[') ? undefined : checkFieldPath(jsonPath, root);
    if (found === undefined) {
      causes.push(fieldError.invalid(at, jsonPath, 'is an invalid path: does not refer to a valid field'));
      return;
    }
    if (found.path === 'metadata' || found.path.startsWith('metadata.')) {
      causes.push(fieldError.invalid(at, jsonPath, 'must not point to fields in metadata'));
    }
    if (!['string', 'boolean', 'integer'].includes(found.schema.type ?? '')) {
      const why =
        'must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.';
      causes.push(fieldError.invalid(at, jsonPath, why));
    }
    if (seen.has(found.path)) causes.push(fieldError.duplicate(at, jsonPath));
    seen.add(found.path);
  });
  if (seen.size > maxSelectableFields) {
    causes.push(fieldError.tooMany(path, seen.size, maxSelectableFields));
  }
  return causes;
}
