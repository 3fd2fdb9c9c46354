/** Merges the state of the machine into the object of the API. */
import { objectAt, objectsAt } from '../../../lib/json/fields.ts';
import type { JsonObject } from '../../../lib/json/json.ts';
import { apiTime } from '../../../lib/kube/object/api-time.ts';
import { annotationOf, nodeLabelsAnnotation } from '../../../guard/mirrored.ts';
import type { DesiredPod } from './pod-object.ts';

/** The object with its labels, annotations and containers replaced by these. */
export function withMetadata(
  old: JsonObject,
  desired: Pick<DesiredPod, 'annotations' | 'labels'> & { readonly spec?: JsonObject },
): JsonObject {
  const { labels: _labels, annotations: _annotations, ...metadata } = objectAt(old, 'metadata');
  const { labels, annotations, spec } = desired;
  const lists: JsonObject = {};
  if (spec !== undefined) {
    for (const list of ['containers', 'initContainers']) if (list in spec) lists[list] = spec[list];
  }
  return {
    ...old,
    metadata: {
      ...metadata,
      ...(Object.keys(labels).length > 0 && { labels }),
      annotations,
    },
    ...(spec !== undefined && { spec: { ...objectAt(old, 'spec'), ...lists } }),
  };
}

/** Labels that users have given to the Node, without those that the mirror has set from the command line. */
export function labelsOfUsers(node: JsonObject): Readonly<Record<string, string>> {
  const configured = new Set(annotationOf(node, nodeLabelsAnnotation)?.split(','));
  return Object.fromEntries(
    Object.entries(objectAt(node, 'metadata', 'labels')).flatMap(([key, value]) =>
      typeof value === 'string' && !configured.has(key) ? [[key, value]] : [],
    ),
  );
}

/** Fields set by the server, e.g. `qosClass`, stay; a condition keeps its transition time. */
export function mergedStatus(old: JsonObject, status: JsonObject): JsonObject {
  const merged: JsonObject = { ...objectAt(old, 'status') };
  for (const field of ['podIP', 'podIPs', 'initContainerStatuses', 'ephemeralContainerStatuses'])
    delete merged[field];
  const conditionsBefore = objectsAt(old, 'status', 'conditions');
  const now = apiTime(Date.now());
  const conditions = objectsAt(status, 'conditions').map((one) => {
    const same = conditionsBefore.find(({ type }) => type === one['type']);
    const isSame = same !== undefined && same['status'] === one['status'];
    return { ...one, lastTransitionTime: isSame ? same['lastTransitionTime'] : now };
  });
  return { ...merged, ...status, conditions };
}
