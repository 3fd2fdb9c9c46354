/** Writes the difference between the existing KiveData and the desired ones. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { type KiveData, kiveDataNamespace, kiveDataType } from '../api.ts';
import type { DataChanges } from './desired.ts';
import { dataHolds, type FoundOn } from '../kive-data.ts';
import { kernelOf } from '../policy/spellings.ts';

export type WrittenEvent = 'Watching' | 'FileReplaced';

/** An event of a trap's file. `FileMoved`: its path no longer exists, but the file does. */
export type FileEvent = WrittenEvent | 'FileMissing' | 'FileMoved';

export interface WriteTarget {
  readonly client: KubeClient;
  /** The cache. Each written object is put into it immediately, before its event arrives, so that the next pass does not write it again. */
  readonly data: IndexedCache<KiveData>;
  readonly on: FoundOn;
  readonly signal: AbortSignal;
}

/** Concurrent writes for one container: others must have their turn, and over HTTP/1.1 each needs a TLS connection of its own. */
const AT_A_TIME = 2;

/**
 * Applies all changes, and continues when one fails.
 *
 * @throws the error; compute the difference again then.
 */
export async function writeChanges(
  { client, data, on, signal }: WriteTarget,
  { create, update, remove }: DataChanges,
  notify: (event: WrittenEvent, data: KiveData) => void,
): Promise<void> {
  await inTurns([
    ...create.map((wanted) => async () => {
      data.put(await createOrShow(client, wanted, signal));
      notify('Watching', wanted);
    }),
    ...update.map((wanted) => async () => {
      const before = data.get(`${wanted.metadata.namespace}/${wanted.metadata.name}`);
      data.put(await client.update(kiveDataType, wanted, { signal }));
      const moved = before?.spec.inodeNo !== wanted.spec.inodeNo || before?.spec.devId !== wanted.spec.devId;
      if (moved) notify('FileReplaced', wanted);
    }),
    ...remove.map((stored) => async () => {
      const { namespace, name = '', uid } = stored.metadata;
      const preconditions = uid === undefined ? {} : { uid };
      const answer = await client.delete(kiveDataType, { namespace, name }, { preconditions, signal });
      if (isData(answer)) data.put(answer);
      // The loader of that other kernel ended at the last boot.
      if (kernelOf(stored) !== on.kernelId) {
        await removeFinalizer(client, kiveDataType, stored, dataHolds, { signal });
      }
    }),
  ]);
}

/** Runs all steps, a few at a time, and continues when one fails. @throws the first error, unless an object was already gone */
async function inTurns(steps: readonly (() => Promise<void>)[]): Promise<void> {
  let next = 0;
  let failed: unknown;
  const work = async (): Promise<void> => {
    for (let step; (step = steps[next++]) !== undefined;) {
      try {
        await step();
      } catch (error) {
        // If there are two errors, the one that is not an ordinary race is more useful.
        const ordinary = isNotFound(error) || isConflict(error) || isAlreadyExists(error);
        if (failed === undefined || !ordinary) failed = error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, steps.length) }, work));
  if (failed !== undefined && !isNotFound(failed)) throw failed as Error;
}

/** If the KiveData already exists, restores the labels that it is selected by, which it must have lost: the next pass corrects the rest. */
async function createOrShow(client: KubeClient, wanted: KiveData, signal: AbortSignal): Promise<KiveData> {
  try {
    return await client.create(kiveDataType, wanted, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) return explain(error);
    const { namespace, name = '', labels } = wanted.metadata;
    const patch = { type: 'merge', body: { metadata: { labels } } } as const;
    return await client.patch<KiveData>(kiveDataType, { namespace, name }, patch, { signal });
  }
}

/** A 404 for a create means that the namespace is missing. */
function explain(error: unknown): never {
  if (!isNotFound(error)) throw error;
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: 'cannot write KiveData',
    why: `the namespace ${kiveDataNamespace} or the resource does not exist`,
    next: `The operator creates the namespace; without it: kubectl create namespace ${kiveDataNamespace}`,
    cause: error,
  });
}

/** The API answers a deletion with the object while it has finalizers, otherwise with a Status. */
function isData(answer: unknown): answer is KiveData {
  return (
    (answer as KubeObject | undefined)?.kind === 'KiveData' &&
    (answer as KubeObject).metadata?.deletionTimestamp !== undefined
  );
}
