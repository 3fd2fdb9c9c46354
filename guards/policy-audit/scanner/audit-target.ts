/** The input that an audit passes to policies. */
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import type { MatchTarget } from '../policies/match.ts';
import type { ServedKind } from './served-kinds.ts';

/**
 * An object as if it were being created.
 *
 * @param labelsOf - Returns the labels of a Namespace, if it is known.
 */
export function auditTarget(
  { key, type, versions }: ServedKind,
  { metadata }: KubeObject,
  labelsOf: (namespace: string) => Readonly<Record<string, string>> | undefined,
): MatchTarget {
  const { namespace = '', name = '', labels = {} } = metadata;
  const isNamespace = key === 'namespaces';
  return {
    operation: 'CREATE',
    group: type.group,
    version: type.version,
    resource: type.plural,
    subresource: '',
    isNamespaced: type.namespaced,
    namespace: isNamespace ? name : namespace,
    name,
    equivalents: versions.slice(1),
    anyVersion: true,
    labels,
    oldLabels: undefined,
    namespaceLabels: isNamespace ? labels : type.namespaced ? (labelsOf(namespace) ?? {}) : undefined,
  };
}
