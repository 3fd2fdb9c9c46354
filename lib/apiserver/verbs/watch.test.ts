import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { ApiError } from '../resources/api-error.ts';
import type { JsonObject } from '../../json/json.ts';
import type { WatchEvent } from './request.ts';
import { type Asked, Bench, meta, widget, widgets } from './verbs.fixture.ts';

type Events = AsyncIterator<readonly WatchEvent[]>;

function reported(event: WatchEvent): string {
  if (event.type === 'BOOKMARK') return `BOOKMARK${event.initialEventsEnd ? ' end' : ''}`;
  return `${event.type} ${String(meta(event.item.object)['name'])}`;
}

/** The next `count` events. */
async function next(events: Events, count: number): Promise<WatchEvent[]> {
  const found: WatchEvent[] = [];
  while (found.length < count) {
    const { done, value } = await events.next();
    if (done === true) throw new Error(`the watch has ended after ${found.map(reported).join()}`);
    found.push(...value);
  }
  assert.equal(found.length, count, found.map(reported).join());
  return found;
}

const nextReported = async (events: Events, count: number): Promise<string[]> =>
  (await next(events, count)).map(reported);

const patch = (bench: Bench, name: string, body: JsonObject) =>
  bench.ask('patch', { name, patchType: 'application/merge-patch+json', body });

test('from a version: what has changed since', async () => {
  await using bench = await Bench.open();
  const { version } = bench.store;
  await bench.ask('create', { body: widget('a') });
  const events = await bench.watch({ query: `resourceVersion=${version}` });
  assert.deepEqual(await nextReported(events, 1), ['ADDED a']);
  await bench.ask('create', { namespace: 'other', body: widget('elsewhere') });
  await patch(bench, 'a', { spec: { replicas: 1 } });
  await bench.ask('delete', { name: 'a' });
  const [modified, deleted] = await next(events, 2);
  assert.ok(modified?.type === 'MODIFIED' && deleted?.type === 'DELETED');
  assert.deepEqual(deleted.item.object['spec'], { replicas: 1, size: 'medium' });
  assert.equal(meta(deleted.item.object)['resourceVersion'], String(bench.store.version));
  await events.return?.();
});

for (const query of ['', 'resourceVersion=0', 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan']) {
  test(`existing objects come first: ${query}`, async () => {
    await using bench = await Bench.open();
    for (const name of ['b', 'a']) await bench.ask('create', { body: widget(name) });
    const { version } = bench.store;
    const silent = await bench.watch({ query });
    const marked = await bench.watch({ query: `${query}&allowWatchBookmarks=true` });
    assert.deepEqual(await nextReported(silent, 2), ['ADDED a', 'ADDED b']);
    const [, , end] = await next(marked, 3);
    assert.deepEqual(end, { type: 'BOOKMARK', version, initialEventsEnd: true });
    await patch(bench, 'a', { spec: { replicas: 1 } });
    for (const events of [silent, marked]) {
      assert.deepEqual(await nextReported(events, 1), ['MODIFIED a']);
      await events.return?.();
    }
  });
}

test('without what is there, where that is not wanted', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a') });
  const events = await bench.watch({ query: 'sendInitialEvents=false&resourceVersionMatch=NotOlderThan' });
  await bench.ask('create', { body: widget('b') });
  assert.deepEqual(await nextReported(events, 1), ['ADDED b']);
  await events.return?.();
});

test('an object that begins to match is added, one that ceases to is deleted in its previous state', async () => {
  await using bench = await Bench.open();
  const query = { labelSelector: 'app=web', resourceVersion: String(bench.store.version) };
  const events = await bench.watch({ query });
  const bySize = await bench.watch({
    query: { ...query, labelSelector: '', fieldSelector: 'spec.size=large' },
  });
  const labelled = (app: string): JsonObject => ({ metadata: { labels: { app } } });
  await bench.ask('create', { body: widget('a', { spec: { size: 'small' } }) });
  await patch(bench, 'a', labelled('web'));
  await patch(bench, 'a', { spec: { size: 'large' } });
  await patch(bench, 'a', labelled('db'));
  await patch(bench, 'a', { spec: { size: 'small' } });
  await bench.ask('delete', { name: 'a' });
  const seen = await next(events, 3);
  assert.deepEqual(seen.map(reported), ['ADDED a', 'MODIFIED a', 'DELETED a']);
  const departed = seen[2]?.type === 'DELETED' ? seen[2].item.object : {};
  assert.deepEqual(meta(departed)['labels'], { app: 'web' });
  assert.equal(meta(departed)['resourceVersion'], String(bench.store.version - 2n));
  assert.deepEqual(await nextReported(bySize, 3), ['ADDED a', 'MODIFIED a', 'DELETED a']);
  for (const one of [events, bySize]) await one.return?.();
});

test('one object by its name', async () => {
  await using bench = await Bench.open();
  for (const name of ['a', 'b']) await bench.ask('create', { body: widget(name) });
  const events = await bench.watch({ query: 'fieldSelector=metadata.name%3Db' });
  await bench.ask('delete', { name: 'a' });
  await bench.ask('delete', { name: 'b' });
  assert.deepEqual(
    [...(await nextReported(events, 1)), ...(await nextReported(events, 1))],
    ['ADDED b', 'DELETED b'],
  );
  await events.return?.();
});

test('all watches of a version of the kind share what they give', async () => {
  await using bench = await Bench.open();
  const query = { resourceVersion: String(bench.store.version) };
  const asked: readonly Asked[] = [
    { query },
    { query: { ...query, labelSelector: '!x' } },
    { query: { ...query, fieldSelector: 'spec.size!=x' } },
  ];
  const watches = await Promise.all(asked.map((one) => bench.watch(one)));
  await bench.ask('create', { body: widget('a') });
  const items = await Promise.all(
    watches.map(async (events) => {
      const [event] = await next(events, 1);
      return event?.type === 'ADDED' ? event.item : undefined;
    }),
  );
  assert.ok(items[0] !== undefined && items.every((item) => item === items[0]));
  for (const events of watches) await events.return?.();
});

test('bookmarks come about once a minute, and at the end', async () => {
  await using bench = await Bench.open({ random: () => 0.5 });
  const events = await bench.watch({
    query: {
      allowWatchBookmarks: 'true',
      timeoutSeconds: '100',
      resourceVersion: String(bench.store.version),
    },
  });
  const first = events.next();
  await bench.ask('create', { resource: bench.lease, body: { metadata: { name: 'unseen' } } });
  const { version } = bench.store;
  await bench.clock.advance(29_999);
  let isSettled = false;
  void first.then(() => (isSettled = true));
  await turn();
  assert.equal(isSettled, false);
  await bench.clock.advance(1);
  assert.deepEqual((await first).value, [{ type: 'BOOKMARK', version, initialEventsEnd: false }]);
  const second = events.next();
  await bench.clock.advance(60_000);
  assert.deepEqual((await second).value?.map(reported), ['BOOKMARK']);
  const last = events.next();
  await bench.clock.advance(10_000);
  assert.deepEqual((await last).value?.map(reported), ['BOOKMARK']);
  assert.equal((await events.next()).done, true);
  assert.equal(bench.clock.timers, 0);
});

test('no bookmark says more than was given', async () => {
  await using bench = await Bench.open({ random: () => 0.5 });
  const query = { allowWatchBookmarks: 'true', resourceVersion: String(bench.store.version) };
  const events = await bench.watch({ query });
  const waiting = events.next();
  await bench.ask('create', { body: widget('a') });
  await waiting;
  const given = bench.store.version;
  await bench.ask('create', { body: widget('b') });
  await bench.clock.advance(60_000);
  const [{ value: one }, { value: two }] = [await events.next(), await events.next()];
  const all = [...(one ?? []), ...(two ?? [])];
  const at = all.findIndex(({ type }) => type === 'BOOKMARK');
  const bookmark = all[at];
  assert.ok(bookmark?.type === 'BOOKMARK');
  // Before the change it was given, it must be of a version before it; behind it, of that version.
  assert.equal(bookmark.version, at === 0 ? given : bench.store.version);
  await events.return?.();
});

test('ends with its time, its signal, its kind', async () => {
  await using bench = await Bench.open({ random: () => 0 });
  const stop = new AbortController();
  const [timed, long, stopped, served] = await Promise.all([
    bench.watch({ query: 'timeoutSeconds=5' }),
    bench.watch(),
    bench.watch({ signal: stop.signal }),
    bench.watch({ query: 'timeoutSeconds=100000' }),
  ]);
  const ends = [timed, long, stopped, served].map((events) => events.next());
  await bench.clock.advance(5_000);
  assert.equal((await ends[0])?.done, true);
  await bench.clock.advance(30 * 60_000);
  assert.equal((await ends[1])?.done, true);
  stop.abort();
  assert.equal((await ends[2])?.done, true);
  bench.registry.add([bench.pod]);
  bench.registry.add(widgets());
  assert.equal((await ends[3])?.done, true);
  assert.equal(bench.clock.timers, 0);
});

test('a version that is compacted: 410 as an event', async () => {
  await using bench = await Bench.open();
  const { version } = bench.store;
  await bench.ask('create', { body: widget('a') });
  await bench.store.compact();
  const events = await bench.watch({ query: `resourceVersion=${version}` });
  await assert.rejects(events.next(), (error) => {
    assert.ok(error instanceof ApiError);
    const { code, reason, message } = error.status;
    assert.deepEqual(
      [code, reason, message],
      [410, 'Expired', `too old resource version: ${version} (${bench.store.version})`],
    );
    return true;
  });
  assert.equal((await events.next()).done, true);
});

test('a store that is closed ends it with 503', async () => {
  const bench = await Bench.open();
  const events = await bench.watch();
  const waiting = events.next();
  const failed = assert.rejects(waiting, (error) => error instanceof ApiError && error.status.code === 503);
  await turn();
  await bench[Symbol.asyncDispose]();
  await failed;
});

const refused: readonly (readonly [string, number, RegExp])[] = [
  ['sendInitialEvents=true', 422, /sendInitialEvents requires setting resourceVersionMatch to NotOlderThan$/],
  [
    'resourceVersionMatch=NotOlderThan',
    422,
    /resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided$/,
  ],
  [
    'sendInitialEvents=true&resourceVersionMatch=Exact',
    422,
    /Unsupported value: "Exact": supported values: "NotOlderThan"\]$/,
  ],
  ['resourceVersion=x', 422, /^widgets.example.com "" is invalid: resourceVersion: Invalid value: "x"/],
  ['resourceVersion=99999', 504, /Too large resource version/],
  ['fieldSelector=nope%3Dx', 400, /^field label not supported: nope$/],
];

for (const [query, code, message] of refused) {
  test(`a watch is refused: ${query}`, async () => {
    await using bench = await Bench.open();
    const status = await bench.refusal('watch', { query });
    assert.equal(status.code, code, status.message);
    assert.match(status.message, message);
  });
}
