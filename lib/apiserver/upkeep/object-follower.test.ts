import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { Store } from '../store/store.ts';
import { ExpiredError } from '../store/errors.ts';
import { crd } from '../custom/crds.fixture.ts';
import { ObjectFollower } from './object-follower.ts';
import { configMap, kinds, startServer, type TestServer } from './server.fixture.ts';

/** A store whose lists and watches fail as `fails` says. */
function failing(store: Store, fails: (what: 'listPortions' | 'watch') => Error | undefined): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...all: unknown[]): unknown => {
        const error = name === 'listPortions' || name === 'watch' ? fails(name) : undefined;
        if (error !== undefined) throw error;
        return (value as (...given: unknown[]) => unknown).apply(target, all);
      };
    },
  });
}

function follow(server: TestServer, store: Store) {
  const seen: string[] = [];
  const stop = new AbortController();
  const follower = new ObjectFollower({
    store,
    registry: server.registry,
    follows: (storeName) => storeName === 'configmaps' || storeName.startsWith('crontabs.'),
    listener: {
      object: (type, object) => void seen.push(`${type} ${object.name}`),
      listBegins: (storeName) => void seen.push(`begin ${storeName}`),
      listEnds: (storeName) => void seen.push(`end ${storeName}`),
    },
  });
  return { seen, follower, stop, ended: follower.run(stop.signal) };
}

suite('ObjectFollower', { timeout: 300_000 }, () => {
  test('lists, then follows; kinds that come later too, until they go', async () => {
    await using server = await startServer({ upkeep: false });
    await server.create(kinds.configMaps, configMap('a'));
    const { seen, follower, stop, ended } = follow(server, server.store);
    await follower.caughtUp(stop.signal);
    await server.create(kinds.configMaps, configMap('b'));
    await server.delete(kinds.configMaps, 'a');
    await follower.caughtUp(stop.signal);
    assert.deepEqual(seen, ['begin configmaps', 'ADDED a', 'end configmaps', 'ADDED b', 'DELETED a']);
    const resource = await server.define(crd());
    await server.until('it is followed', () => seen.includes(`end ${resource.storeName}`));
    assert.equal(follower.kinds, 2);
    await server.delete(kinds.crds, resource.storeName);
    await server.until('it is no longer followed', () => follower.kinds === 1);
    stop.abort();
    await ended;
  });

  test('failures are retried, and lost history leads to another list', async () => {
    await using server = await startServer({ upkeep: false });
    await server.create(kinds.configMaps, configMap('a'));
    const errors: (Error | undefined)[] = [new Error('disk'), undefined, new ExpiredError('watch', 1n, 2n)];
    const { seen, follower, stop, ended } = follow(
      server,
      failing(server.store, () => errors.shift()),
    );
    await follower.caughtUp(stop.signal);
    const once = ['begin configmaps', 'ADDED a', 'end configmaps'];
    assert.deepEqual(seen, ['begin configmaps', ...once, ...once]);
    assert.equal(follower.failures, 1, 'lost history is no failure');
    stop.abort();
    await ended;
  });
});
