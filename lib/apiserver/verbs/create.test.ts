import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../resources/api-error.ts';
import { Bench, itemOf, meta, pod, widget } from './verbs.fixture.ts';

test('a new object gets what only the server sets', async () => {
  await using bench = await Bench.open();
  const sent = widget(
    'a',
    { spec: { replicas: 2 }, status: { phase: 'Sent' } },
    {
      uid: 'mine',
      generation: 7,
      creationTimestamp: '2001-01-01T00:00:00Z',
      deletionTimestamp: '2001-01-01T00:00:00Z',
      deletionGracePeriodSeconds: 5,
      selfLink: '/x',
      labels: { app: 'web' },
      annotations: {},
      finalizers: [],
    },
  );
  const answer = await bench.ask('create', { body: sent });
  assert.equal(answer.kind === 'item' && answer.code, 201);
  const { object } = itemOf(answer);
  const { uid, resourceVersion, managedFields, ...rest } = meta(object);
  assert.deepEqual(rest, {
    name: 'a',
    namespace: 'default',
    labels: { app: 'web' },
    generation: 1,
    creationTimestamp: '2030-01-01T00:00:00Z',
  });
  assert.match(String(uid), /^[0-9a-f-]{36}$/);
  assert.equal(resourceVersion, String(bench.store.version));
  assert.deepEqual(object['spec'], { replicas: 2, size: 'medium' });
  assert.equal(object['status'], undefined);
  assert.deepEqual(managedFields, [
    {
      manager: 'tester',
      operation: 'Update',
      apiVersion: 'example.com/v1',
      time: '2030-01-01T00:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: {
        'f:metadata': { 'f:labels': { '.': {}, 'f:app': {} } },
        'f:spec': { '.': {}, 'f:replicas': {}, 'f:size': {} },
      },
    },
  ]);
  assert.deepEqual(await bench.object('get', { name: 'a' }), object);
});

test('a built-in kind need not say what it is, and its strategy is asked', async () => {
  await using bench = await Bench.open();
  const { apiVersion: _version, kind: _kind, ...body } = pod('a', { nodeName: 'old' });
  const object = await bench.object('create', { resource: bench.pod, body });
  assert.deepEqual(
    [object['apiVersion'], object['kind'], object['status']],
    ['v1', 'Pod', { phase: 'Pending' }],
  );
  assert.deepEqual(bench.warnings, ['spec.nodeName: old node']);
});

const refused: readonly {
  readonly what: string;
  readonly body: unknown;
  readonly query?: string;
  readonly namespace?: string;
  readonly builtIn?: boolean;
  readonly duplicates?: readonly string[];
  readonly code: number;
  readonly message: string | RegExp;
}[] = [
  {
    what: 'another version',
    body: { ...widget('a'), apiVersion: 'example.com/v2' },
    code: 400,
    message:
      'the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)',
  },
  {
    what: 'another kind',
    body: { ...widget('a'), kind: 'Gadget' },
    code: 422,
    message: 'Widget.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget',
  },
  {
    what: 'no object',
    body: 'x',
    code: 400,
    message: /^the object provided is unrecognized \(must be of type Widget\)/,
  },
  { what: 'no body', body: undefined, code: 400, message: /EOF$/ },
  { what: 'no kind', body: { ...widget('a'), kind: '' }, code: 400, message: /Object 'Kind' is missing$/ },
  {
    what: 'a version of the object',
    body: widget('a', {}, { resourceVersion: '5' }),
    code: 400,
    message: 'resourceVersion should not be set on objects to be created',
  },
  {
    what: 'another namespace',
    body: widget('a', {}, { namespace: 'other' }),
    code: 400,
    message: 'the namespace of the provided object does not match the namespace sent on the request',
  },
  {
    what: 'a missing namespace',
    namespace: 'nowhere',
    body: widget('a'),
    code: 404,
    message: 'namespaces "nowhere" not found',
  },
  {
    what: 'labels that are none',
    body: widget('a', {}, { labels: 5 }),
    code: 400,
    message:
      'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string',
  },
  {
    what: 'no name',
    body: { ...widget('a'), metadata: {} },
    code: 422,
    message:
      'Widget.example.com "" is invalid: metadata.name: Required value: name or generateName is required',
  },
  {
    what: 'a bad value and a bad name',
    body: widget('A', { spec: { size: 'huge' } }),
    code: 422,
    message:
      /^Widget.example.com "A" is invalid: \[metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must .*, spec.size: Unsupported value: "huge": supported values: "small", "medium", "large", <nil>: .*\]$/,
  },
  {
    what: 'unknown fields, strictly',
    query: 'fieldValidation=Strict',
    body: widget('a', { spec: { x: 1 } }, { nope: 1 }),
    duplicates: ['duplicate field "spec.size"'],
    code: 400,
    message:
      'Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "spec.size", unknown field "metadata.nope", unknown field "spec.x"',
  },
  {
    what: 'a field validation that is none',
    query: 'fieldValidation=Loose',
    body: widget('a'),
    code: 422,
    message:
      'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"',
  },
  {
    what: 'a dry run that is none',
    query: 'dryRun=Some',
    body: widget('a'),
    code: 422,
    message:
      'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
  },
  {
    what: 'a field manager that is too long',
    query: `fieldManager=${'m'.repeat(129)}`,
    body: widget('a'),
    code: 422,
    message:
      'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
  },
  {
    what: 'a finalizer of a built-in kind without a domain',
    builtIn: true,
    body: pod('a', {}, { finalizers: ['mine'] }),
    code: 422,
    message: /name is neither a standard finalizer name nor is it fully qualified$/,
  },
];

for (const { what, body, code, message, builtIn, ...asked } of refused) {
  test(`create: ${what}`, async () => {
    await using bench = await Bench.open();
    const before = bench.store.version;
    const status = await bench.refusal('create', {
      ...asked,
      body,
      resource: builtIn ? bench.pod : bench.widget,
    });
    assert.equal(status.code, code);
    if (typeof message === 'string') assert.equal(status.message, message);
    else assert.match(status.message, message);
    assert.equal(bench.store.version, before);
  });
}

test('unknown fields are dropped, with warnings unless they are not wanted', async () => {
  await using bench = await Bench.open();
  const body = widget('a', { spec: { x: 1 } });
  const object = await bench.object('create', { body, duplicates: ['duplicate field "spec.x"'] });
  assert.deepEqual(bench.warnings, ['duplicate field "spec.x"', 'unknown field "spec.x"']);
  assert.deepEqual(object['spec'], { size: 'medium' });
  await bench.ask('create', { body: widget('b', { spec: { x: 1 } }), query: { fieldValidation: 'Ignore' } });
  assert.deepEqual(bench.warnings, []);
});

test('an existing object cannot be created', async () => {
  await using bench = await Bench.open();
  const body = widget('a', {}, { finalizers: ['example.com/hold'] });
  await bench.ask('create', { body });
  const status = await bench.refusal('create', { body });
  assert.deepEqual(
    [status.code, status.reason, status.message, status.details],
    [
      409,
      'AlreadyExists',
      'widgets.example.com "a" already exists',
      { name: 'a', group: 'example.com', kind: 'widgets' },
    ],
  );
  assert.equal((await bench.refusal('create', { body, query: 'dryRun=All' })).code, 409);
  await bench.ask('delete', { name: 'a' });
  const { message } = await bench.refusal('create', { body });
  assert.equal(message, 'object is being deleted: widgets.example.com "a" already exists');
});

test('names are generated', async () => {
  await using bench = await Bench.open();
  const body = { ...widget(''), metadata: { generateName: 'web-' } };
  const names = new Set<unknown>();
  for (let count = 0; count < 50; count++) {
    const { name, generateName } = meta(await bench.object('create', { body }));
    assert.match(String(name), /^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    assert.equal(generateName, 'web-');
    names.add(name);
  }
  assert.equal(names.size, 50);
  const long = { ...widget(''), metadata: { generateName: 'w'.repeat(70) } };
  assert.equal(String(meta(await bench.object('create', { body: long }))['name']).length, 63);
});

test('a dry run does all but the writing', async () => {
  await using bench = await Bench.open();
  const before = bench.store.version;
  const object = await bench.object('create', { body: widget('a'), query: 'dryRun=All' });
  assert.equal(meta(object)['resourceVersion'], undefined);
  assert.equal(typeof meta(object)['uid'], 'string');
  assert.equal((await bench.refusal('create', { body: widget('A'), query: 'dryRun=All' })).code, 422);
  assert.equal(bench.store.version, before);
  assert.equal((await bench.refusal('get', { name: 'a' })).code, 404);
});

test('another version of the kind is stored as the one that is stored', async () => {
  await using bench = await Bench.open();
  const body = { ...widget('a', { spec: { extent: 'large' } }), apiVersion: 'example.com/v2' };
  const object = await bench.object('create', { resource: bench.widget2, body });
  assert.deepEqual(bench.warnings, ['example.com/v2 Widget is deprecated']);
  assert.deepEqual([object['apiVersion'], object['spec']], ['example.com/v2', { extent: 'large' }]);
  const stored = await bench.object('get', { name: 'a' });
  assert.deepEqual([stored['apiVersion'], stored['spec']], ['example.com/v1', { size: 'large' }]);
});

test('integers of 64 bits stay what they are', async () => {
  await using bench = await Bench.open();
  const serial = 2n ** 63n - 1n;
  const object = await bench.object('create', { body: widget('a', { spec: { serial } }) });
  assert.deepEqual(object['spec'], { serial, size: 'medium' });
  const changed = await bench.object('patch', {
    name: 'a',
    patchType: 'application/merge-patch+json',
    body: { spec: { replicas: 1 } },
  });
  assert.deepEqual(changed['spec'], { serial, size: 'medium', replicas: 1 });
});

test('duplicate owners count once', async () => {
  await using bench = await Bench.open();
  const owner = { apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' };
  const body = widget('a', {}, { ownerReferences: [owner, { ...owner }, { ...owner, uid: 'other' }] });
  const object = await bench.object('create', { body });
  assert.deepEqual(meta(object)['ownerReferences'], [owner, { ...owner, uid: 'other' }]);
  assert.match(bench.warnings.join(), /duplicate UID\(s\) observed: \[u\]$/);
});

test('if too many writes wait for the disk, the client is asked to retry', async () => {
  await using bench = await Bench.open({}, { maxWaitingSize: 5_000 });
  const answers = await Promise.allSettled(
    Array.from({ length: 50 }, (_, index) => bench.ask('create', { body: widget(`w${index}`) })),
  );
  const refusals = answers.flatMap((answer) =>
    answer.status === 'rejected' ? [answer.reason as unknown] : [],
  );
  assert.ok(refusals.length > 0 && refusals.length < 50);
  for (const refusal of refusals) {
    assert.ok(refusal instanceof ApiError);
    assert.deepEqual([refusal.status.code, refusal.status.details?.retryAfterSeconds], [429, 1]);
  }
  const list = await bench.ask('list');
  assert.equal(list.kind === 'list' && list.list.items.length, 50 - refusals.length);
});

test('over all namespaces there is only reading', async () => {
  await using bench = await Bench.open();
  assert.equal((await bench.refusal('create', { namespace: '', body: widget('a') })).code, 405);
  assert.equal((await bench.refusal('deletecollection', { namespace: '' })).code, 405);
});
