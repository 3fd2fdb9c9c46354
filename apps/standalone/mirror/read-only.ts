/**
 * Refuses what others write to mirrored objects: it would change nothing on the machine, and hide its state. Clients
 * that create a pod are warned that nothing runs it.
 */
import { apiErrors } from '../../../lib/apiserver/resources/api-error.ts';
import { deepEqual, isObject, type JsonObject } from '../../../lib/json/json.ts';
import type { Admission, AdmissionRequest } from '../../../lib/apiserver/verbs/admission.ts';
import { isMirrored, mirrorAnnotation, mirrorUser } from '../../../guard/mirrored.ts';
import { notRun } from './pod-mirror.ts';

const mirroredKinds: ReadonlySet<string> = new Set(['pods', 'nodes']);

/**
 * For the `admission` of the API server. Only the mirror may write mirrored pods and the Node, and their subresources; a namespace that has
 * pods of the machine cannot be deleted.
 *
 * @param hasPods whether the machine currently has pods in a namespace.
 */
export function mirrorReadOnly(hasPods: (namespace: string) => boolean): Admission {
  return {
    admit(request, object, old) {
      const { operation, resource, name, user } = request;
      if (user.name === mirrorUser || resource.group !== '') return;
      if (resource.plural === 'namespaces' && operation === 'DELETE' && hasPods(name)) {
        throw apiErrors.forbidden(
          resource,
          name,
          'it contains pods of this machine: stop them first, with the tool that started them (crictl, the kubelet)',
        );
      }
      if (mirroredKinds.has(resource.plural)) refuse(request, object, old);
      // Not refused, so that policies for pods can be tried.
      if (operation === 'CREATE' && resource.plural === 'pods' && request.subresource === undefined) {
        request.warnings.push(notRun);
      }
    },
  };
}

function refuse(
  { resource, subresource, name }: AdmissionRequest,
  object: JsonObject | undefined,
  old: JsonObject | undefined,
): void {
  if (resource.plural === 'nodes' && subresource === undefined && isSameButLabels(object, old)) return;
  if (isMirrored(old)) {
    const why =
      resource.plural === 'nodes'
        ? 'it represents this machine and is written only by Rampart'
        : 'it mirrors a pod that runs on this machine and is read-only: change or remove the pod with the tool that started it (crictl, the kubelet)';
    throw apiErrors.forbidden(resource, name, why);
  }
  if (isMirrored(object)) {
    throw apiErrors.forbidden(
      resource,
      name,
      `the annotation ${mirrorAnnotation} is reserved for the mirror`,
    );
  }
}

/** Whether users have only changed labels of the Node, which nothing on the machine depends on. */
function isSameButLabels(object: JsonObject | undefined, old: JsonObject | undefined): boolean {
  if (object === undefined || old === undefined) return false;
  return deepEqual(withoutLabels(object), withoutLabels(old));
}

function withoutLabels(object: JsonObject): JsonObject {
  const metadata = isObject(object['metadata']) ? object['metadata'] : {};
  const { labels: _labels, managedFields: _fields, resourceVersion: _version, ...others } = metadata;
  return { ...object, metadata: others };
}
