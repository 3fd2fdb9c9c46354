import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import * as fc from '../../testing/fast-check.fixture.ts';
import { ApiError } from '../resources/api-error.ts';
import type { JsonObject } from '../../json/json.ts';
import { type Asked, Bench, meta, widget } from './verbs.fixture.ts';

/** A client's knowledge: the version that it has seen, by namespace and name. */
type Known = Map<string, string>;

const views: readonly Asked[] = [
  { namespace: '' },
  { namespace: 'default' },
  { namespace: '', query: { labelSelector: 'app=web' } },
  { namespace: 'default', query: { labelSelector: 'app!=web,app' } },
  { namespace: '', query: { labelSelector: '!app' } },
  { namespace: '', query: { fieldSelector: 'spec.size=large' } },
  { namespace: '', query: { fieldSelector: 'metadata.name=b' } },
  {
    namespace: 'other',
    query: { fieldSelector: 'metadata.name!=b,spec.size!=large', labelSelector: 'app in (web,db)' },
  },
];

const write = fc.record({
  verb: fc.constantFrom('create', 'create', 'patch', 'patch', 'delete', 'status', 'collection'),
  namespace: fc.constantFrom('default', 'other'),
  name: fc.constantFrom('a', 'b', 'c'),
  app: fc.constantFrom('web', 'db', null),
  size: fc.constantFrom('small', 'large'),
});
type Write = typeof write extends fc.Arbitrary<infer Value> ? Value : never;

async function written(bench: Bench, { verb, namespace, name, app, size }: Write): Promise<void> {
  const labels = app === null ? {} : { app };
  const asked: Asked = { namespace, name, patchType: 'application/merge-patch+json' };
  try {
    if (verb === 'create')
      await bench.ask('create', { namespace, body: widget(name, { spec: { size } }, { labels }) });
    else if (verb === 'delete') await bench.ask('delete', asked);
    else if (verb === 'collection')
      await bench.ask('deletecollection', { namespace, query: `labelSelector=app%3D${app ?? 'web'}` });
    else if (verb === 'status')
      await bench.ask('patch', { ...asked, subresource: 'status', body: { status: { phase: size } } });
    else await bench.ask('patch', { ...asked, body: { metadata: { labels: { app } }, spec: { size } } });
  } catch (error) {
    // It exists already, or does not: no write.
    if (!(error instanceof ApiError) || ![404, 409].includes(error.status.code)) throw error;
  }
}

const keyOf = (object: JsonObject): string =>
  `${String(meta(object)['namespace'])}/${String(meta(object)['name'])}`;

async function listed(
  bench: Bench,
  view: Asked,
): Promise<{ readonly known: Known; readonly version: bigint }> {
  const answer = await bench.ask('list', view);
  if (answer.kind !== 'list') throw new Error('no list');
  const known = answer.list.items.map(
    ({ object }) => [keyOf(object), String(meta(object)['resourceVersion'])] as const,
  );
  return { known: new Map(known), version: answer.list.version };
}

/** Follows from a list on, and gives what is known at a version. */
async function followed(bench: Bench, view: Asked, from: bigint, known: Known, upTo: bigint): Promise<Known> {
  const stop = new AbortController();
  const query = {
    ...(view.query as Record<string, string> | undefined),
    allowWatchBookmarks: 'true',
    resourceVersion: String(from),
  };
  const events = await bench.watch({ ...view, query, signal: stop.signal });
  let last = from;
  try {
    while (last < upTo) {
      const pending = events.next();
      // Without events, a bookmark shows the progress.
      await bench.clock.advance(60_000);
      const { done, value } = await pending;
      if (done === true) throw new Error(`the watch has ended at ${last}, before ${upTo}`);
      for (const event of value) {
        const version =
          event.type === 'BOOKMARK'
            ? event.version
            : BigInt(String(meta(event.item.object)['resourceVersion']));
        assert.ok(version >= last, `version ${version} after ${last}`);
        last = version;
        if (event.type === 'BOOKMARK') continue;
        const key = keyOf(event.item.object);
        assert.equal(known.has(key), event.type !== 'ADDED', `${event.type} ${key}`);
        if (event.type === 'DELETED') known.delete(key);
        else known.set(key, String(version));
      }
    }
  } finally {
    await events.return?.();
  }
  return known;
}

async function check(bench: Bench, before: readonly Write[], after: readonly Write[]): Promise<void> {
  for (const one of before) await written(bench, one);
  const starts = await Promise.all(views.map((view) => listed(bench, view)));
  // Some go into one commit.
  for (let at = 0; at < after.length; at += 3) {
    await Promise.all(after.slice(at, at + 3).map((one) => written(bench, one)));
  }
  const ends = await Promise.all(views.map((view) => listed(bench, view)));
  for (const [index, view] of views.entries()) {
    const [start, end] = [starts[index], ends[index]];
    if (start === undefined || end === undefined) throw new Error('no list');
    const known = await followed(bench, view, start.version, start.known, end.version);
    assert.deepEqual(known, end.known, JSON.stringify(view));
  }
}

test('the events between two lists make the one of the other', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(write, { maxLength: 8 }),
      fc.array(write, { maxLength: 24 }),
      async (before, after) => {
        await using bench = await Bench.open({}, { recentLimit: 4 });
        await check(bench, before, after);
      },
    ),
    { numRuns: 60 },
  );
});

test('the same on the disk, with a thread that writes', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-verbs-'));
  try {
    let count = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(write, { maxLength: 5 }),
        fc.array(write, { maxLength: 15 }),
        async (before, after) => {
          await using bench = await Bench.open({}, { path: join(directory, `${count++}.db`) });
          await check(bench, before, after);
        },
      ),
      { numRuns: 8 },
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test('several watches, each at its own pace, see all concurrent writes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(write, { minLength: 5, maxLength: 40 }), async (writes) => {
      await using bench = await Bench.open();
      const from = bench.store.version;
      const stop = new AbortController();
      const seen = views.map((): Known => new Map());
      const readers = views.map(async (view, index) => {
        const query = {
          ...(view.query as Record<string, string> | undefined),
          resourceVersion: String(from),
        };
        const events = await bench.watch({ ...view, query, signal: stop.signal });
        const known = seen[index] ?? new Map<string, string>();
        for (let round = 0; ; round++) {
          const { done, value } = await events.next();
          if (done === true) return;
          for (const event of value) {
            if (event.type === 'BOOKMARK') continue;
            const key = keyOf(event.item.object);
            assert.equal(known.has(key), event.type !== 'ADDED');
            if (event.type === 'DELETED') known.delete(key);
            else known.set(key, String(meta(event.item.object)['resourceVersion']));
          }
          for (let wait = 0; wait < index % 3; wait++) await new Promise(setImmediate);
        }
      });
      for (const one of writes) await written(bench, one);
      const ends = await Promise.all(views.map((view) => listed(bench, view)));
      const areEqual = (): boolean =>
        isDeepStrictEqual(
          seen,
          ends.map(({ known }) => known),
        );
      // Each reader has its turns to come to the end; what is given then, is given.
      for (let turns = 0; turns < 1_000 && !areEqual(); turns++) await new Promise(setImmediate);
      stop.abort();
      await Promise.all(readers);
      for (const [index, known] of seen.entries()) assert.deepEqual(known, ends[index]?.known);
    }),
    { numRuns: 40 },
  );
});
