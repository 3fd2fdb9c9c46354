// CustomResourceDefinitions for tests.
import type { JsonObject } from '../../json/json.ts';

export interface CrdParts {
  readonly group?: string;
  readonly kind?: string;
  readonly plural?: string;
  readonly scope?: string;
  readonly names?: JsonObject;
  readonly metadata?: JsonObject;
  readonly spec?: JsonObject;
}

export const cronTabSchema: JsonObject = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        cronSpec: { type: 'string' },
        image: { type: 'string', default: 'busybox' },
        replicas: { type: 'integer' },
        suspended: { type: 'boolean' },
      },
    },
    status: {
      type: 'object',
      properties: { replicas: { type: 'integer' }, labelSelector: { type: 'string' } },
    },
  },
};

export function version(name: string, schema: unknown = cronTabSchema, more: JsonObject = {}): JsonObject {
  return { name, served: true, storage: true, schema: { openAPIV3Schema: schema }, ...more };
}

/** A CronTab of stable.example.com with these versions. */
export function crd(versions: readonly JsonObject[] = [version('v1')], parts: CrdParts = {}): JsonObject {
  const { group = 'stable.example.com', kind = 'CronTab', plural = 'crontabs', scope = 'Namespaced' } = parts;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, ...parts.metadata },
    spec: { group, scope, names: { plural, kind, ...parts.names }, versions, ...parts.spec },
  };
}

export function cronTab(
  name: string,
  spec: JsonObject = {},
  metadata: JsonObject = {},
  apiVersion = 'v1',
): JsonObject {
  return {
    apiVersion: `stable.example.com/${apiVersion}`,
    kind: 'CronTab',
    metadata: { name, ...metadata },
    spec,
  };
}
