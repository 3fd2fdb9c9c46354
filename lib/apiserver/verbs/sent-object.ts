/** Reads an object that a client has sent: checks its kind, reports unknown fields, and fills in defaults. */
import { textAt } from '../../json/fields.ts';
import { apiErrors, type ApiError } from '../resources/api-error.ts';
import { GoTypeError } from '../resources/go-decoding.ts';
import { readMetadata, type Metadata } from '../resources/metadata-fields.ts';
import { apiVersionOf, type Resource, type ResourceModel, type Subresource } from '../resources/resource.ts';
import { unknownFieldMessages } from '../schema/compiled-schema.ts';
import { fieldError } from '../schema/field-error.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { isWithin, maxNesting } from '../../json/bounds.ts';
import type { FieldValidation, WriteOptions } from './query.ts';
import type { ResourceRequest } from './request.ts';

export interface SentKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly isCustom: boolean;
  readonly model: ResourceModel;
}

/** The kind of a request's body: that of the object or, for some subresources, another one. */
export function sentKind(resource: Resource, subresource: Subresource | undefined): SentKind {
  if (subresource?.model === undefined) return resource;
  const { group, version, kind, model } = subresource;
  return { group, version, kind, model, isCustom: false };
}

export interface SentObject {
  /** With defaults and without unknown fields. The caller may change it. */
  readonly object: JsonObject;
  readonly metadata: Metadata;
}

/** How to report fields that are unknown, duplicate or of the wrong type. */
interface FieldReport {
  readonly mode: FieldValidation;
  readonly duplicates: readonly string[];
  readonly warnings: string[];
  /** Makes the answer to fields of the wrong type and, in strict mode, to unknown and duplicate ones. */
  readonly refuse: (message: string) => ApiError;
}

/**
 * Checks the kind of a sent object, fills in defaults, and removes unknown fields.
 *
 * @param value it becomes the result's object, changed in place.
 * @throws {ApiError} 400, 422
 */
export function sentObject(value: unknown, kind: SentKind, report: FieldReport): SentObject {
  const object = objectOf(value, kind);
  checkKind(object, kind);
  let read;
  try {
    read = readMetadata(fieldOf(object, 'metadata'));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw notHandled(kind, error.message);
  }
  const { schema } = kind.model;
  try {
    kind.model.decode?.(object);
  } catch (error) {
    if (!(error instanceof GoTypeError)) throw error;
    throw report.refuse(error.message);
  }
  schema.applyDefaults(object);
  const unknown = [...read.unknown, ...schema.prune(object)];
  if (unknown.length > 0 || report.duplicates.length > 0) reportUnknown(unknown, report);
  return { object, metadata: read.metadata };
}

/**
 * Decodes the body of a request as an object of its kind.
 *
 * @throws {ApiError} 400, 422
 */
export function sentBody(
  { resource, subresource, body, warnings }: ResourceRequest,
  { fieldValidation: mode }: WriteOptions,
): SentObject {
  const kind = sentKind(resource, subresource);
  const refuse = (message: string): ApiError => notHandled(kind, message);
  return sentObject(body?.value, kind, { mode, duplicates: body?.duplicates ?? [], warnings, refuse });
}

function reportUnknown(
  unknown: readonly string[],
  { mode, duplicates, warnings, refuse }: FieldReport,
): void {
  if (mode === 'Ignore') return;
  const messages = [...duplicates, ...unknownFieldMessages(unknown)];
  if (mode === 'Strict') throw refuse(`strict decoding error: ${messages.join(', ')}`);
  for (const message of messages) warnings.push(message);
}

/** The body as an object that can be stored. @throws {ApiError} 400 */
function objectOf(value: unknown, kind: SentKind): JsonObject {
  if (!isObject(value)) {
    const found = value === undefined ? 'EOF' : 'json: cannot unmarshal into an object';
    throw apiErrors.badRequest(
      `the object provided is unrecognized (must be of type ${kind.kind}): couldn't get version/kind; json parse error: ${found}`,
    );
  }
  if (!isWithin(value, maxNesting)) {
    throw apiErrors.badRequest(`the object is nested deeper than ${maxNesting} levels`);
  }
  return value;
}

function checkKind(object: JsonObject, kind: SentKind): void {
  const apiVersion = textOf(object, 'apiVersion', kind);
  const sent = textOf(object, 'kind', kind);
  const expected = apiVersionOf(kind);
  if (sent === kind.kind && apiVersion === expected) return;
  if (!kind.isCustom) {
    // Objects of built-in kinds may omit `kind` and `apiVersion`.
    if (sent !== '' && sent !== kind.kind) {
      throw apiErrors.badRequest(
        `${sent} in version "${versionPart(apiVersion)}" cannot be handled as a ${kind.kind}: no kind "${sent}" is registered for version "${apiVersion}" in ${kind.group === '' ? 'the core group' : kind.group} here`,
      );
    }
    if (apiVersion !== '' && apiVersion !== expected) throw otherVersion(apiVersion, expected);
    object['apiVersion'] = expected;
    object['kind'] = kind.kind;
    return;
  }
  if (sent === '') {
    throw apiErrors.badRequest(
      `the object provided is unrecognized (must be of type ${kind.kind}): Object 'Kind' is missing`,
    );
  }
  if (apiVersion !== expected) throw otherVersion(apiVersion, expected);
  throw apiErrors.invalid(kind, textAt(object, 'metadata', 'name'), [
    fieldError.invalid('kind', sent, `must be ${kind.kind}`),
  ]);
}

function textOf(object: JsonObject, field: 'apiVersion' | 'kind', kind: SentKind): string {
  const value = fieldOf(object, field) ?? '';
  if (typeof value === 'string') return value;
  throw apiErrors.badRequest(
    `the object provided is unrecognized (must be of type ${kind.kind}): couldn't get version/kind; json parse error: json: cannot unmarshal ${typeof value} into Go struct field .${field} of type string`,
  );
}

function versionPart(apiVersion: string): string {
  return apiVersion.slice(apiVersion.indexOf('/') + 1);
}

function otherVersion(sent: string, expected: string): ApiError {
  return apiErrors.badRequest(
    `the API version in the data (${sent}) does not match the expected API version (${expected})`,
  );
}

/** apiserver `pkg/endpoints/handlers/rest.go`, transformDecodeError */
export function notHandled({ kind, version }: SentKind, why: string): ApiError {
  return apiErrors.badRequest(`${kind} in version "${version}" cannot be handled as a ${kind}: ${why}`);
}
