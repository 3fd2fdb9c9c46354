/** Merges the state of the machine into the object of the API. */
import { isObject, type JsonObject } from '../apiserver/schema/json.ts';
import { apiTime } from '../kube/api-time.ts';
import { annotationOf, nodeLabelsAnnotation } from './mirrored.ts';
import type { DesiredPod } from './pod-object.ts';

/** The object with these labels, annotations and containers in place of its own. */
export function withMetadata(
  old: JsonObject,
  desired: Pick<DesiredPod, 'annotations' | 'labels'> & { readonly spec?: JsonObject },
): JsonObject {
  const {
    labels: _labels,
    annotations: _annotations,
    ...metadata
  } = isObject(old['metadata']) ? old['metadata'] : {};
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
    ...(spec !== undefined && { spec: { ...(isObject(old['spec']) ? old['spec'] : {}), ...lists } }),
  };
}

/** Labels that users have given to the Node, without those that the configuration gave it before. */
export function labelsOfUsers(node: JsonObject): Readonly<Record<string, string>> {
  const { labels } = isObject(node['metadata']) ? node['metadata'] : {};
  const configured = new Set(annotationOf(node, nodeLabelsAnnotation)?.split(','));
  return Object.fromEntries(
    Object.entries(isObject(labels) ? labels : {}).flatMap(([key, value]) =>
      typeof value === 'string' && !configured.has(key) ? [[key, value]] : [],
    ),
  );
}

/** What the server has put there, e.g. `qosClass`, stays; a condition keeps the time at which it became so. */
export function mergedStatus(old: JsonObject, status: JsonObject): JsonObject {
  const before = isObject(old['status']) ? old['status'] : {};
  const merged: JsonObject = { ...before };
  for (const field of ['podIP', 'podIPs', 'initContainerStatuses', 'ephemeralContainerStatuses'])
    delete merged[field];
  const conditionsBefore = objects(before['conditions']);
  const now = apiTime(Date.now());
  const conditions = objects(status['conditions']).map((one) => {
    const same = conditionsBefore.find(({ type }) => type === one['type']);
    const isSame = same !== undefined && same['status'] === one['status'];
    return { ...one, lastTransitionTime: isSame ? same['lastTransitionTime'] : now };
  });
  return { ...merged, ...status, conditions };
}

function objects(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
