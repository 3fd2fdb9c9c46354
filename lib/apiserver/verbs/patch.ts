/** PATCH: applies a JSON patch, a merge patch or a strategic merge patch to an existing object; or server-side apply. */
import { applyJsonPatch } from '../../json/json-patch.ts';
import { applyMergePatch } from '../patch/merge-patch.ts';
import type { PatchType } from '../patch/merge-keys.ts';
import { applyStrategicMergePatch } from '../patch/strategic-merge-patch.ts';
import { type ApiError, apiErrors } from '../resources/api-error.ts';
import { jsonText } from '../resources/json-text.ts';
import { readMetadata } from '../resources/metadata-fields.ts';
import { apiVersionOf } from '../resources/resource.ts';
import { type Cause, fieldError } from '../schema/field-error.ts';
import { cloneJson, fieldOf, type JsonObject } from '../../json/json.ts';
import { apply } from './apply.ts';
import type { VerbContext } from './context.ts';
import { updateObject } from './object-update.ts';
import { baseObject, checkName, type CurrentObject } from './object-write.ts';
import { type WriteOptions, writeOptions } from './query.ts';
import { customPatchMediaTypes, type ResourceAnswer, type ResourceRequest } from './request.ts';
import { type SentKind, sentKind, sentObject, type SentObject } from './sent-object.ts';
import { checkSentName } from './update.ts';

export async function patch(context: VerbContext, request: ResourceRequest): Promise<ResourceAnswer> {
  const { name, patchType } = request;
  const how = patcher(request);
  const options = writeOptions(request, 'PatchOptions');
  checkName(name);
  if (patchType === 'application/apply-patch+yaml') return apply(context, request, options);
  const { item } = await updateObject(context, request, options, {
    isTracked: false,
    create: undefined,
    change: (current) => patched(request, options, current, how),
  });
  return { kind: 'item', code: 200, item };
}

type Patcher = (original: JsonObject, body: unknown) => JsonObject;

/** @throws {ApiError} 415 */
function patcher({ resource, subresource, patchType }: ResourceRequest): Patcher {
  switch (patchType) {
    case 'application/json-patch+json':
      return applyJsonPatch;
    case 'application/merge-patch+json':
      return applyMergePatch;
    case 'application/strategic-merge-patch+json': {
      const { patchType: ofObject } = resource.model;
      if (ofObject === undefined) throw unsupported(patchType);
      const type = subresource?.model === undefined ? ofObject : (subresource.model.patchType ?? noMergeKeys);
      return (original, body) => applyStrategicMergePatch(original, body, type);
    }
    case 'application/apply-patch+yaml':
      return (original) => original;
    case undefined:
      throw unsupported('');
  }
}

const noMergeKeys: PatchType = new Map();

function unsupported(sent: string): ApiError {
  return apiErrors.unsupportedMediaType(sent, customPatchMediaTypes);
}

function patched(
  request: ResourceRequest,
  options: WriteOptions,
  current: CurrentObject,
  how: Patcher,
): SentObject {
  const { resource, subresource, body, warnings, patchType } = request;
  // The result may share parts with this object, but not with the request's body.
  const whole = baseObject(request, current);
  const original = subresource === undefined ? whole : subresource.read(whole);
  const result = how(original, cloneJson(body?.value));
  const kind = sentKind(resource, subresource);
  checkSameKind(request, kind, result);
  const refuse = (message: string): ApiError => badResult(result, message);
  const duplicates = body?.duplicates ?? [];
  try {
    readMetadata(fieldOf(result, 'metadata'));
  } catch (error) {
    if (error instanceof TypeError) throw refuse(error.message);
    throw error;
  }
  const sent = sentObject(
    result,
    { ...kind, isCustom: false },
    {
      mode: options.fieldValidation,
      duplicates:
        patchType === 'application/json-patch+json'
          ? duplicates.map((text) => `json patch ${text}`)
          : duplicates,
      warnings,
      refuse,
    },
  );
  checkSentName(request, sent.metadata);
  return sent;
}

/** apiserver `pkg/endpoints/handlers/patch.go`: the message contains the whole result of a patch. */
function badResult(result: JsonObject, message: string): ApiError {
  return apiErrors.invalid({ group: '', kind: '' }, '', [
    fieldError.invalid('patch', jsonText(result), message),
  ]);
}

function checkSameKind({ resource, name }: ResourceRequest, kind: SentKind, result: JsonObject): void {
  const causes: Cause[] = [];
  const expected = { apiVersion: apiVersionOf(kind), kind: kind.kind };
  for (const field of ['apiVersion', 'kind'] as const) {
    const value = fieldOf(result, field) ?? '';
    if (value !== expected[field])
      causes.push(fieldError.invalid(field, value, `must be ${expected[field]}`));
  }
  if (causes.length > 0) throw apiErrors.invalid(resource, name, causes);
}
