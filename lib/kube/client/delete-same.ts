import type { KubeObject, ResourceType } from '../object/object.ts';
import type { KubeClient } from './client.ts';
import { isConflict, isNotFound } from './client-errors.ts';

interface DeleteSameOptions {
  readonly signal: AbortSignal;
  /** Only at this version: not when somebody has changed it since. */
  readonly unchanged?: boolean;
}

/**
 * Deletes an object that was read before, and no other that has taken its name meanwhile.
 *
 * @returns whether it was there to be deleted.
 * @throws what the client throws, but for an object that is gone, or is another one by now.
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
