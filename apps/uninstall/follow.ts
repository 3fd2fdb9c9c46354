/** Waits while others work, as long as there is progress. */
import type { Selected } from './selected.ts';
import { SharedCaches } from '../../lib/kube/cache/shared-caches.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import type { KubeObject, ResourceType } from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { orAborted } from '../../lib/time/abort.ts';

export interface FollowOptions<T extends KubeObject> {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  /** How long to wait without progress. */
  readonly stalledMs: number;
  /** Describes the progress so far; any change of the text counts as progress. Undefined when all is done. */
  readonly progress: (objects: readonly T[]) => string | undefined;
}

/** @throws the signal's reason */
export async function follow<T extends KubeObject>(
  { type, ...selection }: Selected & { readonly type: ResourceType<T> },
  { client, signal, stalledMs, progress }: FollowOptions<T>,
): Promise<void> {
  const ended = Promise.withResolvers<void>();
  const stop = new AbortController();
  // Outages of the API are not reported: they only delay the progress.
  const logger = createLogger({ level: 'silent' });
  await using caches = new SharedCaches({ client, logger, onFailure: ended.reject });
  const cache = caches.use({ type, ...selection }, stop.signal);
  using waiting = new DisposableStack();
  let timer = setTimeout(ended.resolve, stalledMs);
  waiting.defer(() => clearTimeout(timer));
  let before: string | undefined = '';
  const look = (): void => {
    if (!cache.isSynced) return;
    const now = progress([...cache.list()]);
    if (now === before) return;
    before = now;
    clearTimeout(timer);
    if (now === undefined) ended.resolve();
    else timer = setTimeout(ended.resolve, stalledMs);
  };
  waiting.use(cache.subscribe(look));
  void cache.synced.then(look);
  try {
    await orAborted(ended.promise, signal);
  } finally {
    stop.abort();
  }
}
