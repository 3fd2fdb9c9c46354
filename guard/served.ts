import { isNotFound } from '../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { type Clock, sleep, systemClock } from '../lib/time/clock.ts';
import { Backoff } from '../lib/time/backoff.ts';
import type { Resource, Versions } from '../lib/kube/crd/resource.ts';
import { apiResources } from '../lib/kube/client/discovery.ts';

const RETRY = { baseMs: 1000, maxMs: 15_000 };

/**
 * Resolves when the API serves all of `resources`; until then asks again and again, and tells `onMissing` why.
 *
 * @throws the signal's reason when it aborts.
 */
export async function whenServed(
  client: KubeClient,
  resources: readonly Resource[],
  { signal, onMissing, clock = systemClock }: WhenServedOptions,
): Promise<void> {
  const backoff = new Backoff(RETRY);
  for (;;) {
    signal.throwIfAborted();
    const reason = await missing(client, resources, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    });
    if (reason === undefined) return;
    onMissing(reason);
    await sleep(clock, backoff.nextMs(), signal);
  }
}

interface WhenServedOptions {
  readonly signal: AbortSignal;
  readonly onMissing: (reason: string) => void;
  readonly clock?: Clock;
}

/** What the API does not serve, as a sentence; undefined where all is served. */
async function missing(
  client: KubeClient,
  resources: readonly Resource[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const byVersion = Map.groupBy(resources, ({ group, versions }) => `${group}/${storedVersion(versions)}`);
  for (const [path, ofVersion] of byVersion) {
    const [group = '', version = ''] = path.split('/');
    const served = await apiResources(client, { group, version }, { signal }).catch((error: unknown) => {
      if (isNotFound(error)) return [];
      throw error;
    });
    const absent = ofVersion.find(({ plural }) => !served.some(({ name }) => name === plural));
    if (absent !== undefined) {
      return `the API does not serve ${absent.plural}.${group}/${version}: its CustomResourceDefinition is not installed`;
    }
  }
  return undefined;
}

function storedVersion(versions: Versions): string {
  const names = Object.keys(versions);
  return names.find((name) => versions[name]?.storage === true) ?? names[0] ?? '';
}
