/** Finalizers: an object that has one stays, marked as deleted, until its controller has cleaned up. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { KubeClient } from '../client/client.ts';
import { isConflict, isNotFound, orUndefined } from '../client/client-errors.ts';
import { describeTarget, type KubeObject, type ResourceType, scopedAs } from '../object/object.ts';
import { eachOf } from '../../time/each-of.ts';

interface FinalizerOptions {
  readonly signal: AbortSignal;
  readonly fieldManager?: string;
}

/** Whether deletion of this object was requested: the API removes it when its finalizers are gone. */
export function isDeleting({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** Whether it has the finalizer, or one of several. */
export function hasFinalizer({ metadata }: KubeObject, finalizer: string | readonly string[]): boolean {
  return metadata.finalizers?.some((one) => isOf(one, finalizer)) === true;
}

function isOf(one: string, finalizer: string | readonly string[]): boolean {
  return typeof finalizer === 'string' ? one === finalizer : finalizer.includes(one);
}

/** How often an object is read again if others change it at the same time. */
const TRIES = 5;

/**
 * Adds a finalizer to the stored object; nothing is sent if the object has it already. Other finalizers are kept,
 * even those added since `object` was read: the patch is bound to its version, and tried again with a newer
 * one.
 *
 * @returns the stored object.
 * @throws {RampartError} `CONFLICT` when the object is being deleted (the API accepts no new finalizers then),
 *   when another of the same name has taken its place, or after 5 tries; {@link isNotFound} when it is gone; else what
 *   the client throws.
 */
export async function addFinalizer<T extends KubeObject>(
  client: KubeClient,
  type: ResourceType<T>,
  object: T,
  finalizer: string,
  options: FinalizerOptions,
): Promise<T> {
  return changeFinalizers(client, type, object, options, (current) => {
    if (hasFinalizer(current, finalizer)) return undefined;
    if (isDeleting(current)) throw conflict('add', finalizer, type, object, 'it is being deleted');
    return [...(current.metadata.finalizers ?? []), finalizer];
  }).catch((error: unknown) => {
    throw error === REPLACED ? conflict('add', finalizer, type, object, 'it was replaced') : error;
  });
}

/**
 * Removes a finalizer, or several, from the stored object; nothing is sent if it has none of them. Otherwise like
 * {@link addFinalizer}.
 *
 * @returns the stored object, or `undefined` when it is gone or was replaced. The returned object may be gone
 *   already too, if this was its last finalizer.
 */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  type: ResourceType<T>,
  object: T,
  finalizer: string | readonly string[],
  options: FinalizerOptions,
): Promise<T | undefined> {
  try {
    return await changeFinalizers(client, type, object, options, (current) =>
      hasFinalizer(current, finalizer)
        ? (current.metadata.finalizers ?? []).filter((one) => !isOf(one, finalizer))
        : undefined,
    );
  } catch (error) {
    if (error === REPLACED || isNotFound(error)) return undefined;
    throw error;
  }
}

interface ReleaseOptions extends FinalizerOptions {
  readonly labelSelector?: string | undefined;
  /** Which of the objects to release. Default: all. */
  readonly includes?: ((object: KubeObject) => boolean) | undefined;
  readonly onReleased: (object: KubeObject) => void;
}

/** How many objects are written at the same time. */
const PARALLEL = 16;

/**
 * Removes finalizers from all objects of a kind that have them, even if one fails; does nothing for a kind that
 * is not served.
 *
 * @throws the first error
 */
export async function releaseAll(
  client: KubeClient,
  type: ResourceType,
  finalizers: readonly string[],
  { signal, labelSelector, includes, onReleased }: ReleaseOptions,
): Promise<void> {
  const list = await orUndefined(client.list(type, {}, { labelSelector, signal }));
  const held = (list?.items ?? []).filter(
    (object) => hasFinalizer(object, finalizers) && includes?.(object) !== false,
  );
  const failures: unknown[] = [];
  await eachOf(held, PARALLEL, async (object) => {
    try {
      await removeFinalizer(client, scopedAs(type, object), object, finalizers, { signal });
      onReleased(object);
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  });
  if (failures.length > 0) throw failures[0];
}

/** Thrown between the functions of this file only. */
const REPLACED = new RampartError(errorCodes.CONFLICT, { what: 'it was replaced by another object' });

async function changeFinalizers<T extends KubeObject>(
  client: KubeClient,
  type: ResourceType<T>,
  object: T,
  { signal, fieldManager }: FinalizerOptions,
  change: (current: T) => string[] | undefined,
): Promise<T> {
  const { namespace, name = '', uid } = object.metadata;
  const target = { namespace, name };
  // The patch needs a resourceVersion: without one, it would apply to any version of the object.
  const first =
    object.metadata.resourceVersion === undefined ? await client.get(type, target, { signal }) : object;
  for (let current = first, tries = 1; ; tries++) {
    if (uid !== undefined && current.metadata.uid !== uid) throw REPLACED;
    const finalizers = change(current);
    if (finalizers === undefined) return current;
    try {
      // A merge patch replaces the list as a whole. If it contains a version, and the object has changed since, the
      // API server refuses it with 409; a failed `test` of a JSON patch gives 422, the same as an invalid patch.
      const { resourceVersion } = current.metadata;
      const metadata = { finalizers, resourceVersion, uid: current.metadata.uid };
      return await client.patch(
        type,
        target,
        { type: 'merge', body: { metadata } },
        { signal, fieldManager },
      );
    } catch (error) {
      if (!isConflict(error) || tries === TRIES) throw error;
      current = await client.get(type, target, { signal });
    }
  }
}

function conflict(
  what: string,
  finalizer: string,
  type: ResourceType,
  { metadata: { namespace, name } }: KubeObject,
  why: string,
): RampartError {
  return new RampartError(errorCodes.CONFLICT, {
    what: `cannot ${what} the finalizer ${finalizer} of ${describeTarget(type, { namespace, name })}`,
    why,
  });
}
