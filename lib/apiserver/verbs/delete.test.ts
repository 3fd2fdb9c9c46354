import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { type Asked, Bench, meta, pod, widget } from './verbs.fixture.ts';

const named = (name: string): JsonObject => ({ metadata: { name } });

test('an object that nothing holds goes at once', async () => {
  await using bench = await Bench.open();
  const { uid } = meta(await bench.object('create', { body: widget('a') }));
  const answer = await bench.ask('delete', { name: 'a' });
  assert.deepEqual(answer, {
    kind: 'status',
    code: 200,
    body: {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: { name: 'a', group: 'example.com', kind: 'widgets', uid },
    },
  });
  assert.equal((await bench.refusal('delete', { name: 'a' })).message, 'widgets.example.com "a" not found');
});

test('a dry run leaves it', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a') });
  const { version } = bench.store;
  assert.equal((await bench.ask('delete', { name: 'a', query: 'dryRun=All' })).kind, 'status');
  const marked = await bench.object('delete', {
    name: 'a',
    body: { dryRun: ['All'], propagationPolicy: 'Foreground' },
  });
  assert.deepEqual(meta(marked)['finalizers'], ['foregroundDeletion']);
  assert.equal(bench.store.version, version);
});

test('finalizers hold it, as one that is being deleted', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a', {}, { finalizers: ['example.com/hold'] }) });
  const marked = await bench.object('delete', { name: 'a' });
  assert.deepEqual(
    [
      meta(marked)['deletionTimestamp'],
      meta(marked)['deletionGracePeriodSeconds'],
      meta(marked)['generation'],
    ],
    ['2030-01-01T00:00:00Z', 0, 2],
  );
  const { version } = bench.store;
  await bench.clock.advance(3_000);
  assert.deepEqual(await bench.object('delete', { name: 'a' }), marked);
  assert.equal(bench.store.version, version);
});

const ways: readonly (readonly [Asked, readonly string[] | undefined])[] = [
  [{ query: 'propagationPolicy=Foreground' }, ['foregroundDeletion']],
  [{ body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Orphan' } }, ['orphan']],
  [{ body: { orphanDependents: true } }, ['orphan']],
  [{ query: 'propagationPolicy=Background' }, undefined],
  [{ query: 'orphanDependents=false' }, undefined],
];

for (const [asked, finalizers] of ways) {
  test(`the fate of dependents with ${JSON.stringify(asked)}`, async () => {
    await using bench = await Bench.open();
    await bench.ask('create', { body: widget('a') });
    const answer = await bench.ask('delete', { name: 'a', ...asked });
    if (finalizers === undefined) assert.equal(answer.kind, 'status');
    else assert.deepEqual(answer.kind === 'item' && meta(answer.item.object)['finalizers'], finalizers);
  });
}

test('another way of deletion takes the place of the one before', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a', {}, { finalizers: ['example.com/hold'] }) });
  await bench.ask('delete', { name: 'a', query: 'propagationPolicy=Foreground' });
  const marked = await bench.object('delete', { name: 'a', query: 'propagationPolicy=Orphan' });
  assert.deepEqual(meta(marked)['finalizers'], ['example.com/hold', 'orphan']);
  const answer = await bench.ask('delete', { name: 'a', query: 'orphanDependents=false' });
  assert.equal(answer.kind === 'item' && answer.code, 202);
});

test('preconditions', async () => {
  await using bench = await Bench.open();
  const { uid, resourceVersion } = meta(await bench.object('create', { body: widget('a') }));
  const other = await bench.refusal('delete', { name: 'a', body: { preconditions: { uid: 'u' } } });
  assert.deepEqual(
    [other.code, other.message],
    [
      409,
      `Operation cannot be fulfilled on Widget.example.com "a": the UID in the precondition (u) does not match the UID in record (${String(uid)}). The object might have been deleted and then recreated`,
    ],
  );
  const stale = await bench.refusal('delete', {
    name: 'a',
    body: { preconditions: { resourceVersion: '1' } },
  });
  assert.equal(stale.code, 409);
  const preconditions = { uid, resourceVersion };
  assert.equal((await bench.ask('delete', { name: 'a', body: { preconditions } })).kind, 'status');
});

test('pods get time to end, and answer themselves', async () => {
  await using bench = await Bench.open();
  const resource = bench.pod;
  await bench.ask('create', { resource, body: pod('free') });
  const gone = await bench.object('delete', { resource, name: 'free' });
  assert.equal(meta(gone)['name'], 'free');
  await bench.ask('create', { resource, body: pod('a', { nodeName: 'n' }) });
  const ask = async (query: string): Promise<readonly unknown[]> => {
    const { deletionTimestamp, deletionGracePeriodSeconds } = meta(
      await bench.object('delete', { resource, name: 'a', query }),
    );
    return [deletionTimestamp, deletionGracePeriodSeconds];
  };
  assert.deepEqual(await ask(''), ['2030-01-01T00:00:30Z', 30]);
  await bench.clock.advance(5_000);
  assert.deepEqual(await ask('gracePeriodSeconds=60'), ['2030-01-01T00:00:30Z', 30]);
  assert.deepEqual(await ask('gracePeriodSeconds=10'), ['2030-01-01T00:00:10Z', 10]);
  assert.deepEqual(await ask(''), ['2030-01-01T00:00:10Z', 10]);
  assert.deepEqual(await ask('gracePeriodSeconds=-5'), ['2030-01-01T00:00:01Z', 1]);
  await ask('gracePeriodSeconds=0');
  assert.equal((await bench.refusal('get', { resource, name: 'a' })).code, 404);
});

test('time to end and a finalizer', async () => {
  await using bench = await Bench.open();
  const resource = bench.pod;
  await bench.ask('create', {
    resource,
    body: pod('a', { nodeName: 'n' }, { finalizers: ['example.com/hold'] }),
  });
  await bench.ask('delete', { resource, name: 'a' });
  const freed = {
    patchType: 'application/merge-patch+json',
    body: { metadata: { finalizers: null } },
  } as const;
  // Its time is not over.
  const running = await bench.object('patch', { resource, name: 'a', ...freed });
  assert.equal(meta(running)['deletionGracePeriodSeconds'], 30);
  await bench.ask('delete', { resource, name: 'a', query: 'gracePeriodSeconds=0' });
  assert.equal((await bench.refusal('get', { resource, name: 'a' })).code, 404);
});

test('a namespace: marked, then finalized', async () => {
  await using bench = await Bench.open();
  const resource = bench.namespace;
  const marked = await bench.object('delete', { resource, name: 'other' });
  assert.deepEqual(marked['status'], { phase: 'Terminating' });
  assert.equal(meta(marked)['deletionTimestamp'], '2030-01-01T00:00:00Z');
  const late = await bench.refusal('create', { namespace: 'other', body: widget('a') });
  assert.deepEqual(
    [late.code, late.message, late.details?.causes],
    [
      403,
      'widgets.example.com "a" is forbidden: unable to create new content in namespace other because it is being terminated',
      [
        {
          reason: 'NamespaceTerminating',
          message: 'namespace other is being terminated',
          field: 'metadata.namespace',
        },
      ],
    ],
  );
  const finalized = { ...marked, spec: { finalizers: [] } };
  await bench.ask('update', { resource, subresource: 'finalize', name: 'other', body: finalized });
  assert.equal((await bench.refusal('get', { resource, name: 'other' })).code, 404);
  assert.equal((await bench.refusal('create', { namespace: 'other', body: widget('a') })).code, 404);
});

test('a namespace that objects were just created in is not taken for one that is there still', async () => {
  await using bench = await Bench.open();
  const resource = bench.namespace;
  await bench.ask('create', { namespace: 'other', body: widget('a') });
  await bench.ask('create', { namespace: 'other', body: widget('b') });
  await bench.ask('delete', { resource, name: 'other' });
  assert.equal((await bench.refusal('create', { namespace: 'other', body: widget('c') })).code, 403);
});

test('some namespaces stay', async () => {
  await using bench = await Bench.open();
  const { code, message } = await bench.refusal('delete', { resource: bench.namespace, name: 'default' });
  assert.deepEqual(
    [code, message],
    [403, 'namespaces "default" is forbidden: this namespace may not be deleted'],
  );
});

const refused: readonly (readonly [Asked, number, RegExp])[] = [
  [
    { query: 'propagationPolicy=Somehow' },
    422,
    /^DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Somehow": supported values: "Foreground", "Background", "Orphan", "nil"$/,
  ],
  [{ body: { propagationPolicy: 'Orphan', orphanDependents: true } }, 422, /cannot be both set$/],
  [{ query: 'gracePeriodSeconds=x' }, 400, /^strconv.ParseInt: parsing "x": invalid syntax$/],
  [{ body: { kind: 'Widget' } }, 400, /DeleteOptions is expected$/],
  [{ body: { gracePeriodSeconds: 'x' } }, 400, /of type int64$/],
  [{ body: [] }, 400, /DeleteOptions$/],
];

for (const [asked, code, message] of refused) {
  test(`a deletion is refused: ${JSON.stringify(asked)}`, async () => {
    await using bench = await Bench.open();
    await bench.ask('create', { body: widget('a') });
    const status = await bench.refusal('delete', { name: 'a', ...asked });
    assert.equal(status.code, code);
    assert.match(status.message, message);
    assert.equal((await bench.ask('get', { name: 'a' })).kind, 'item');
  });
}

test('a collection: what is selected goes, and is answered', async () => {
  await using bench = await Bench.open();
  for (let index = 0; index < 200; index++) {
    await bench.ask('create', { body: widget(`w${index}`, {}, { labels: { odd: String(index % 2) } }) });
  }
  await bench.ask('create', { namespace: 'other', body: widget('w1', {}, { labels: { odd: '1' } }) });
  const answer = await bench.ask('deletecollection', { query: 'labelSelector=odd%3D1' });
  assert.equal(answer.kind === 'list' && answer.list.items.length, 100);
  const left = await bench.ask('list', { namespace: '' });
  const names = left.kind === 'list' ? left.list.items.map(({ object }) => meta(object)['labels']) : [];
  assert.deepEqual(
    [names.length, names.filter((labels) => (labels as JsonObject)['odd'] === '1').length],
    [101, 1],
  );
});

test('a collection: the first refusal is reported', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { resource: bench.namespace, body: named('third') });
  const status = await bench.refusal('deletecollection', { resource: bench.namespace });
  assert.equal(status.code, 403);
});
