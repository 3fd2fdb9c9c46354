import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type Answer, json, type Pair, pair, status } from '../client/api-server.fixture.ts';
import { isConflict, isNotFound } from '../client/client-errors.ts';
import { addFinalizer, removeFinalizer } from './finalizers.ts';
import type { KubeObject, ResourceType } from '../object/object.ts';

const things: ResourceType = {
  group: 'test.io',
  version: 'v1',
  plural: 'things',
  kind: 'Thing',
  namespaced: true,
};
const MINE = 'test.io/mine';
const THEIRS = 'test.io/theirs';
const { signal } = new AbortController();

type Meta = KubeObject['metadata'];

/** One stored object, with what an API server does about versions, uids and finalizers. */
class Store {
  stored: Meta | undefined;
  /** Called before each request: others who change things. */
  before: (method: string) => void = () => undefined;
  readonly answer: Answer = ({ method, body }, response) => {
    this.before(method);
    if (this.stored === undefined) return json(response, 404, status(404, 'NotFound', 'gone'));
    if (method === 'PATCH') {
      const patch = (JSON.parse(body) as { metadata: Meta }).metadata;
      const { resourceVersion = '', uid } = patch;
      if (resourceVersion !== this.stored.resourceVersion || uid !== this.stored.uid) {
        return json(response, 409, status(409, 'Conflict', 'the object has been modified'));
      }
      this.change(patch);
      const answer = { metadata: this.stored };
      if (this.stored.deletionTimestamp && this.stored.finalizers?.length === 0) this.stored = undefined;
      return json(response, 200, answer);
    }
    json(response, 200, { metadata: this.stored });
  };

  constructor(meta: Meta) {
    this.stored = { namespace: 'a', name: 'x', uid: 'u1', resourceVersion: '1', ...meta };
  }

  change(meta: Meta): void {
    const resourceVersion = `${Number(this.stored?.resourceVersion) + 1}`;
    this.stored = { ...this.stored, ...meta, resourceVersion };
  }

  get object(): KubeObject {
    assert.ok(this.stored);
    return { metadata: structuredClone(this.stored) };
  }
}

async function withStore(meta: Meta, run: (store: Store, both: Pair) => Promise<void>): Promise<void> {
  const store = new Store(meta);
  await using both = await pair(store.answer, { perSecond: Infinity });
  await run(store, both);
}

const deletionTimestamp = '2026-01-01T00:00:00Z';

suite('finalizers', () => {
  test('added once, removed once, others are kept', () =>
    withStore({ finalizers: [THEIRS] }, async (store, { client, server }) => {
      const added = await addFinalizer(client, things, store.object, MINE, { signal, fieldManager: 'me' });
      assert.deepEqual(added.metadata.finalizers, [THEIRS, MINE]);
      assert.match(server.received[0]?.url ?? '', /fieldManager=me/);
      assert.equal(server.received[0]?.headers['content-type'], 'application/merge-patch+json');
      assert.equal(await addFinalizer(client, things, added, MINE, { signal }), added);
      const removed = await removeFinalizer(client, things, added, MINE, { signal });
      assert.ok(removed);
      assert.deepEqual(removed.metadata.finalizers, [THEIRS]);
      assert.equal(await removeFinalizer(client, things, removed, MINE, { signal }), removed);
      assert.equal(server.received.length, 2, 'nothing is sent where nothing changes');
    }));

  test('a concurrent change by another client: both changes last', () =>
    withStore({ finalizers: [] }, async (store, { client }) => {
      const read = store.object;
      store.change({ finalizers: [THEIRS] });
      const added = await addFinalizer(client, things, read, MINE, { signal });
      assert.deepEqual(added.metadata.finalizers, [THEIRS, MINE]);
      store.change({ finalizers: [THEIRS, MINE, 'test.io/third'] });
      const removed = await removeFinalizer(client, things, added, MINE, { signal });
      assert.deepEqual(removed?.metadata.finalizers, [THEIRS, 'test.io/third']);
      const unread = { metadata: { namespace: 'a', name: 'x' } };
      const again = await addFinalizer(client, things, unread, MINE, { signal });
      assert.deepEqual(again.metadata.finalizers, [THEIRS, 'test.io/third', MINE]);
    }));

  test('an object that others change without end: a conflict after some tries', () =>
    withStore({}, async (store, { client, server }) => {
      store.before = (method) => void (method === 'PATCH' && store.change({}));
      await assert.rejects(addFinalizer(client, things, store.object, MINE, { signal }), isConflict);
      assert.equal(server.received.filter(({ method }) => method === 'PATCH').length, 5);
    }));

  test('none is added to an object that is being deleted, known or not', () =>
    withStore({}, async (store, { client }) => {
      const read = store.object;
      store.change({ deletionTimestamp, finalizers: [THEIRS] });
      for (const object of [read, store.object]) {
        await assert.rejects(addFinalizer(client, things, object, MINE, { signal }), {
          code: 'RAMPART_CONFLICT',
          message: /finalizer test.io\/mine of things a\/x: it is being deleted/,
        });
      }
    }));

  test('gone, or another of the same name: not touched', () =>
    withStore({ finalizers: [MINE] }, async (store, { client }) => {
      const read = store.object;
      store.change({ uid: 'u2', finalizers: [THEIRS] });
      assert.equal(await removeFinalizer(client, things, read, MINE, { signal }), undefined);
      await assert.rejects(
        addFinalizer(client, things, { metadata: { ...read.metadata, finalizers: [] } }, MINE, { signal }),
        /it was replaced/,
      );
      assert.deepEqual(store.stored?.finalizers, [THEIRS]);
      store.stored = undefined;
      assert.equal(await removeFinalizer(client, things, read, MINE, { signal }), undefined);
      await assert.rejects(addFinalizer(client, things, read, THEIRS, { signal }), isNotFound);
    }));
});
