/** The part of objects that a scan keeps. */
import { fieldsOf } from '../../../lib/kube/object/facts.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';

// Once: caches are shared between users of the same functions.
export const namespaceOf = ({ metadata }: KubeObject): string[] => [metadata.namespace ?? ''];

/** Which objects exist, at which version; they are read when they are audited. Caches restore apiVersion and kind. */
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
