import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { Bench, itemOf, meta, pod, widget } from './verbs.fixture.ts';

const namespaceless = (object: JsonObject, more: JsonObject): JsonObject => ({
  ...object,
  metadata: { ...meta(object), ...more },
});

test('a change of what is wanted counts, one of metadata or status does not', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a', { spec: { replicas: 1 } }) });
  const labelled = await bench.object('update', {
    name: 'a',
    body: namespaceless(first, { labels: { a: 'b' } }),
  });
  assert.equal(meta(labelled)['generation'], 1);
  const { spec: _spec, ...rest } = labelled;
  const grown = await bench.object('update', {
    name: 'a',
    body: { ...rest, spec: { replicas: 2 }, status: { phase: 'Sent' } },
  });
  assert.equal(meta(grown)['generation'], 2);
  assert.equal(grown['status'], undefined);
  assert.deepEqual(grown['spec'], { replicas: 2, size: 'medium' });
  assert.deepEqual(await bench.object('get', { name: 'a' }), grown);
});

test('an update that changes nothing writes nothing', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a') });
  const { version } = bench.store;
  await bench.clock.advance(5_000);
  assert.deepEqual(await bench.object('update', { name: 'a', body: first }), first);
  const { managedFields: _dropped, ...bare } = meta(first);
  assert.deepEqual(await bench.object('update', { name: 'a', body: { ...first, metadata: bare } }), first);
  assert.equal(bench.store.version, version);
});

test('the version: stale, none, unreadable', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a') });
  const body = { ...first, spec: { replicas: 3 } };
  await bench.ask('update', { name: 'a', body });
  const stale = await bench.refusal('update', { name: 'a', body });
  assert.deepEqual(
    [stale.code, stale.reason, stale.message],
    [
      409,
      'Conflict',
      'Operation cannot be fulfilled on widgets.example.com "a": the object has been modified; please apply your changes to the latest version and try again',
    ],
  );
  const none = await bench.refusal('update', { name: 'a', body: widget('a') });
  assert.deepEqual(
    [none.code, none.message],
    [
      422,
      'widgets.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0x0: must be specified for an update',
    ],
  );
  const unreadable = await bench.refusal('update', {
    name: 'a',
    body: widget('a', {}, { resourceVersion: 'x' }),
  });
  assert.equal(unreadable.code, 422);
});

test('without a version, where the kind allows it, all writers get their turn', async () => {
  await using bench = await Bench.open();
  const resource = bench.pod;
  await bench.ask('create', { resource, body: pod('a') });
  const writers = Array.from({ length: 20 }, (_, index) =>
    bench.object('update', { resource, name: 'a', body: pod('a', {}, { labels: { by: `w${index}` } }) }),
  );
  const versions = new Set((await Promise.all(writers)).map((object) => meta(object)['resourceVersion']));
  assert.equal(versions.size, 20);
});

test('the name, the namespace and the uid have to be those of the object', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a') });
  const cases: readonly (readonly [JsonObject, number, string])[] = [
    [{ name: 'b' }, 400, 'the name of the object (b) does not match the name on the URL (a)'],
    [{ name: '' }, 400, 'the name of the object (a based on URL) was undeterminable: name must be provided'],
    [
      { namespace: 'other' },
      400,
      'the namespace of the object (other) does not match the namespace on the request (default)',
    ],
    [
      { uid: 'u' },
      409,
      `Operation cannot be fulfilled on widgets.example.com "a": Precondition failed: UID in precondition: u, UID in object meta: ${String(meta(first)['uid'])}`,
    ],
    [
      { deletionTimestamp: '2026-01-01T00:00:00Z' },
      422,
      'Widget.example.com "a" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable',
    ],
  ];
  for (const [more, code, message] of cases) {
    const status = await bench.refusal('update', { name: 'a', body: namespaceless(first, more) });
    assert.deepEqual([status.code, status.message], [code, message]);
  }
  const kept = await bench.object('update', {
    name: 'a',
    body: namespaceless(first, { generation: 9, creationTimestamp: '2001-01-01T00:00:00Z', selfLink: '/x' }),
  });
  assert.deepEqual(kept, first);
});

test('rules: those of the schema, of changes, of the strategy', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a', { spec: { frozen: 'x' } }) });
  const thawed = await bench.refusal('update', { name: 'a', body: { ...first, spec: { frozen: 'y' } } });
  assert.match(thawed.message, /spec.frozen: Invalid value: .*is frozen$/);
  const resource = bench.pod;
  const placed = await bench.object('create', { resource, body: pod('p', { nodeName: 'n1' }) });
  const moved = { ...placed, spec: { ...(placed['spec'] as JsonObject), nodeName: 'n2' } };
  const status = await bench.refusal('update', { resource, name: 'p', body: moved });
  assert.equal(status.message, 'Pod "p" is invalid: spec.nodeName: Forbidden: may not be changed');
});

test('PUT creates where the kind allows it', async () => {
  await using bench = await Bench.open();
  const resource = bench.lease;
  const body = { metadata: { name: 'a' }, spec: { holderIdentity: 'x' } };
  const answer = await bench.ask('update', { resource, name: 'a', body });
  assert.equal(answer.kind === 'item' && answer.code, 201);
  assert.equal(meta(itemOf(answer).object)['generation'], undefined);
  assert.equal((await bench.refusal('update', { name: 'a', body: widget('a') })).code, 404);
  const withUid = { ...body, metadata: { name: 'b', uid: 'u' } };
  assert.equal((await bench.refusal('update', { resource, name: 'b', body: withUid })).code, 409);
});

test('status: nothing else changes by it', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', {
    body: widget('a', { spec: { replicas: 1 } }, { labels: { a: 'b' } }),
  });
  const sent = {
    ...namespaceless(first, { labels: { c: 'd' }, finalizers: ['example.com/x'] }),
    spec: { replicas: 9 },
    status: { phase: 'Ready' },
  };
  const query = { fieldManager: 'controller' };
  const after = await bench.object('update', { subresource: 'status', name: 'a', body: sent, query });
  const { managedFields, resourceVersion: _version, ...metadata } = meta(after);
  const { managedFields: before, resourceVersion: _before, ...old } = meta(first);
  assert.deepEqual(metadata, old);
  assert.deepEqual([after['spec'], after['status']], [first['spec'], { phase: 'Ready' }]);
  assert.deepEqual(managedFields, [
    {
      manager: 'controller',
      operation: 'Update',
      apiVersion: 'example.com/v1',
      time: '2030-01-01T00:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:status': { '.': {}, 'f:phase': {} } },
      subresource: 'status',
    },
    ...(before as unknown[]),
  ]);
  const stale = await bench.refusal('update', { subresource: 'status', name: 'a', body: sent });
  assert.equal(stale.code, 409);
  assert.deepEqual(await bench.object('get', { subresource: 'status', name: 'a' }), after);
});

test('scale: another kind, over the same object', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a', { spec: { replicas: 1 } }) });
  const scale = await bench.object('get', { subresource: 'scale', name: 'a' });
  assert.deepEqual([scale['kind'], scale['spec']], ['Scale', { replicas: 1 }]);
  const after = await bench.object('update', {
    subresource: 'scale',
    name: 'a',
    body: { ...scale, spec: { replicas: 5 } },
  });
  assert.deepEqual(after['spec'], { replicas: 5 });
  const object = await bench.object('get', { name: 'a' });
  assert.equal(meta(after)['resourceVersion'], meta(object)['resourceVersion']);
  assert.deepEqual([object['spec'], meta(object)['generation']], [{ replicas: 5, size: 'medium' }, 2]);
  const stale = await bench.refusal('update', {
    subresource: 'scale',
    name: 'a',
    body: { ...scale, spec: { replicas: 6 } },
  });
  assert.equal(stale.code, 409);
  const negative = { ...after, spec: { replicas: -1 } };
  assert.equal(
    (await bench.refusal('update', { subresource: 'scale', name: 'a', body: negative })).code,
    422,
  );
});

test('the last finalizer that goes takes the object along', async () => {
  await using bench = await Bench.open();
  const finalizers = ['example.com/one', 'example.com/two'];
  await bench.ask('create', { body: widget('a', {}, { finalizers }) });
  await bench.ask('delete', { name: 'a' });
  const marked = await bench.object('get', { name: 'a' });
  const added = await bench.refusal('update', {
    name: 'a',
    body: namespaceless(marked, { finalizers: [...finalizers, 'example.com/three'] }),
  });
  assert.match(
    added.message,
    /metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \[\]string\{"example.com\/three"\}$/,
  );
  const body = namespaceless(marked, { finalizers: [] });
  const gone = await bench.object('update', { name: 'a', body, query: 'dryRun=All' });
  assert.equal(meta(gone)['finalizers'], undefined);
  assert.equal((await bench.ask('get', { name: 'a' })).kind, 'item');
  await bench.ask('update', { name: 'a', body });
  assert.equal((await bench.refusal('get', { name: 'a' })).code, 404);
});

test('a dry run of an update writes nothing', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a') });
  const { version } = bench.store;
  const body = { ...first, spec: { replicas: 4 } };
  const after = await bench.object('update', { name: 'a', body, query: 'dryRun=All' });
  assert.deepEqual([after['spec'], meta(after)['generation']], [{ replicas: 4, size: 'medium' }, 2]);
  assert.equal(bench.store.version, version);
  assert.deepEqual(await bench.object('get', { name: 'a' }), first);
});
