/**
 * The common part of PUT and PATCH: reads the object, changes it, validates and stores the result, and starts again if
 * another write came in between.
 */
import { apiErrors } from '../resources/api-error.ts';
import { Item, storedText } from '../resources/item.ts';
import { finalizerWarnings, metadataCauses, metadataUpdateCauses } from '../resources/metadata.ts';
import { type Metadata, orderedMetadata, storedMetadata } from '../resources/metadata-fields.ts';
import { type Resource } from '../resources/resource.ts';
import type { Cause } from '../schema/field-error.ts';
import { deepEqual, fieldOf, type JsonObject } from '../../json/json.ts';
import { ConflictError, NotFoundError } from '../store/errors.ts';
import { admitAll, askAll, changedObject } from './admission.ts';
import { factsOf, type VerbContext } from './context.ts';
import {
  admissionRequest,
  type CurrentObject,
  currentObject,
  kindRules,
  namespaceOf,
  ownersOf,
  refuseInvalid,
  tracked,
} from './object-write.ts';
import { versionCause, versionOf, type WriteOptions } from './query.ts';
import type { ResourceRequest } from './request.ts';
import type { SentObject } from './sent-object.ts';

/** After this many rounds that were lost to other writes, the client gets a conflict. */
const maxRounds = 50;

interface ObjectChange {
  /**
   * Computes the new object; `undefined` to leave it unchanged. Called once per round; the result may share parts with
   * the current object.
   */
  readonly change: (current: CurrentObject) => SentObject | undefined;
  /** Called if the object does not exist; `undefined` if that is an error. */
  readonly create: (() => Promise<Item>) | undefined;
  /** Whether the result of `change` already records who owns which fields. */
  readonly isTracked: boolean;
}

interface Updated {
  readonly item: Item;
  readonly isCreated: boolean;
}

/** @throws {ApiError} and what the store throws. */
export async function updateObject(
  context: VerbContext,
  request: ResourceRequest,
  options: WriteOptions,
  { change, create, isTracked }: ObjectChange,
): Promise<Updated> {
  const { resource, name } = request;
  for (let round = 1; ; round++) {
    const current = currentObject(context, request);
    if (current === undefined) {
      if (create === undefined) throw apiErrors.notFound(resource, name);
      return { item: await create(), isCreated: true };
    }
    const sent = change(current);
    if (sent === undefined) return { item: shown(request, current), isCreated: false };
    try {
      const item = await replace(context, request, options, current, sent, isTracked);
      return { item, isCreated: false };
    } catch (error) {
      const isLost = error instanceof ConflictError || error instanceof NotFoundError;
      if (!isLost || round === maxRounds) throw error;
    }
  }
}

async function replace(
  context: VerbContext,
  request: ResourceRequest,
  options: WriteOptions,
  current: CurrentObject,
  sent: SentObject,
  isTracked: boolean,
): Promise<Item> {
  const { resource, subresource, name, namespace } = request;
  checkSent(request, current, sent.metadata);
  let object = subresource === undefined ? merged(request, current, sent) : written(request, current, sent);
  const admission = admissionRequest(request, 'UPDATE', name, options.dryRun);
  const admitted = admitAll(context.admission, admission, object, current.object);
  const changed = admitted instanceof Promise ? await admitted : admitted;
  if (changed !== undefined) object = changedObject(resource, changed, storedMetadata(object));
  if (subresource === undefined) resource.strategy.prepareForUpdate?.(object, current.object);
  countGeneration(resource, object, current);
  refuseInvalid(resource, name, causesOf(request, object, current));
  const validated = askAll(context.admission, admission, object, current.object);
  if (validated !== undefined) await validated;
  const full = isTracked ? object : tracked(context, resource, subresource, current.object, object, options);
  const { stored } = current;
  const key = { resource: resource.storeName, namespace, name, expectedVersion: stored.resourceVersion };
  if (isFinished(resource, full, current.metadata)) {
    if (!options.dryRun) await context.store.delete(key);
    return shownObject(request, { ...full, metadata: withVersion(full, current) });
  }
  if (isSame(full, current)) return shown(request, current);
  if (options.dryRun) return shownObject(request, { ...full, metadata: withVersion(full, current) });
  const stored_ = await context.store.update({ ...key, text: storedText(resource, full) });
  const item = Item.ofStored(resource, stored_);
  return subresource?.model === undefined ? item : Item.ofObject(resource, subresource.read(item.object));
}

function checkSent(request: ResourceRequest, current: CurrentObject, sent: Metadata): void {
  const { resource, name } = request;
  const sentVersion = sent.resourceVersion ?? '';
  const version = versionOf(sentVersion);
  if (version === undefined) {
    throw apiErrors.invalid(resource, name, [versionCause('metadata.resourceVersion', sentVersion)]);
  }
  if (version === 0n) {
    if (resource.strategy.allowUnconditionalUpdate !== false) return;
    throw apiErrors.invalid({ group: resource.group, kind: resource.plural }, name, [
      {
        reason: 'FieldValueInvalid',
        field: 'metadata.resourceVersion',
        message: 'Invalid value: 0x0: must be specified for an update',
      },
    ]);
  }
  if (version !== current.stored.resourceVersion) throw apiErrors.changed(resource, name);
}

/** The object as sent, with its immutable parts restored. */
function merged(
  request: ResourceRequest,
  { object: old, metadata }: CurrentObject,
  sent: SentObject,
): JsonObject {
  // Makes a new object, because `sent` may be the current one if a patch changes nothing.
  const object = { ...sent.object, metadata: mergedMetadata(request, metadata, sent.metadata) };
  for (const field of factsOf(request.resource).resetFields) {
    const value = fieldOf(old, field);
    if (value === undefined) delete (object as JsonObject)[field];
    else (object as JsonObject)[field] = value;
  }
  return object;
}

/** Metadata as sent, with the fields that only the server sets restored. */
function mergedMetadata(request: ResourceRequest, old: Metadata, meta: Metadata): Metadata {
  return orderedMetadata({
    ...meta,
    resourceVersion: undefined,
    ownerReferences: ownersOf(meta, request.warnings),
    namespace: namespaceOf(request, meta.namespace),
    uid: meta.uid ?? old.uid,
    generation: old.generation,
    creationTimestamp: old.creationTimestamp ?? meta.creationTimestamp,
    deletionTimestamp: old.deletionTimestamp ?? meta.deletionTimestamp,
    deletionGracePeriodSeconds: meta.deletionGracePeriodSeconds ?? old.deletionGracePeriodSeconds,
  });
}

/** The object with the sent fields that the subresource may write. */
function written(
  request: ResourceRequest,
  { object: old, metadata }: CurrentObject,
  sent: SentObject,
): JsonObject {
  const { subresource } = request;
  if (subresource === undefined) throw new TypeError('no subresource');
  const { resourceVersion: _stored, ...kept } = metadata;
  const { keptMetadata } = subresource;
  const object = subresource.write(old, sent.object);
  if (keptMetadata !== undefined) {
    const meta: Metadata = { ...mergedMetadata(request, metadata, sent.metadata) };
    for (const field of keptMetadata) {
      delete meta[field];
      if (metadata[field] !== undefined) Object.assign(meta, { [field]: metadata[field] });
    }
    const whole = { ...object, metadata: orderedMetadata(meta) };
    subresource.fillMetadata?.(whole);
    return whole;
  }
  // In the metadata, it may write only the ownership of fields.
  const { managedFields } = subresource.model === undefined ? sent.metadata : metadata;
  return { ...object, metadata: managedFields === undefined ? kept : { ...kept, managedFields } };
}

function countGeneration(
  resource: Resource,
  object: JsonObject,
  { object: old, metadata: oldMeta }: CurrentObject,
): void {
  const { generation } = oldMeta;
  if (resource.strategy.generation === 'none' || generation === undefined) return;
  if (isSameContent(object, old, factsOf(resource).resetFields)) return;
  object['metadata'] = { ...(object['metadata'] as Metadata), generation: generation + 1 };
}

function isSameContent(object: JsonObject, old: JsonObject, except: ReadonlySet<string>): boolean {
  const counts = (name: string): boolean => name !== 'metadata' && !except.has(name);
  return (
    Object.keys(object).every((name) => !counts(name) || deepEqual(object[name], fieldOf(old, name))) &&
    Object.keys(old).every((name) => !counts(name) || Object.hasOwn(object, name))
  );
}

function causesOf(
  request: ResourceRequest,
  object: JsonObject,
  { object: old, metadata: oldMeta }: CurrentObject,
): Cause[] {
  const { resource, subresource, warnings } = request;
  const { schema } = resource.model;
  const metadata = object['metadata'] as Metadata;
  const metaCauses = (): Cause[] => [
    ...metadataCauses(metadata, kindRules(resource)),
    ...metadataUpdateCauses(metadata, oldMeta),
  ];
  if (subresource !== undefined) {
    return [
      ...(subresource.keptMetadata === undefined ? [] : metaCauses()),
      ...schema.validate(object, old, warnings),
      ...(subresource.validate?.(object, old) ?? []),
    ];
  }
  const { strategy } = resource;
  for (const warning of strategy.warnings?.(object, old) ?? []) warnings.push(warning);
  if (resource.isCustom) warnings.push(...finalizerWarnings(metadata.finalizers, oldMeta.finalizers));
  return [
    ...metaCauses(),
    ...schema.validate(object, old, warnings),
    ...(strategy.validate?.(object, old) ?? []),
  ];
}

/** Whether this removes the last finalizer of an object that is being deleted. */
function isFinished({ strategy }: Resource, object: JsonObject, old: Metadata): boolean {
  const { finalizers } = object['metadata'] as Metadata;
  return (
    old.deletionTimestamp !== undefined &&
    (old.deletionGracePeriodSeconds ?? 0) === 0 &&
    (finalizers ?? []).length === 0 &&
    strategy.hasOwnFinalizers?.(object) !== true
  );
}

const nothing: ReadonlySet<string> = new Set();

function isSame(object: JsonObject, current: CurrentObject): boolean {
  return (
    deepEqual(withVersion(object, current), current.metadata) &&
    isSameContent(object, current.object, nothing)
  );
}

function withVersion(object: JsonObject, { stored }: CurrentObject): Metadata {
  return { ...(object['metadata'] as Metadata), resourceVersion: String(stored.resourceVersion) };
}

/** The answer for an unchanged object. */
function shown(request: ResourceRequest, { stored, object }: CurrentObject): Item {
  const { resource, subresource } = request;
  if (subresource?.model !== undefined) return Item.ofObject(resource, subresource.read(object));
  return Item.ofStored(resource, stored);
}

function shownObject({ resource, subresource }: ResourceRequest, object: JsonObject): Item {
  return Item.ofObject(resource, subresource?.model === undefined ? object : subresource.read(object));
}
