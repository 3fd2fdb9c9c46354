/** Deletes the KiveData that this node wrote before its last boot: they are of another kernel, which nobody follows any more. */
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { orUndefined } from '../../../lib/kube/client/client-errors.ts';
import { failureLevels } from '../../../lib/kube/client/failure-level.ts';
import { removeFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { kiveDataNamespace, kiveDataType } from '../api.ts';
import { dataHolds, type FoundOn, kernelLabel, nodeLabel, nodeLabelOf, nodeOf } from '../kive-data.ts';

export interface EarlierDataOptions {
  readonly client: KubeClient;
  readonly on: FoundOn;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

const RETRY = { baseMs: 1000, maxMs: 60_000, jitter: 0.5 };

/** Until it is done, and then until `signal` aborts. A process sees one boot only, so once is enough. */
export async function removeEarlierData({ client, on, signal, logger }: EarlierDataOptions): Promise<void> {
  const backoff = new Backoff(RETRY);
  const level = failureLevels(systemClock);
  while (!signal.aborted) {
    try {
      await removeAll(client, on, signal);
      await aborted(signal);
    } catch (err) {
      if (signal.aborted) return;
      logger[level(err, backoff.attempts)]({ err }, 'cannot delete KiveData of an earlier boot; retrying');
      await sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
    }
  }
}

async function removeAll(client: KubeClient, on: FoundOn, signal: AbortSignal): Promise<void> {
  const labelSelector = `${nodeLabel}=${nodeLabelOf(on.nodeName)},${kernelLabel}!=${on.kernelId}`;
  const { items } = await client.list(
    kiveDataType,
    { namespace: kiveDataNamespace },
    { labelSelector, signal },
  );
  for (const data of items) {
    if (nodeOf(data) !== on.nodeName) continue;
    const { namespace, name = '', uid } = data.metadata;
    const options = { signal, ...(uid !== undefined && { preconditions: { uid } }) };
    await orUndefined(client.delete(kiveDataType, { namespace, name }, options));
    // The loader of that kernel ended with it.
    await removeFinalizer(client, kiveDataType, data, dataHolds, { signal });
  }
}
