/**
 * The OpenAPI 2.0 document about all kinds, for clients that do not use version 3: kubectl before 1.27, and later ones in
 * `kubectl apply` of custom resources.
 */
import { nameOfRef } from '../builtin/facts/names.ts';
import type { Resource } from '../resources/resource.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { answerTypes, type Operation, pathsOf } from './operations.ts';
import type { Parameter } from './parameters.ts';
import { type Definitions, schemasOf } from './schemas.ts';

const definitionPrefix = '#/definitions/';

/** The document about some kinds. @param release see `openApiV3`. */
export function openApiV2(resources: readonly Resource[], shared: Definitions, release: string): JsonObject {
  const paths = pathsOf(resources, parameterOf, operationOf);
  const definitions: JsonObject = {};
  for (const [name, schema] of schemasOf(resources, shared)) definitions[name] = schemaOf(schema);
  return { swagger: '2.0', info: { title: 'Kubernetes', version: release }, paths, definitions };
}

function operationOf(operation: Operation): JsonObject {
  const { about, tag, id, parameters, body, answer, codes, action, kind, isText } = operation;
  const schema = isText ? { type: 'string' } : { $ref: definitionPrefix + answer };
  const response = { description: 'OK', schema };
  return {
    description: about,
    consumes: body?.mediaTypes ?? ['*/*'],
    produces: answerTypes(operation),
    tags: [tag],
    operationId: id,
    parameters: [
      ...(body === undefined
        ? []
        : [
            {
              name: 'body',
              in: 'body',
              ...(body.required ? { required: true } : {}),
              schema: { $ref: definitionPrefix + body.schema },
            },
          ]),
      ...parameters.map(parameterOf),
    ],
    responses: Object.fromEntries(codes.map((code) => [String(code), response])),
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': kind,
  };
}

function parameterOf({ name, in: where, type, about }: Parameter): JsonObject {
  return {
    name,
    in: where,
    description: about,
    ...(where === 'path' ? { required: true } : {}),
    type,
    uniqueItems: true,
  };
}

/** Keywords that mean the same in both versions. */
const copied: readonly string[] = [
  'description',
  'enum',
  'format',
  'maxItems',
  'maxLength',
  'maxProperties',
  'maximum',
  'minItems',
  'minLength',
  'minProperties',
  'minimum',
  'pattern',
  'required',
  'title',
  'uniqueItems',
];

/**
 * A schema in version 2, which has no `oneOf`, `anyOf`, `not` and `nullable`. Omits keywords without an equivalent, and
 * everything that would make kubectl refuse a valid object (apiextensions `pkg/controller/openapi/v2/conversion.go`).
 */
export function schemaOf(schema: JsonObject): JsonObject {
  const result: JsonObject = {};
  for (const name of copied) if (schema[name] !== undefined) result[name] = schema[name];
  for (const [name, value] of Object.entries(schema)) {
    // Only the server evaluates the rules, and they are large.
    if (name.startsWith('x-') && name !== 'x-kubernetes-validations') result[name] = value;
  }
  const reference = referenceOf(schema);
  if (reference !== undefined) return { ...result, $ref: definitionPrefix + reference };
  const isIntOrString = schema['format'] === 'int-or-string' || schema['x-kubernetes-int-or-string'] === true;
  if (isIntOrString) return { ...result, type: 'string', format: 'int-or-string' };
  if (schema['nullable'] === true || schema['x-kubernetes-preserve-unknown-fields'] === true) {
    // If there is a type, kubectl rejects null, and each field that is not in `properties`.
    if (schema['nullable'] !== true && typeof schema['type'] === 'string') result['type'] = schema['type'];
    delete result['required'];
    return result;
  }
  const { type, items, properties, additionalProperties } = schema;
  if (typeof type === 'string') result['type'] = type;
  if (isObject(items)) result['items'] = schemaOf(items);
  if (isObject(properties)) result['properties'] = eachField(properties);
  if (isObject(additionalProperties)) result['additionalProperties'] = schemaOf(additionalProperties);
  else if (additionalProperties === true) result['additionalProperties'] = true;
  return result;
}

function eachField(properties: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => [name, schemaOf(isObject(field) ? field : {})]),
  );
}

function referenceOf({ $ref, allOf }: JsonObject): string | undefined {
  if (typeof $ref === 'string') return nameOfRef($ref);
  if (!Array.isArray(allOf) || allOf.length !== 1) return undefined;
  const [only] = allOf as readonly unknown[];
  return isObject(only) ? referenceOf(only) : undefined;
}
