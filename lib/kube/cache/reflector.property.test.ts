// Faults between the reflector and a server: whatever comes, the cache converges, and no object goes back.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Random, scaled, seed } from '../../testing/depth.fixture.ts';
import { KubeClient } from '../client/client.ts';
import { type CollectionServer, startCollectionServer } from '../client/collection-server.fixture.ts';
import { anonymous } from '../access/credentials.ts';
import { type Asked, type Fault, startFaultProxy, subjectOf } from '../client/fault-proxy.fixture.ts';
import { IndexedCache } from './indexed-cache.ts';
import { type KubeObject, pods } from '../object/object.ts';
import { runReflector } from './reflector.ts';
import { isOlder } from '../object/resource-version.ts';

const FAULTS = scaled(1000);

/** A fault for a request, each kind as likely as the others. */
function randomFault(random: Random, { watch }: Asked): Fault {
  const afterBytes = random.below(2000);
  const pick = [
    (): Fault => ({
      kind: 'status',
      code: [500, 502, 503, 504, 429, 403, 404, 400][random.below(8)] as number,
    }),
    (): Fault => ({ kind: 'refuse' }),
    (): Fault => ({ kind: 'silent' }),
    (): Fault => ({ kind: 'stall', afterBytes }),
    (): Fault => ({ kind: 'reset', afterBytes }),
    (): Fault => ({ kind: 'truncate', afterBytes }),
    (): Fault => ({
      kind: 'slow',
      pieceBytes: 1 + random.below(40),
      pieces: 1 + random.below(10),
      pauseMs: random.below(3),
    }),
    (): Fault => ({ kind: 'gone', afterLines: random.below(4) }),
    (): Fault => ({
      kind: 'garbage',
      afterLines: random.below(3),
      text: ['<html>busy</html>', '{', '{"type":"ADDED"}', '{"items":[{}],"metadata":{}}', 'null'][
        random.below(5)
      ] as string,
      contentType: ['text/html', 'application/json'][random.below(2)] as string,
    }),
    (): Fault =>
      watch
        ? { kind: 'replay', every: 1 + random.below(3), reversed: random.chance(0.5) }
        : { kind: 'stale' },
    (): Fault => ({ kind: 'bookmarks' }),
    (): Fault => ({ kind: 'restart', downMs: random.below(20) }),
  ];
  return (pick[random.below(pick.length)] as () => Fault)();
}

/** Changes at random, until `signal` aborts: objects come, change, change their label, go and come again. */
async function churn(server: CollectionServer, random: Random, signal: AbortSignal): Promise<number> {
  let changes = 0;
  while (!signal.aborted) {
    const namespace = `n${random.below(3)}`;
    const name = `pod-${random.below(60)}`;
    if (random.chance(0.35)) server.delete(`${namespace}/${name}`);
    else
      server.put({
        metadata: { name, namespace, labels: { all: 'yes', half: random.chance(0.5) ? 'a' : 'b' } },
      });
    changes++;
    if (random.chance(0.01)) server.compact();
    if (random.chance(0.002)) {
      await server.stop();
      await sleep(5);
      await server.listen();
    }
    await sleep(random.next() * 4);
  }
  return changes;
}

interface Watched {
  readonly cache: IndexedCache<KubeObject>;
  readonly matches: (object: KubeObject) => boolean;
  readonly backwards: string[];
  readonly reflecting: Promise<void>;
}

function reflect(
  client: KubeClient,
  random: Random,
  signal: AbortSignal,
  kind: { readonly pageSize: number; readonly namespace?: string; readonly labelSelector?: string },
): Watched {
  const cache = new IndexedCache({
    type: pods,
    indexes: { half: ({ metadata }) => [metadata.labels?.['half'] ?? ''] },
    parsedLimit: 10,
  });
  // The newest reported version by key, deletions included.
  const newest = new Map<string, string>();
  const backwards: string[] = [];
  cache.subscribe(({ type, key, object }) => {
    const version = object.metadata.resourceVersion ?? '';
    const known = newest.get(key);
    // An object that a list lacks is gone with the last state that was known.
    const wrong =
      known !== undefined && (isOlder(version, known) || (version === known && type !== 'deleted'));
    if (wrong) backwards.push(`${type} ${key} at ${version} after ${known}`);
    newest.set(key, version);
  });
  const reflecting = runReflector({
    client,
    cache,
    signal,
    ...kind,
    random: () => random.next(),
    idleTimeoutMs: 60,
    answerTimeoutMs: 60,
    healthyMs: 100,
    backoff: { baseMs: 1, maxMs: 16, jitter: 0.5 },
  });
  const { namespace, labelSelector } = kind;
  const half = /half=(.)/.exec(labelSelector ?? '')?.[1];
  const matches = ({ metadata }: KubeObject): boolean =>
    (namespace === undefined || metadata.namespace === namespace) &&
    (half === undefined || metadata.labels?.['half'] === half);
  return { cache, matches, backwards, reflecting };
}

/** Waits until the caches are as the server is; after a minute it says how they differ. */
async function converged(server: CollectionServer, all: readonly Watched[]): Promise<void> {
  const differences = (): unknown[] =>
    all.flatMap(({ cache, matches }) => {
      const wanted = server.state(matches);
      const keys = new Set([...wanted.keys(), ...cache.keys()]);
      return [...keys]
        .filter((key) => wanted.get(key) !== cache.versionOf(key))
        .map((key) => [key, 'server', wanted.get(key), 'cache', cache.versionOf(key)]);
    });
  for (let round = 0; differences().length > 0 && round < 3000; round++) await sleep(20);
  assert.deepEqual(differences(), []);
}

suite('reflector: random faults', () => {
  test(`${FAULTS} faults: the caches converge and no object goes back (RAMPART_TEST_SEED=${seed})`, async (context) => {
    const random = new Random(seed);
    await using server = await startCollectionServer({ bookmarkMs: 15, firstVersion: 95 });
    let left = FAULTS;
    // By what is listed: a third old list in a row would rightly be taken.
    const stale = new Map<string, { lists: number; watchedFrom: number }>();
    await using proxy = await startFaultProxy(server.url, (asked) => {
      const { url, watch } = asked;
      const subject = subjectOf(url.pathname + url.search);
      const known = stale.get(subject) ?? { lists: 0, watchedFrom: 0 };
      stale.set(subject, known);
      const from = Number(url.searchParams.get('resourceVersion'));
      // That it is watched from a newer version shows that a list was taken.
      if (watch && from > known.watchedFrom) Object.assign(known, { lists: 0, watchedFrom: from });
      // Some answers have to be right for state to move on at all; no three old lists in a row.
      if (left === 0 || random.chance(0.3)) return undefined;
      const fault = randomFault(random, asked);
      if (fault.kind === 'stale') {
        if (known.lists >= 2) return undefined;
        known.lists++;
      }
      left--;
      return fault;
    });
    using client = new KubeClient(
      { server: new URL(proxy.url), credentials: anonymous, namespace: 'default' },
      { perSecond: 1e6, burst: 1e6, maxRetries: 1 },
    );
    const [stopping, churning] = [new AbortController(), new AbortController()];
    const all = [
      { pageSize: 7 },
      { pageSize: 0, labelSelector: 'all=yes' },
      { pageSize: 500, namespace: 'n1' },
      { pageSize: 3, labelSelector: 'half=a' },
      { pageSize: 20, labelSelector: 'all=yes,half=b' },
      { pageSize: 5, namespace: 'n2', labelSelector: 'half=b' },
    ].map((kind) => reflect(client, random, stopping.signal, kind));
    try {
      const churned = churn(server, random, churning.signal);
      while (left > 0) {
        await sleep(150);
        // A watch that is well would last for minutes.
        proxy.breakConnections();
        left = Math.max(0, left - 1);
      }
      churning.abort();
      const changes = await churned;
      await converged(server, all);
      for (const { cache, backwards, matches } of all) {
        assert.deepEqual(backwards, []);
        assert.ok(cache.isSynced);
        // The index is the one that the objects have.
        for (const half of ['a', 'b']) {
          const expected = server.state(
            (object) => matches(object) && object.metadata.labels?.['half'] === half,
          );
          const found = cache.keysByIndex('half', half).map((key) => [key, cache.versionOf(key)] as const);
          assert.deepEqual(new Map(found), expected);
        }
      }
      context.diagnostic(`${changes} changes; faults: ${JSON.stringify(proxy.faults)}`);
    } finally {
      churning.abort();
      stopping.abort();
      await Promise.all(all.map(({ reflecting }) => reflecting));
    }
  });
});
