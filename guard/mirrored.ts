/** Identifies mirrored objects, and the user that writes them. */
import { valueAt } from '../lib/json/fields.ts';
import type { JsonObject } from '../lib/json/json.ts';

/** The user name with which the mirror writes. */
export const mirrorUser = 'system:rampart:mirror';

/** An annotation of every mirrored object; for a pod, its value is the id of the sandbox. */
export const mirrorAnnotation = 'rampart.dev/mirror';

/**
 * The pod's uid in the runtime: the API server gives objects their own. The kubelet uses this annotation for
 * its static pods (pkg/kubelet/types, ConfigHashAnnotationKey).
 */
export const runtimeUidAnnotation = 'kubernetes.io/config.hash';

/**
 * An annotation of the Node: the keys of the labels that the configuration gives it, separated by commas. All other labels that are not
 * Rampart's were set by users.
 */
export const nodeLabelsAnnotation = 'rampart.dev/node-labels';

export function isMirrored(object: JsonObject | undefined): boolean {
  return annotationOf(object, mirrorAnnotation) !== undefined;
}

export function annotationOf(object: JsonObject | undefined, name: string): string | undefined {
  const value = valueAt(object, 'metadata', 'annotations', name);
  return typeof value === 'string' ? value : undefined;
}
