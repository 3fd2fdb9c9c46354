/** Reads all objects of a kind, a page at a time. */
import { isGone } from '../../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { apiVersionOf, type KubeObject, type ResourceType } from '../../../lib/kube/object/object.ts';
import { eachOf } from '../../../lib/time/each-of.ts';
import { loopSlice } from '../../../lib/time/loop-slice.ts';
import { withoutManagedFields } from './object-facts.ts';

export interface ListedOptions {
  readonly client: KubeClient;
  /** '': all namespaces, or cluster-scoped objects. */
  readonly namespace: string;
  readonly pageSize: number;
  /** Maximum number of objects processed concurrently. */
  readonly parallel: number;
  readonly signal: AbortSignal;
}

/**
 * Calls back for each object. If the list ends early because its token has expired, it starts again. @throws if
 * the kind cannot be listed
 */
export async function eachListed(
  type: ResourceType,
  { client, namespace, pageSize, parallel, signal }: ListedOptions,
  take: (object: KubeObject) => Promise<void>,
): Promise<void> {
  let token: string | undefined;
  for (;;) {
    let page;
    try {
      page = await client.list<KubeObject>(type, namespace === '' ? {} : { namespace }, {
        limit: pageSize,
        continue: token,
        signal,
      });
    } catch (error) {
      if (!isGone(error) || token === undefined) throw error;
      token = undefined;
      continue;
    }
    await eachOf(page.items, parallel, async (item) => {
      if (loopSlice.over) await loopSlice.next();
      await take({ apiVersion: apiVersionOf(type), kind: type.kind, ...withoutManagedFields(item) });
    });
    token = page.metadata.continue;
    if (token === undefined || token === '') return;
  }
}
