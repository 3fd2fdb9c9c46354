/** Server-side apply: PATCH with a configuration, which creates the object if it does not exist. */
import { serverSideApply, type ApplyContext } from '../apply/field-manager.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { Item } from '../resources/item.ts';
import { readMetadata, type Metadata } from '../resources/metadata-fields.ts';
import { apiVersionOf } from '../resources/resource.ts';
import { cloneJson, fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { factsOf, type VerbContext } from './context.ts';
import { createObject } from './create.ts';
import { updateObject } from './object-update.ts';
import { baseObject, type CurrentObject, resetPathsOf } from './object-write.ts';
import type { WriteOptions } from './query.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import { notHandled, sentBody, sentKind, type SentObject } from './sent-object.ts';
import { checkSentName } from './update.ts';

export async function apply(
  context: VerbContext,
  request: ResourceRequest,
  options: WriteOptions,
): Promise<ResourceAnswer> {
  const { subresource, body } = request;
  checkDuplicates(request, options);
  const preconditions = preconditionsOf(request, body?.value);
  const { item, isCreated } = await updateObject(context, request, options, {
    // If the body is of another kind (Scale), the fields that it changes in the object are owned as after an update.
    isTracked: subresource?.model === undefined,
    change: (current) => applied(context, request, options, current, preconditions),
    create: subresource === undefined ? () => created(context, request, options, preconditions) : undefined,
  });
  return { kind: 'item', code: isCreated ? 201 : 200, item };
}

function applied(
  context: VerbContext,
  request: ResourceRequest,
  options: WriteOptions,
  current: CurrentObject,
  preconditions: Metadata,
): SentObject | undefined {
  const { subresource, body } = request;
  const whole = baseObject(request, current);
  const live = subresource?.model === undefined ? whole : subresource.read(whole);
  const result = serverSideApply(
    live,
    cloneJson(body?.value),
    applyContext(context, request, options, whole),
  );
  const sent = known(request, options, result.object);
  return { object: sent.object, metadata: { ...sent.metadata, ...preconditions } };
}

function created(
  context: VerbContext,
  request: ResourceRequest,
  options: WriteOptions,
  preconditions: Metadata,
): Promise<Item> {
  const { resource, name, body } = request;
  const { uid } = preconditions;
  if (uid !== undefined) {
    throw apiErrors.conflict(
      resource,
      name,
      `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`,
    );
  }
  const configuration = cloneJson(body?.value);
  const result = serverSideApply(
    undefined,
    configuration,
    applyContext(context, request, options, undefined),
  );
  const sent = known(request, options, result.object);
  return createObject(
    context,
    request,
    options,
    {
      object: sent.object,
      metadata: { ...sent.metadata, ...preconditions },
    },
    true,
  );
}

function applyContext(
  context: VerbContext,
  { resource, subresource }: ResourceRequest,
  { manager, force }: WriteOptions,
  live: JsonObject | undefined,
): ApplyContext {
  const { apiVersion, resetPaths } = factsOf(resource);
  const type = (subresource?.model ?? resource.model).applyType;
  const base = { type, manager, force, now: new Date(context.clock.wallMs()) };
  if (subresource === undefined) return { ...base, apiVersion, resetFields: resetPaths };
  return {
    ...base,
    apiVersion: subresource.model === undefined ? apiVersion : apiVersionOf(subresource),
    subresource: subresource.name,
    resetFields: subresource.model === undefined && live !== undefined ? resetPathsOf(subresource, live) : [],
  };
}

/** The applied object with defaults. Unknown fields were already refused. */
function known(request: ResourceRequest, options: WriteOptions, object: JsonObject): SentObject {
  const sent = sentBody({ ...request, body: { value: object, duplicates: [] } }, options);
  checkSentName(request, sent.metadata);
  return sent;
}

/** The preconditions in a configuration, which apply itself ignores. */
function preconditionsOf({ resource, subresource }: ResourceRequest, configuration: unknown): Metadata {
  if (!isObject(configuration)) return {};
  try {
    const { resourceVersion, uid } = readMetadata(fieldOf(configuration, 'metadata')).metadata;
    return {
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(uid === undefined ? {} : { uid }),
    };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw notHandled(sentKind(resource, subresource), error.message);
  }
}

function checkDuplicates({ body, warnings }: ResourceRequest, { fieldValidation }: WriteOptions): void {
  const duplicates = body?.duplicates ?? [];
  if (duplicates.length === 0 || fieldValidation === 'Ignore') return;
  if (fieldValidation === 'Strict') {
    throw apiErrors.badRequest(`error strict decoding YAML: ${duplicates.join(', ')}`);
  }
  warnings.push(...duplicates);
}
