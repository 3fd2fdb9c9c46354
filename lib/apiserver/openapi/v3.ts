/** OpenAPI 3.0 documents, one for each version of a group. */
import { refTo } from '../builtin/facts/names.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { answerTypes, type Operation, pathsOf } from './operations.ts';
import type { Parameter } from './parameters.ts';
import { type Definitions, schemasOf } from './schemas.ts';

/** The document about the kinds of one version of a group. `release` is the version of the whole API: `v1.35.0`. */
export function openApiV3(resources: readonly Resource[], shared: Definitions, release: string): JsonObject {
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: release },
    paths: pathsOf(resources, parameterOf, operationOf),
    components: { schemas: Object.fromEntries(schemasOf(resources, shared)) },
  };
}

function operationOf(operation: Operation): JsonObject {
  const { about, tag, id, parameters, body, answer, codes, action, kind, isText } = operation;
  const mediaTypes = answerTypes(operation);
  const content = isText ? textOf(mediaTypes) : contentOf(mediaTypes, answer);
  const response = { description: 'OK', content };
  return {
    description: about,
    tags: [tag],
    operationId: id,
    ...(parameters.length === 0 ? {} : { parameters: parameters.map(parameterOf) }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            content: contentOf(body.mediaTypes, body.schema),
            ...(body.required ? { required: true } : {}),
          },
        }),
    responses: Object.fromEntries(codes.map((code) => [String(code), response])),
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': kind,
  };
}

function contentOf(mediaTypes: readonly string[], schema: string): JsonObject {
  return Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema: { $ref: refTo(schema) } }]));
}

function textOf(mediaTypes: readonly string[]): JsonObject {
  return Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema: { type: 'string' } }]));
}

function parameterOf({ name, in: where, type, about }: Parameter): JsonObject {
  return {
    name,
    in: where,
    description: about,
    ...(where === 'path' ? { required: true } : {}),
    schema: { type, uniqueItems: true },
  };
}
