/** Steps that are common to all writes. */
import { trackUpdate } from '../apply/field-manager.ts';
import { apiErrors } from '../resources/api-error.ts';
import { type metadataCauses, withoutRepeatedOwners } from '../resources/metadata.ts';
import { type Metadata, storedMetadata } from '../resources/metadata-fields.ts';
import { pathSegmentProblems } from '../resources/object-names.ts';
import { parseJson } from '../resources/json-text.ts';
import type { Resource, Subresource } from '../resources/resource.ts';
import { type Cause, eachRequiredOnce } from '../schema/field-error.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import type { StoredObject } from '../store/object.ts';
import type { AdmissionRequest } from './admission.ts';
import { factsOf, type VerbContext } from './context.ts';
import type { WriteOptions } from './query.ts';
import type { ResourceRequest } from './request.ts';

/** An object as stored, and in the form of this version of its kind. Not shared: the caller may change it. */
export interface CurrentObject {
  readonly stored: StoredObject;
  readonly object: JsonObject;
  readonly metadata: Metadata;
}

export function currentObject(context: VerbContext, request: ResourceRequest): CurrentObject | undefined {
  const { resource, namespace, name } = request;
  const stored = context.store.get(resource.storeName, namespace, name);
  return stored === undefined ? undefined : opened(resource, stored);
}

export function opened(resource: Resource, stored: StoredObject): CurrentObject {
  const object = decoded(resource, stored);
  return { stored, object, metadata: storedMetadata(object) };
}

/** Returns a new object on each call. */
export function decoded(resource: Resource, stored: StoredObject): JsonObject {
  const object = parseJson(stored.text);
  if (!isObject(object)) throw new TypeError('stored JSON that is no object');
  const { codec } = resource;
  if (codec === undefined || codec.showsAsStored?.(stored) === true) return object;
  return codec.decode(object);
}

/**
 * The object from which a patch makes the new one. Usually it is the current object itself: defaulting and pruning do not
 * change the parts that both share. Only for a strategy that prepares objects in place is it a copy.
 */
export function baseObject({ resource, subresource }: ResourceRequest, current: CurrentObject): JsonObject {
  const isPrepared = subresource === undefined && resource.strategy.prepareForUpdate !== undefined;
  return isPrepared ? decoded(resource, current.stored) : current.object;
}

/** @throws {ApiError} 400 for a name that is invalid in a path. */
export function checkName(name: string): void {
  if (!/[/%]/.test(name) && name !== '.' && name !== '..') return;
  const problems = pathSegmentProblems(name).join(';');
  throw apiErrors.badRequest(`Name parameter invalid: ${JSON.stringify(name)}: ${problems}`);
}

/** The namespace from the object's metadata and the request (apiserver `pkg/registry/rest/meta.go`). @throws {ApiError} 400 */
export function namespaceOf(
  { resource, namespace }: ResourceRequest,
  sent: string | undefined,
): string | undefined {
  if (!resource.namespaced) return undefined;
  if (sent === undefined || sent === namespace) return namespace === '' ? undefined : namespace;
  throw apiErrors.badRequest(
    'the namespace of the provided object does not match the namespace sent on the request',
  );
}

export function tracked(
  context: VerbContext,
  resource: Resource,
  subresource: Subresource | undefined,
  old: JsonObject | undefined,
  object: JsonObject,
  { manager }: WriteOptions,
): JsonObject {
  const { apiVersion, resetPaths } = factsOf(resource);
  return trackUpdate(old, object, {
    type: resource.model.applyType,
    manager,
    apiVersion,
    now: new Date(context.clock.wallMs()),
    ...(subresource === undefined
      ? { resetFields: resetPaths }
      : {
          subresource: subresource.name,
          resetFields: resetPathsOf(subresource, object),
        }),
  });
}

/** The paths that a subresource does not write. */
export function resetPathsOf(
  { resetFields, keptMetadata = [] }: Subresource,
  object: JsonObject,
): string[][] {
  return [...resetFields(object).map((name) => [name]), ...keptMetadata.map((field) => ['metadata', field])];
}

/** @throws {ApiError} 422 if there are causes. */
export function refuseInvalid(resource: Resource, name: string, causes: readonly Cause[]): void {
  if (causes.length > 0) throw apiErrors.invalid(resource, name, eachRequiredOnce(causes));
}

/** The owners without duplicates. Adds a warning if there were some. */
export function ownersOf({ ownerReferences }: Metadata, warnings: string[]): Metadata['ownerReferences'] {
  if (ownerReferences === undefined) return undefined;
  const { owners, uids } = withoutRepeatedOwners(ownerReferences);
  if (uids.length > 0) {
    warnings.push(
      `.metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: [${uids.join(' ')}]`,
    );
  }
  return owners;
}

export function admissionRequest(
  request: ResourceRequest,
  operation: AdmissionRequest['operation'],
  name: string,
  dryRun: boolean,
): AdmissionRequest {
  const { resource, subresource, namespace, user, warnings } = request;
  return { operation, resource, subresource, namespace, name, user, dryRun, warnings };
}

/**
 * Groups whose kinds may have any finalizer, like custom kinds: they are validated by apimachinery's `pkg/api/validation`
 * instead of kubernetes `pkg/apis/core/validation`.
 */
const groupsOfAnyFinalizer: ReadonlySet<string> = new Set([
  'apiextensions.k8s.io',
  'admissionregistration.k8s.io',
]);

export function kindRules({
  group,
  namespaced,
  strategy,
  isCustom,
}: Resource): Parameters<typeof metadataCauses>[1] {
  const anyFinalizer = isCustom || groupsOfAnyFinalizer.has(group);
  return { namespaced, nameRule: strategy.nameRule, anyFinalizer };
}
