/** PUT: replaces an object or one of its subresources. */
import { apiErrors } from '../resources/api-error.ts';
import type { Metadata } from '../resources/metadata-fields.ts';
import { cloneJson, type JsonObject } from '../../json/json.ts';
import type { VerbContext } from './context.ts';
import { createObject } from './create.ts';
import { updateObject } from './object-update.ts';
import { checkName } from './object-write.ts';
import { versionOf, writeOptions } from './query.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import { sentBody, type SentObject } from './sent-object.ts';

export async function update(context: VerbContext, request: ResourceRequest): Promise<ResourceAnswer> {
  const options = writeOptions(request, 'UpdateOptions');
  const { resource, subresource, name } = request;
  const sent = sentBody(request, options);
  checkName(name);
  checkSentName(request, sent.metadata);
  // Without a version, the update may be repeated, and each round changes the object that it gets: so each gets a copy.
  const isUnconditional = versionOf(sent.metadata.resourceVersion ?? '') === 0n;
  const { item, isCreated } = await updateObject(context, request, options, {
    isTracked: false,
    change: ({ metadata }) => {
      checkUid(request, sent.metadata, metadata.uid ?? '');
      return isUnconditional ? copied(sent) : sent;
    },
    create:
      subresource === undefined && resource.strategy.allowCreateOnUpdate === true
        ? () => {
            checkUid(request, sent.metadata, '');
            return createObject(context, request, options, copied(sent));
          }
        : undefined,
  });
  return { kind: 'item', code: isCreated ? 201 : 200, item };
}

function copied({ object, metadata }: SentObject): SentObject {
  return { object: cloneJson(object) as JsonObject, metadata };
}

/**
 * Checks that the sent object is the one that the path names (apiserver `pkg/endpoints/handlers/rest.go`, checkName).
 *
 * @throws {ApiError} 400
 */
export function checkSentName({ name, namespace, resource }: ResourceRequest, sent: Metadata): void {
  if (sent.name === undefined) {
    throw apiErrors.badRequest(
      `the name of the object (${name} based on URL) was undeterminable: name must be provided`,
    );
  }
  if (sent.name !== name) {
    throw apiErrors.badRequest(
      `the name of the object (${sent.name}) does not match the name on the URL (${name})`,
    );
  }
  if (resource.namespaced && sent.namespace !== undefined && sent.namespace !== namespace) {
    throw apiErrors.badRequest(
      `the namespace of the object (${sent.namespace}) does not match the namespace on the request (${namespace})`,
    );
  }
}

/** @throws {ApiError} 409 */
function checkUid({ resource, name }: ResourceRequest, { uid }: Metadata, actual: string): void {
  if (uid === undefined || uid === actual) return;
  throw apiErrors.conflict(
    resource,
    name,
    `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${actual}`,
  );
}
