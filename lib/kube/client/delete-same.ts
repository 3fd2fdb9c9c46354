import type { KubeObject, ResourceType } from '../object/object.ts';
import type { KubeClient } from './client.ts';
import { isConflict, isNotFound } from './client-errors.ts';

interface DeleteSameOptions {
  readonly signal: AbortSignal;
  /** Deletes only this version: not if it has been changed since. */
  readonly unchanged?: boolean;
}

/**
 * Deletes an object that was read before, but not another one that has taken its name meanwhile.
 *
 * @returns whether it was deleted by this call.
 * @throws what the client throws, except for an object that is gone or was replaced.
 */
export async function deleteSame(
  client: KubeClient,
  type: ResourceType,
  { metadata: { namespace, name = '', uid, resourceVersion } }: KubeObject,
  { signal, unchanged = false }: DeleteSameOptions,
): Promise<boolean> {
  const preconditions = {
    ...(uid !== undefined && { uid }),
    ...(unchanged && resourceVersion !== undefined && { resourceVersion }),
  };
  try {
    await client.delete(type, { namespace, name }, { preconditions, signal });
    return true;
  } catch (error) {
    if (isNotFound(error) || isConflict(error)) return false;
    throw error;
  }
}
