/**
 * DELETE of one object: removes it at once, or marks it as being deleted while it has finalizers or a grace period
 * (apiserver `pkg/registry/rest/delete.go`, `pkg/registry/generic/registry/store.go`).
 */
import { apiTime } from '../../kube/object/api-time.ts';
import { apiErrors } from '../resources/api-error.ts';
import { Item, storedText } from '../resources/item.ts';
import { foregroundFinalizer, orphanFinalizer } from '../resources/metadata.ts';
import { type Metadata, orderedMetadata } from '../resources/metadata-fields.ts';
import type { Resource } from '../resources/resource.ts';
import { deepEqual, type JsonObject } from '../../json/json.ts';
import { ConflictError, NotFoundError } from '../store/errors.ts';
import { admitAll, askAll } from './admission.ts';
import type { VerbContext } from './context.ts';
import { deleteOptions, type DeleteOptions } from './delete-options.ts';
import { admissionRequest, checkName, type CurrentObject, currentObject, decoded } from './object-write.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import { answerOf } from './failures.ts';
import { listItems } from './list.ts';
import { listOptions } from './list-options.ts';
import { selectionOf } from './selection.ts';

const maxRounds = 50;

type Deletion =
  /** Whether the object was removed or is only marked as being deleted, and its last state. */
  { readonly isGone: boolean; readonly item: Item };

export async function deleteOne(context: VerbContext, request: ResourceRequest): Promise<ResourceAnswer> {
  const options = deleteOptions(request);
  checkName(request.name);
  const { isGone, item } = await deleteObject(context, request, options);
  const { resource, name } = request;
  if (isGone && !returnsObject.has(resource.storeName)) {
    const { group, plural } = resource;
    const { uid } = (item.object['metadata'] ?? {}) as Metadata;
    const details = {
      name,
      ...(group === '' ? {} : { group }),
      kind: plural,
      uid,
    };
    const body = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
    return { kind: 'status', code: 200, body };
  }
  return { kind: 'item', code: !isGone && options.orphanDependents === false ? 202 : 200, item };
}

/** The kinds for which Kubernetes returns the deleted object, not a Status (`ReturnDeletedObject`). */
const returnsObject: ReadonlySet<string> = new Set([
  'persistentvolumeclaims',
  'persistentvolumes',
  'pods',
  'podtemplates',
  'resourcequotas',
  'serviceaccounts',
  'services',
]);

/** @throws {ApiError} and what the store throws. */
export async function deleteObject(
  context: VerbContext,
  request: ResourceRequest,
  options: DeleteOptions,
): Promise<Deletion> {
  const { resource, namespace, name } = request;
  for (let round = 1; ; round++) {
    const current = currentObject(context, request);
    if (current === undefined) throw apiErrors.notFound(resource, name);
    checkPreconditions(resource, current, options);
    const admission = admissionRequest(request, 'DELETE', name, options.dryRun);
    const admitted = admitAll(context.admission, admission, undefined, current.object);
    if (admitted instanceof Promise) await admitted;
    const validated = askAll(context.admission, admission, undefined, current.object);
    if (validated !== undefined) await validated;
    const key = {
      resource: resource.storeName,
      namespace,
      name,
      expectedVersion: current.stored.resourceVersion,
    };
    const marked = markedObject(context, resource, current, options);
    try {
      if (marked === 'pending') return { isGone: false, item: Item.ofStored(resource, current.stored) };
      if (marked === undefined) {
        const stored = options.dryRun ? current.stored : await context.store.delete(key);
        return { isGone: true, item: Item.ofStored(resource, stored) };
      }
      if (options.dryRun) return { isGone: false, item: Item.ofObject(resource, marked) };
      const stored = await context.store.update({ ...key, text: storedText(resource, marked) });
      return { isGone: false, item: Item.ofStored(resource, stored) };
    } catch (error) {
      const isLost = error instanceof ConflictError || error instanceof NotFoundError;
      if (!isLost || round === maxRounds) throw error;
    }
  }
}

function checkPreconditions(
  resource: Resource,
  { metadata, stored }: CurrentObject,
  options: DeleteOptions,
): void {
  const { group, kind } = resource;
  const { name } = stored;
  const uid = metadata.uid ?? '';
  const version = String(stored.resourceVersion);
  const refuse = (why: string) => apiErrors.conflict({ group, kind, plural: kind }, name, why);
  if (options.uid !== undefined && options.uid !== uid) {
    throw refuse(
      `the UID in the precondition (${options.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
    );
  }
  if (options.resourceVersion !== undefined && options.resourceVersion !== version) {
    throw refuse(
      `the ResourceVersion in the precondition (${options.resourceVersion}) does not match the ResourceVersion in record (${version}). The object might have been modified`,
    );
  }
}

/** The object, marked as being deleted; `pending` if it already is, `undefined` if it can be removed. */
function markedObject(
  context: VerbContext,
  resource: Resource,
  current: CurrentObject,
  options: DeleteOptions,
): JsonObject | 'pending' | undefined {
  const { strategy } = resource;
  const { metadata } = current;
  const now = context.clock.wallMs();
  const end = ending(resource, current, options, now);
  if (end === 'pending') return 'pending';
  const finalizers = finalizersOf(metadata, options);
  const hasOwn = strategy.hasOwnFinalizers?.(current.object) === true;
  if (end === undefined && finalizers.length === 0 && !hasOwn) return undefined;
  const { finalizers: _before, resourceVersion: _replaced, ...rest } = metadata;
  const isFirst = metadata.deletionTimestamp === undefined;
  const object = decoded(resource, current.stored);
  object['metadata'] = orderedMetadata({
    ...rest,
    ...(finalizers.length === 0 ? {} : { finalizers }),
    ...(isFirst && metadata.generation !== undefined ? { generation: metadata.generation + 1 } : {}),
    ...(end ?? endedNow(metadata, now, hasOwn)),
  });
  if (hasOwn) strategy.markDeleted?.(object);
  const withVersion = { ...(object['metadata'] as Metadata), resourceVersion: metadata.resourceVersion };
  return deepEqual({ ...object, metadata: withVersion }, current.object) ? 'pending' : object;
}

type Ending = Pick<Metadata, 'deletionGracePeriodSeconds' | 'deletionTimestamp'>;

/** The grace period of an object; `undefined` if it has none, `pending` if one is running and is not shortened. */
function ending(
  { strategy }: Resource,
  { object, metadata }: CurrentObject,
  { gracePeriodSeconds: asked }: DeleteOptions,
  now: number,
): Ending | 'pending' | undefined {
  if (strategy.gracePeriodSeconds === undefined) return undefined;
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata;
  if (deletionTimestamp === undefined) {
    const seconds = strategy.gracePeriodSeconds(object, asked);
    return seconds <= 0 ? undefined : endingIn(now, seconds);
  }
  if (deletionGracePeriodSeconds === 0) return undefined;
  if (asked === undefined || asked >= deletionGracePeriodSeconds) return 'pending';
  const started = Date.parse(deletionTimestamp) - deletionGracePeriodSeconds * 1000;
  return asked === 0 ? undefined : endingIn(started, asked);
}

/** The last second of the year 9999, the latest deletion time: RFC 3339 has years of four digits. */
const lastMs = 253_402_300_799_000;

function endingIn(fromMs: number, seconds: number): Ending {
  return {
    deletionTimestamp: apiTime(Math.min(fromMs + seconds * 1000, lastMs)),
    deletionGracePeriodSeconds: seconds,
  };
}

function endedNow({ deletionTimestamp }: Metadata, now: number, hasOwn: boolean): Ending {
  const isDue = deletionTimestamp !== undefined && Date.parse(deletionTimestamp) <= now;
  return {
    deletionTimestamp: isDue ? deletionTimestamp : apiTime(now),
    // Namespaces do not have this field.
    ...(hasOwn ? {} : { deletionGracePeriodSeconds: 0 }),
  };
}

/** The finalizers, with the garbage collector's finalizer for the requested propagation policy. */
function finalizersOf({ finalizers = [] }: Metadata, options: DeleteOptions): readonly string[] {
  const collector = collectorOf(finalizers, options);
  const others = finalizers.filter((name) => name !== orphanFinalizer && name !== foregroundFinalizer);
  return collector === undefined ? others : [...others, collector];
}

function collectorOf(finalizers: readonly string[], options: DeleteOptions): string | undefined {
  const { orphanDependents, propagationPolicy } = options;
  if (orphanDependents !== undefined) return orphanDependents ? orphanFinalizer : undefined;
  if (propagationPolicy === 'Orphan') return orphanFinalizer;
  if (propagationPolicy === 'Foreground') return foregroundFinalizer;
  if (propagationPolicy === 'Background') return undefined;
  return finalizers.find((name) => name === orphanFinalizer || name === foregroundFinalizer);
}

/** Number of concurrent deletions: enough to fill the commits of the store. */
const atOnce = 64;

export async function deleteCollection(
  context: VerbContext,
  request: ResourceRequest,
): Promise<ResourceAnswer> {
  const listed = listOptions(request);
  const selection = selectionOf(request);
  const options = deleteOptions(request);
  const list = await listItems(context, request, listed, selection);
  const left = list.items.values();
  const failed: unknown[] = [];
  const work = async (): Promise<void> => {
    for (const item of left) {
      if (failed.length > 0) return;
      try {
        await deleteItem(context, request, options, item);
      } catch (error) {
        failed.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, list.items.length) }, work));
  if (failed.length > 0) throw failed[0];
  return { kind: 'list', list };
}

async function deleteItem(
  context: VerbContext,
  request: ResourceRequest,
  options: DeleteOptions,
  { stored }: Item,
): Promise<void> {
  if (stored === undefined) return;
  const { name, namespace } = stored;
  try {
    await deleteObject(context, { ...request, name, namespace }, options);
  } catch (error) {
    const answer = answerOf(error, request.resource, name);
    // Another request deleted the object first.
    if (answer.status.code !== 404) throw answer;
  }
}
