import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Logger } from '../../telemetry/log.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import { until } from '../../testing/until.fixture.ts';
import { type CollectionServer, startCollectionServer } from '../client/collection-server.fixture.ts';
import { type Asked, type Fault, startFaultProxy } from '../client/fault-proxy.fixture.ts';
import { IndexedCache } from './indexed-cache.ts';
import { type KubeObject, pods } from '../object/object.ts';
import { clientOf, limit, type More, pod, reflect } from './reflector.fixture.ts';
import { createReflectorMetrics } from './reflector-metrics.ts';
import { runReflector } from './reflector.ts';

/** A server with some pods, a proxy that does one fault after the other, a reflector. */
async function faulty(
  decide: (asked: Asked) => Fault | undefined,
  more: More = {},
  prepare: (server: CollectionServer) => void = () => undefined,
) {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startCollectionServer({ bookmarkMs: 20 }));
  for (const name of ['a', 'b', 'c', 'd', 'e']) server.put(pod(name));
  prepare(server);
  const asked: Asked[] = [];
  const proxy = stack.use(
    await startFaultProxy(server.url, (one) => {
      asked.push(one);
      return decide(one);
    }),
  );
  const client = stack.use(clientOf(proxy.url));
  const reflector = stack.use(reflect(client, more));
  const same = (): boolean =>
    server.state().size === reflector.cache.size &&
    [...server.state()].every(([key, version]) => reflector.cache.versionOf(key) === version);
  return { server, proxy, asked, same, ...reflector, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Faults for the first requests that `of` picks. */
function first(of: (asked: Asked) => boolean, ...faults: Fault[]): (asked: Asked) => Fault | undefined {
  return (asked) => (of(asked) ? faults.shift() : undefined);
}
const watches = ({ watch }: Asked): boolean => watch;
const lists = ({ watch }: Asked): boolean => !watch;
const continued = ({ url }: Asked): boolean => url.searchParams.has('continue');
const versionsOf = (asked: readonly Asked[]): unknown[] =>
  asked.filter(watches).map(({ url }) => url.searchParams.get('resourceVersion'));

suite('reflector', limit, () => {
  test('lists in pages, then follows; what it asks for', async () => {
    await using all = await faulty(() => undefined, { pageSize: 2, namespace: 'n', random: () => 0.5 });
    await all.cache.synced;
    assert.ok(all.same());
    all.server.put(pod('f'));
    all.server.put(pod('a'));
    all.server.delete('n/b');
    await until(all.same);
    const [firstList, secondList, , watch] = all.asked.map(({ url }) => url);
    assert.equal(`${firstList?.pathname}${firstList?.search}`, '/api/v1/namespaces/n/pods?limit=2');
    assert.match(secondList?.search ?? '', /^\?limit=2&continue=/);
    assert.deepEqual(Object.fromEntries(watch?.searchParams ?? []), {
      watch: 'true',
      resourceVersion: '6',
      allowWatchBookmarks: 'true',
      timeoutSeconds: '450',
    });
  });

  for (const [what, fault] of Object.entries<Fault>({
    'a half-open connection': { kind: 'stall', afterBytes: 10 },
    'no answer': { kind: 'silent' },
    'a reset in the middle of a line': { kind: 'reset', afterBytes: 150 },
    'an end in the middle of a line': { kind: 'truncate', afterBytes: 150 },
    'a 500': { kind: 'status', code: 500 },
    'no JSON': { kind: 'garbage', afterLines: 0, text: 'busy', contentType: 'text/html' },
    'a restart': { kind: 'restart', downMs: 10 },
  })) {
    test(`a watch with ${what} is begun anew where it was, without a list`, async () => {
      const short = { idleTimeoutMs: 1000, answerTimeoutMs: 1000 };
      await using all = await faulty(first(watches, fault), short);
      await all.cache.synced;
      for (const name of ['f', 'g', 'h']) all.server.put(pod(name));
      await until(() => all.same() && versionsOf(all.asked).length > 1);
      assert.equal(all.asked.filter(lists).length, 1);
      assert.equal(all.stats().lists, 1);
      // The client sends requests again that a kept connection loses: there is no error if the server is back
      // by then.
      if (fault.kind !== 'restart') assert.ok(Object.values(all.stats().errors).some((count) => count > 0));
    });

    test(`a list with ${what} is begun anew`, async () => {
      const short = { idleTimeoutMs: 1000, answerTimeoutMs: 1000 };
      await using all = await faulty(first(lists, fault), short);
      await all.cache.synced;
      assert.ok(all.same());
      assert.equal(all.asked.filter(lists).length, 2);
    });
  }

  test('410 for a watch, as an answer and as an event: a list, and what is gone is gone', async () => {
    for (const fault of [
      { kind: 'gone', afterLines: 0 },
      { kind: 'status', code: 410 },
    ] as const) {
      await using all = await faulty(first(watches, fault));
      const deleted: string[] = [];
      all.cache.subscribe(({ type, key }) => void (type === 'deleted' && deleted.push(key)));
      await all.cache.synced;
      all.server.delete('n/c');
      await until(() => all.same() && all.stats().lists === 2);
      assert.deepEqual(deleted, ['n/c']);
      assert.equal(all.stats().errors['expired'], 1);
    }
  });

  test('a page that breaks off is asked for again, and not the whole list', async () => {
    await using all = await faulty(
      first(continued, { kind: 'reset', afterBytes: 90 }, { kind: 'status', code: 500 }, { kind: 'refuse' }),
      { pageSize: 2 },
    );
    await all.cache.synced;
    assert.ok(all.same());
    assert.equal(all.asked.filter((one) => lists(one) && !continued(one)).length, 1);
    assert.equal(all.asked.filter(continued).length, 5);
  });

  test('410 for a page: the list from its beginning; the third time without pages', async () => {
    const gone: Fault = { kind: 'gone', afterLines: 0 };
    await using all = await faulty(first(continued, gone, gone), { pageSize: 2 });
    await all.cache.synced;
    assert.ok(all.same());
    assert.deepEqual(
      all.asked.filter(lists).map(({ url }) => url.search.replace(/continue=.*/, 'continue')),
      ['?limit=2', '?limit=2&continue', '?limit=2', '?limit=2&continue', ''],
    );
  });

  test('the server restarts with its history compacted', async () => {
    await using all = await faulty(() => undefined);
    await all.cache.synced;
    await all.server.stop();
    all.server.delete('n/a');
    all.server.put(pod('new'));
    all.server.compact();
    await all.server.listen();
    await until(all.same);
    assert.equal(all.stats().lists, 2);
  });

  test('a server put back to an older history: found out by its bookmarks, taken after three lists', async () => {
    await using all = await faulty(
      () => undefined,
      {},
      (server) => {
        for (let round = 0; round < 100; round++) server.put(pod('a'));
      },
    );
    await all.cache.synced;
    all.server.rollBack(10);
    all.server.put(pod('b'));
    all.server.put(pod('z'));
    await until(all.same);
    assert.deepEqual([all.cache.versionOf('n/b'), all.cache.versionOf('n/a')], ['11', undefined]);
    assert.equal(all.stats().errors['stale'], 2);
    all.server.put(pod('y'));
    await until(all.same);
  });

  test('an old list, once, is not taken', async () => {
    // The first list is kept by the proxy, and comes again after the 410.
    const faults: Fault[] = [{ kind: 'gone', afterLines: 2 }];
    const old: Fault[] = [{ kind: 'stale' }, { kind: 'stale' }];
    let listed = 0;
    await using all = await faulty((asked) =>
      watches(asked) ? faults.shift() : listed++ === 0 ? undefined : old.shift(),
    );
    const changes: string[] = [];
    await all.cache.synced;
    all.cache.subscribe(({ type, key }) => changes.push(`${type} ${key}`));
    all.server.put(pod('f'));
    all.server.delete('n/a');
    all.server.put(pod('g'));
    await until(all.same);
    assert.deepEqual(changes.toSorted(), ['added n/f', 'added n/g', 'deleted n/a']);
    assert.equal(all.stats().errors['stale'], 2);
  });

  test('a resource that is not there, or must not be read: nothing is lost, and it goes on', async () => {
    const missing: Fault = { kind: 'status', code: 404 };
    const gone: Fault = { kind: 'gone', afterLines: 0 };
    let listed = 0;
    const forbidden: Fault = { kind: 'status', code: 403 };
    await using all = await faulty((asked) =>
      watches(asked) ? (listed < 3 ? gone : undefined) : [missing, undefined, missing, forbidden][listed++],
    );
    const deleted: string[] = [];
    all.cache.subscribe(({ type, key }) => void (type === 'deleted' && deleted.push(key)));
    await until(() => all.stats().lists === 2);
    assert.deepEqual([deleted, all.same()], [[], true]);
    assert.deepEqual(all.stats().errors, { http_404: 2, http_403: 1, expired: 1 });
  });

  test('that a kind is not served is logged once, louder where it was served before, and again after it was', async () => {
    const missing: Fault = { kind: 'status', code: 404 };
    const gone: Fault = { kind: 'gone', afterLines: 0 };
    const answers = [missing, missing, missing, undefined, missing, missing, undefined, missing, undefined];
    let listed = 0;
    const logged: string[] = [];
    const log = (level: string) => (facts: { readonly err?: Error }) => {
      if (/404/.test(facts.err?.message ?? '')) logged.push(level);
    };
    const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
    await using all = await faulty(
      (asked) => (watches(asked) ? (listed < answers.length ? gone : undefined) : answers[listed++]),
      { logger: logger as unknown as Logger },
    );
    await until(() => all.stats().lists === 3);
    assert.deepEqual(logged, ['info', 'debug', 'debug', 'warn', 'debug', 'warn']);
  });

  test('a stop: while it lists, watches and waits; it resolves', async () => {
    for (const [decide, more] of [
      [() => ({ kind: 'silent' }) as Fault, {}],
      [() => undefined, {}],
      [() => ({ kind: 'refuse' }) as Fault, { backoff: { baseMs: 60_000, maxMs: 60_000 } }],
    ] as const) {
      await using all = await faulty(decide, more);
      await until(() => all.asked.length > 0);
      await sleep(20);
      all.stop.abort();
      await all.running;
    }
    await using server = await startCollectionServer();
    using client = clientOf(server.url);
    const cache = new IndexedCache({ type: pods });
    await runReflector({ client, cache, signal: AbortSignal.abort() });
  });

  test('transform: its result is kept, and if it fails, the object is kept unchanged', async () => {
    const transform = (object: KubeObject): KubeObject => {
      if (object.metadata.name === 'a') throw new Error('no');
      if (object.metadata.name === 'b') return undefined as never;
      const { namespace, name, resourceVersion } = object.metadata;
      return { metadata: { namespace, name, resourceVersion, labels: { kept: 'yes' } } } as KubeObject;
    };
    await using all = await faulty(() => undefined, { transform });
    await all.cache.synced;
    assert.deepEqual(all.cache.get('n/c')?.metadata.labels, { kept: 'yes' });
    assert.deepEqual(
      [all.cache.has('n/a'), all.cache.has('n/b'), all.stats().transformFaults],
      [true, true, 2],
    );
    all.server.put(pod('d', { annotations: { gone: 'soon' } }));
    await until(all.same);
    assert.equal(all.cache.get('n/d')?.metadata.annotations, undefined);
  });

  test('managed fields are not kept, from lists and from events', async () => {
    const managed = { managedFields: [{ manager: 'me' }] };
    await using all = await faulty(
      () => undefined,
      {},
      (server) => server.put(pod('m', managed)),
    );
    await all.cache.synced;
    all.server.put(pod('n', managed));
    await until(all.same);
    for (const { metadata } of all.cache.list()) assert.ok(!('managedFields' in metadata));
  });

  test('metrics', async () => {
    const metrics = await createMetrics();
    await using all = await faulty(first(watches, { kind: 'status', code: 500 }), {
      metrics: createReflectorMetrics(metrics),
      name: 'some pods',
    });
    await until(() => all.cache.isSynced && all.server.watchers > 0);
    const text = metrics.registry.metrics();
    for (const line of [
      'rampart_reflector_lists_total{reflector="some pods"} 1',
      'rampart_reflector_watches_total{reflector="some pods"} 2',
      'rampart_reflector_errors_total{reflector="some pods",reason="http_500"} 1',
      'rampart_reflector_objects{reflector="some pods"} 5',
    ]) {
      assert.ok(text.includes(line), text);
    }
    assert.match(text, /rampart_reflector_age_seconds\{reflector="some pods"\} \d/);
    all.stop.abort();
    await all.running;
    assert.ok(!metrics.registry.metrics().includes('some pods'));
  });

  test('options that cannot work', async () => {
    const base = { client: clientOf('http://127.0.0.1:1'), signal: AbortSignal.abort() };
    const cache = new IndexedCache({ type: pods });
    for (const bad of [
      { pageSize: -1 },
      { pageSize: 1.5 },
      { idleTimeoutMs: 0 },
      { backoff: { baseMs: 2, maxMs: 1 } },
    ]) {
      await assert.rejects(runReflector({ ...base, cache, ...bad }), { code: 'RAMPART_INPUT' });
    }
    base.client[Symbol.dispose]();
  });
});
