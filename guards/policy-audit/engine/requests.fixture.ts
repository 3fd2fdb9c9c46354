/** Requests for tests of the engine. */
import type { JsonObject, PolicyRequest } from './evaluator.ts';

/** A pod as a user writes it, with a few fields of each JSON type. */
export function podNamed(name: string, spec: JsonObject = {}): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'shop', labels: { app: 'web' } },
    spec: {
      hostNetwork: false,
      terminationGracePeriodSeconds: 30,
      containers: [{ name: 'web', image: 'registry.example/web:1.2.3', ports: [{ containerPort: 8080 }] }],
      ...spec,
    },
  };
}

/** The creation of an object, unless `more` says something else. */
export function requestFor(object: JsonObject | null, more: Partial<PolicyRequest> = {}): PolicyRequest {
  const metadata = object?.['metadata'] as { name?: string; namespace?: string } | undefined;
  return {
    uid: '9a4b1c3e-0000-4000-8000-000000000001',
    operation: 'CREATE',
    kind: { group: '', version: 'v1', kind: 'Pod' },
    resource: { group: '', version: 'v1', resource: 'pods' },
    ...(metadata?.name !== undefined && { name: metadata.name }),
    ...(metadata?.namespace !== undefined && { namespace: metadata.namespace }),
    object,
    userInfo: { username: 'alice', groups: ['system:authenticated'] },
    ...more,
  };
}
