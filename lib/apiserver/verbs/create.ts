/** POST: creates a new object. PUT and apply use it, too, if the object does not exist. */
import { ApiError, apiErrors } from '../resources/api-error.ts';
import { Item, storedText } from '../resources/item.ts';
import { finalizerWarnings, metadataCauses } from '../resources/metadata.ts';
import { type Metadata, orderedMetadata, storedMetadata } from '../resources/metadata-fields.ts';
import { generatedName } from '../resources/object-names.ts';
import type { Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import { AlreadyExistsError } from '../store/errors.ts';
import { admitAll, askAll, changedObject } from './admission.ts';
import { nowText, type VerbContext } from './context.ts';
import {
  admissionRequest,
  currentObject,
  kindRules,
  namespaceOf,
  ownersOf,
  refuseInvalid,
  tracked,
} from './object-write.ts';
import { type WriteOptions, writeOptions } from './query.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import { sentBody, type SentObject } from './sent-object.ts';

/** How many generated names are tried (apiserver `maxNameGenerationCreateAttempts`). */
const maxNameAttempts = 8;

export async function create(context: VerbContext, request: ResourceRequest): Promise<ResourceAnswer> {
  const options = writeOptions(request, 'CreateOptions');
  const sent = sentBody(request, options);
  return { kind: 'item', code: 201, item: await createObject(context, request, options, sent) };
}

/**
 * Stores a new object.
 *
 * @param sent its object is changed.
 * @param isTracked whether its metadata already records who owns which fields, as after an apply.
 * @throws {ApiError}
 */
export async function createObject(
  context: VerbContext,
  request: ResourceRequest,
  options: WriteOptions,
  { object: asked, metadata: sent }: SentObject,
  isTracked = false,
): Promise<Item> {
  const { resource, namespace, warnings } = request;
  if (sent.resourceVersion !== undefined && sent.resourceVersion !== '0') {
    throw apiErrors.badRequest('resourceVersion should not be set on objects to be created');
  }
  let object = asked;
  let metadata = newMetadata(context, request, sent);
  const { name = '', uid = '' } = metadata;
  const isGenerated = sent.name === undefined && name !== '';
  object['metadata'] = metadata;
  const admission = admissionRequest(request, 'CREATE', isGenerated ? '' : name, options.dryRun);
  const admitted = admitAll(context.admission, admission, object, undefined);
  const changed = admitted instanceof Promise ? await admitted : admitted;
  if (changed !== undefined) {
    object = changedObject(resource, changed, metadata);
    metadata = storedMetadata(object);
  }
  prepare(resource, object);
  refuseInvalid(resource, name, [
    ...metadataCauses(metadata, kindRules(resource)),
    ...resource.model.schema.validate(object, undefined, warnings),
    ...(resource.strategy.validate?.(object, undefined) ?? []),
  ]);
  for (const warning of resource.strategy.warnings?.(object, undefined) ?? []) warnings.push(warning);
  if (resource.isCustom) warnings.push(...finalizerWarnings(metadata.finalizers, undefined));
  const validated = askAll(context.admission, admission, object, undefined);
  if (validated !== undefined) await validated;
  let full = isTracked ? object : tracked(context, resource, undefined, undefined, object, options);
  for (let attempt = 1; ; attempt++) {
    const named = (full['metadata'] as Metadata).name ?? '';
    try {
      if (options.dryRun) return dryRun(context, resource, namespace, named, full);
      const key = { resource: resource.storeName, namespace, name: named };
      return Item.ofStored(
        resource,
        await context.store.create({ ...key, uid, text: storedText(resource, full) }),
      );
    } catch (error) {
      if (!(error instanceof AlreadyExistsError)) throw error;
      if (!isGenerated) throw exists(context, { ...request, name: named });
      if (attempt === maxNameAttempts) throw noName(resource, named);
      const other = generatedName(sent.generateName ?? '');
      full = { ...full, metadata: { ...(full['metadata'] as Metadata), name: other } };
    }
  }
}

/** The metadata of a new object: as sent, except for what only the server sets. */
function newMetadata(context: VerbContext, request: ResourceRequest, sent: Metadata): Metadata {
  const { labels, annotations, finalizers, managedFields, generateName } = sent;
  return orderedMetadata({
    labels,
    name: sent.name ?? (generateName === undefined ? undefined : generatedName(generateName)),
    generateName,
    namespace: namespaceOf(request, sent.namespace),
    uid: crypto.randomUUID(),
    generation: request.resource.strategy.generation === 'all' ? 1 : undefined,
    creationTimestamp: nowText(context),
    annotations,
    ownerReferences: ownersOf(sent, request.warnings),
    finalizers,
    managedFields,
  });
}

function prepare({ strategy }: Resource, object: JsonObject): void {
  if (strategy.createKeepsResetFields !== true) {
    for (const field of strategy.resetFields) delete object[field];
  }
  strategy.prepareForCreate?.(object);
}

function dryRun(
  { store }: VerbContext,
  resource: Resource,
  namespace: string,
  name: string,
  object: JsonObject,
): Item {
  const there = store.get(resource.storeName, namespace, name);
  if (there !== undefined) {
    throw new AlreadyExistsError({ resource: resource.storeName, namespace, name });
  }
  return Item.ofObject(resource, object);
}

function exists(context: VerbContext, request: ResourceRequest): ApiError {
  const error = apiErrors.alreadyExists(request.resource, request.name);
  if (currentObject(context, request)?.metadata.deletionTimestamp === undefined) return error;
  return new ApiError({ ...error.status, message: `object is being deleted: ${error.status.message}` });
}

/** apimachinery `pkg/api/errors`, NewGenerateNameConflict */
function noName(resource: Resource, name: string): ApiError {
  const { status } = apiErrors.alreadyExists(resource, name);
  return new ApiError({
    ...status,
    message: `${status.message}, the server was not able to generate a unique name for the object`,
    details: { ...status.details, retryAfterSeconds: 1 },
  });
}
