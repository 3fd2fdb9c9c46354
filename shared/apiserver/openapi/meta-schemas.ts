/** Schemas that every document needs, in case no served kind provides them. */
import type { JsonObject } from '../schema/json.ts';
import {
  deleteOptionsName,
  listMetaName,
  metaName,
  objectMetaName,
  patchName,
  statusName,
} from './operations.ts';

const text = { type: 'string' };
const whole = { type: 'integer', format: 'int64' };
const texts = { type: 'object', additionalProperties: text };
const type = { apiVersion: text, kind: text };

export const metaSchemas: ReadonlyMap<string, JsonObject> = new Map<string, JsonObject>([
  [patchName, { type: 'object', description: 'A patch; what it consists of depends on its media type.' }],
  [
    objectMetaName,
    {
      type: 'object',
      description: 'Metadata of an object.',
      properties: {
        annotations: texts,
        creationTimestamp: { type: 'string', format: 'date-time' },
        deletionGracePeriodSeconds: whole,
        deletionTimestamp: { type: 'string', format: 'date-time' },
        finalizers: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
        generateName: text,
        generation: whole,
        labels: texts,
        managedFields: { type: 'array', items: { type: 'object' } },
        name: text,
        namespace: text,
        ownerReferences: { type: 'array', items: { type: 'object' } },
        resourceVersion: text,
        selfLink: text,
        uid: text,
      },
    },
  ],
  [
    listMetaName,
    {
      type: 'object',
      description: 'Metadata of a list.',
      properties: { continue: text, remainingItemCount: whole, resourceVersion: text, selfLink: text },
    },
  ],
  [
    deleteOptionsName,
    {
      type: 'object',
      description: 'Options for deletion.',
      properties: {
        ...type,
        dryRun: { type: 'array', items: text },
        gracePeriodSeconds: whole,
        orphanDependents: { type: 'boolean' },
        preconditions: { type: 'object', properties: { resourceVersion: text, uid: text } },
        propagationPolicy: text,
      },
      'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'DeleteOptions' }],
    },
  ],
  [
    statusName,
    {
      type: 'object',
      description: 'The outcome of a request.',
      properties: {
        ...type,
        metadata: { allOf: [{ $ref: `#/components/schemas/${metaName}.ListMeta` }] },
        status: text,
        message: text,
        reason: text,
        details: { type: 'object' },
        code: { type: 'integer', format: 'int32' },
      },
      'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'Status' }],
    },
  ],
]);
