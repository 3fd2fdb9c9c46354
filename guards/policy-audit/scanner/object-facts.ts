/** The part of each object that a scan keeps in memory. */
import { fieldsOf } from '../../../lib/kube/object/facts.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';

// Defined once: caches are shared only by users of the same function.
export const namespaceOf = ({ metadata }: KubeObject): string[] => [metadata.namespace ?? ''];

/** What is kept: which objects exist, and at which version. Objects are read when they are audited. Caches restore apiVersion and kind. */
export function objectFacts({ metadata }: KubeObject): KubeObject {
  return { metadata: fieldsOf(metadata, ['namespace', 'name', 'uid', 'resourceVersion']) };
}

export function definitionFacts(object: KubeObject): KubeObject {
  return objectFacts(object);
}

export function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _long, ...metadata } = object.metadata;
  return { ...object, metadata };
}

export function splitKey(key: string): readonly [namespace: string, name: string] {
  const slash = key.indexOf('/');
  return slash < 0 ? ['', key] : [key.slice(0, slash), key.slice(slash + 1)];
}
