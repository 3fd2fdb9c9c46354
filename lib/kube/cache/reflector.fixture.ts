/** A reflector at work, for its tests. */
import assert from 'node:assert/strict';

import { KubeClient } from '../client/client.ts';
import { anonymous } from '../access/credentials.ts';
import { IndexedCache } from './indexed-cache.ts';
import { type KubeObject, pods } from '../object/object.ts';
import type { ReflectorStats } from './reflector-metrics.ts';
import { type ReflectorOptions, runReflector } from './reflector.ts';

export const pod = (name: string, metadata = {}): KubeObject => ({
  metadata: { namespace: 'n', name, ...metadata },
});

export type More = Partial<ReflectorOptions<KubeObject>>;

/** A reflector at work. Disposing it stops it and waits for its end. */
export function reflect(client: ReflectorOptions<KubeObject>['client'], more: More = {}) {
  const cache = more.cache ?? new IndexedCache({ type: pods });
  const stop = new AbortController();
  let stats: () => ReflectorStats = () => assert.fail('not running');
  const running = runReflector({
    client,
    cache,
    signal: stop.signal,
    backoff: { baseMs: 1, maxMs: 5 },
    metrics: { add: (_, counted) => (stats = () => counted.stats()), remove: () => undefined },
    ...more,
  });
  return {
    cache,
    running,
    stop,
    stats: () => stats(),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
}

export const clientOf = (url: string): KubeClient =>
  new KubeClient(
    { server: new URL(url), credentials: anonymous, namespace: 'n' },
    { perSecond: 1e6, burst: 1e6 },
  );

/** Time limit of a suite; every awaited event comes much sooner. */
export const limit = { timeout: 20_000 };
