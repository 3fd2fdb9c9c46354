/**
 * DELETE of a collection: each of its objects on its own. It is no transaction: where one cannot be deleted, others
 * may be gone.
 */
import type { Item } from '../resources/item.ts';
import type { VerbContext } from './context.ts';
import { deleteObject } from './delete.ts';
import { deleteOptions, type DeleteOptions } from './delete-options.ts';
import { answerOf } from './failures.ts';
import { listItems } from './list.ts';
import { listOptions } from './list-options.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';
import { selectionOf } from './selection.ts';

/** Deletions under way at once: enough to fill the commits of the store. */
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
    // Somebody else was quicker.
    if (answer.status.code !== 404) throw answer;
  }
}
