/**
 * Deletes the KiveData that this node wrote before its last boot: they belong to another kernel, which has no loader.
 */
import { deleteSame } from '../../../lib/kube/client/delete-same.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import { kiveDataNamespace, kiveDataType } from '../api.ts';
import { dataHolds, type FoundOn, kernelLabel, nodeLabel, nodeOf } from '../kive-data.ts';

/** A process sees one boot only, so once is enough. */
export async function removeEarlierData(client: KubeClient, on: FoundOn, signal: AbortSignal): Promise<void> {
  const labelSelector = `${nodeLabel}=${labelValue(on.nodeName)},${kernelLabel}!=${on.kernelId}`;
  const { items } = await client.list(
    kiveDataType,
    { namespace: kiveDataNamespace },
    { labelSelector, signal },
  );
  for (const data of items) {
    if (nodeOf(data) !== on.nodeName) continue;
    await deleteSame(client, kiveDataType, data, { signal });
    // The loader of that kernel ended with it.
    await removeFinalizer(client, kiveDataType, data, dataHolds, { signal });
  }
}
