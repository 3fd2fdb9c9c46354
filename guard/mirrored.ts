/** The identity of a mirrored object, and its writer. */
import { valueAt } from '../lib/json/fields.ts';
import type { JsonObject } from '../lib/json/json.ts';

/** The user name with which the mirror writes. */
export const mirrorUser = 'system:rampart:mirror';

/** On each object of the mirror; of a pod, the id of its sandbox. */
export const mirrorAnnotation = 'rampart.dev/mirror';

/**
 * The pod's uid in the runtime: the API server gives objects their own. The kubelet uses this annotation for
 * its static pods (pkg/kubelet/types, ConfigHashAnnotationKey).
 */
export const runtimeUidAnnotation = 'kubernetes.io/config.hash';

/** On the Node: the keys of the labels that the configuration gives it, by commas. All others that are not ours are of users. */
export const nodeLabelsAnnotation = 'rampart.dev/node-labels';

export function isMirrored(object: JsonObject | undefined): boolean {
  return annotationOf(object, mirrorAnnotation) !== undefined;
}

export function annotationOf(object: JsonObject | undefined, name: string): string | undefined {
  const value = valueAt(object, 'metadata', 'annotations', name);
  return typeof value === 'string' ? value : undefined;
}
