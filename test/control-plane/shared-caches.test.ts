import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { startTestApi, TestApi } from '../../lib/apiserver/test-api.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { podFacts } from '../../lib/kube/object/facts.ts';
import { namespaces, pods } from '../../lib/kube/object/object.ts';
import { SharedCaches } from '../../lib/kube/cache/shared-caches.ts';

/** Lists and watches that are begun, by their path. */
class Counted {
  readonly asked: string[] = [];
  readonly #api: TestApi;

  constructor(api: TestApi) {
    this.#api = api;
  }

  get client(): Pick<TestApi['client'], 'listItems' | 'watch'> {
    const { client } = this.#api;
    return {
      listItems: (type, target, options) => {
        this.asked.push(`${type.plural} ${options.labelSelector ?? ''}`.trim());
        return client.listItems(type, target, options);
      },
      watch: client.watch.bind(client),
    };
  }
}

async function scene() {
  const api = new TestApi(await startTestApi({ name: 'caches', memory: true }));
  const counted = new Counted(api);
  const failures: unknown[] = [];
  const caches = new SharedCaches({
    client: counted.client,
    logger: api.logger,
    onFailure: (error) => failures.push(error),
  });
  return { api, counted, caches, failures };
}

suite('shared caches', () => {
  test('the same query is listed once, and fed until its last user has gone', async () => {
    const { api, counted, caches, failures } = await scene();
    await using _api = api;
    await using _caches = caches;
    const [one, two] = [new AbortController(), new AbortController()];
    const query = { type: namespaces };
    const cache = caches.use(query, one.signal);
    assert.equal(caches.use({ ...query }, two.signal), cache);
    await cache.synced;
    assert.deepEqual(counted.asked, ['namespaces']);
    one.abort();
    await api.client.create(namespaces, { metadata: { name: 'later' } });
    await until('the second user is told', () => cache.has('later'));
    assert.equal(caches.size, 1);
    two.abort();
    assert.equal(caches.size, 0);
    // Who comes later gets a fresh one.
    const again = new AbortController();
    const fresh = caches.use(query, again.signal);
    assert.notEqual(fresh, cache);
    await fresh.synced;
    assert.deepEqual(counted.asked, ['namespaces', 'namespaces']);
    again.abort();
    assert.deepEqual(failures, []);
  });

  test('another selector or projection is another reflector', async () => {
    const { api, counted, caches } = await scene();
    await using _api = api;
    await using _caches = caches;
    const { signal } = new AbortController();
    const all = [
      caches.use({ type: pods }, signal),
      caches.use({ type: pods, projection: podFacts }, signal),
      caches.use({ type: pods, labelSelector: 'a' }, signal),
      caches.use({ type: pods, projection: podFacts, namespace: 'default' }, signal),
    ];
    assert.equal(new Set(all).size, 4);
    await Promise.all(all.map(({ synced }) => synced));
    assert.deepEqual(counted.asked.toSorted(), ['pods', 'pods', 'pods', 'pods a']);
  });

  test('an index that is added later has what was there before', async () => {
    const { api, caches } = await scene();
    await using _api = api;
    await using _caches = caches;
    const { signal } = new AbortController();
    await api.client.create(namespaces, { metadata: { name: 'first', labels: { team: 'a' } } });
    const cache = caches.use({ type: namespaces }, signal);
    await cache.synced;
    const team = ({ metadata }: { metadata: { labels?: Readonly<Record<string, string>> } }): string[] =>
      metadata.labels?.['team'] === undefined ? [] : [metadata.labels['team']];
    caches.use({ type: namespaces, indexes: { team } }, signal);
    caches.use({ type: namespaces, indexes: { team } }, signal);
    assert.deepEqual(cache.keysByIndex('team', 'a'), ['first']);
    await api.client.create(namespaces, { metadata: { name: 'second', labels: { team: 'a' } } });
    await until('the second is in it', () => cache.keysByIndex('team', 'a').length === 2);
    await api.client.patch(
      namespaces,
      { name: 'first' },
      { type: 'merge', body: { metadata: { labels: { team: 'b' } } } },
    );
    await until('the first has moved', () => cache.keysByIndex('team', 'b').length === 1);
    assert.deepEqual(cache.keysByIndex('team', 'a'), ['second']);
    assert.throws(
      () => caches.use({ type: namespaces, indexes: { team: () => [] } }, signal),
      /index "team" exists with another function/,
    );
  });
});
