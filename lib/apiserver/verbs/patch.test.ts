import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { type Asked, Bench, itemOf, meta, pod, widget } from './verbs.fixture.ts';

const json = 'application/json-patch+json';
const merge = 'application/merge-patch+json';
const strategic = 'application/strategic-merge-patch+json';
const apply = 'application/apply-patch+yaml';

test('each kind of patch changes the object', async () => {
  await using bench = await Bench.open();
  const resource = bench.pod;
  await bench.ask('create', { resource, body: pod('a') });
  const steps: readonly (readonly [Asked['patchType'], unknown])[] = [
    [json, [{ op: 'add', path: '/metadata/labels', value: { a: 'b' } }]],
    [merge, { metadata: { labels: { a: null, c: 'd' } } }],
    [strategic, { spec: { containers: [{ name: 'side', image: 'busybox' }] } }],
  ];
  for (const [patchType, body] of steps) {
    const answer = await bench.ask('patch', { resource, name: 'a', patchType: patchType ?? json, body });
    assert.equal(answer.kind === 'item' && answer.code, 200);
  }
  const object = await bench.object('get', { resource, name: 'a' });
  assert.deepEqual(meta(object)['labels'], { c: 'd' });
  const { containers } = object['spec'] as { containers: readonly JsonObject[] };
  assert.deepEqual(
    containers.map(({ name, imagePullPolicy }) => [name, imagePullPolicy]),
    [
      ['side', 'IfNotPresent'],
      ['main', 'IfNotPresent'],
    ],
  );
  assert.equal(meta(object)['generation'], 2);
});

test('a patch that changes nothing writes nothing', async () => {
  await using bench = await Bench.open();
  const first = await bench.object('create', { body: widget('a', { spec: { replicas: 1 } }) });
  const { version } = bench.store;
  for (const [patchType, body] of [
    [json, []],
    [json, [{ op: 'test', path: '/spec/replicas', value: 1 }]],
    [merge, {}],
    [merge, { spec: { replicas: 1 } }],
  ] as const) {
    assert.deepEqual(await bench.object('patch', { name: 'a', patchType, body }), first);
  }
  assert.equal(bench.store.version, version);
});

test('many patches of one object: each is done', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a') });
  const patches = Array.from({ length: 30 }, (_, index) =>
    bench.ask('patch', {
      name: 'a',
      patchType: merge,
      body: { metadata: { labels: { [`l${index}`]: 'x' } } },
    }),
  );
  await Promise.all(patches);
  assert.equal(Object.keys(meta(await bench.object('get', { name: 'a' }))['labels'] as object).length, 30);
});

const refused: readonly (readonly [string, Asked, number, string | RegExp])[] = [
  [
    'of what is not there',
    { name: 'none', patchType: merge, body: {} },
    404,
    'widgets.example.com "none" not found',
  ],
  [
    'strategic, of a custom kind',
    { patchType: strategic, body: {} },
    415,
    /^the body of the request was in an unknown format/,
  ],
  [
    'to another name',
    { patchType: merge, body: { metadata: { name: 'b' } } },
    400,
    'the name of the object (b) does not match the name on the URL (a)',
  ],
  [
    'to another namespace',
    { patchType: merge, body: { metadata: { namespace: 'other' } } },
    400,
    'the namespace of the object (other) does not match the namespace on the request (default)',
  ],
  [
    'to another uid',
    { patchType: merge, body: { metadata: { uid: 'u' } } },
    422,
    'Widget.example.com "a" is invalid: metadata.uid: Invalid value: "u": field is immutable',
  ],
  [
    'to another kind',
    { patchType: merge, body: { kind: 'Gadget' } },
    422,
    'Widget.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget',
  ],
  ['of another version', { patchType: merge, body: { metadata: { resourceVersion: '1' } } }, 409, /modified/],
  ['that is none', { patchType: json, body: {} }, 400, 'a JSON patch must be a list of operations'],
  [
    'whose test fails',
    { patchType: json, body: [{ op: 'test', path: '/kind', value: 'x' }] },
    422,
    'testing value /kind failed: test failed',
  ],
  [
    'to no metadata',
    { patchType: json, body: [{ op: 'replace', path: '/metadata', value: 5 }] },
    422,
    /^ "" is invalid: patch: Invalid value: /,
  ],
  [
    'with an unknown field, strictly',
    { patchType: merge, body: { spec: { nope: 1 } }, query: 'fieldValidation=Strict' },
    422,
    /^ "" is invalid: patch: Invalid value: .*: strict decoding error: unknown field "spec.nope"$/,
  ],
  [
    'forced, though no apply',
    { patchType: merge, body: {}, query: 'force=true' },
    422,
    'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
  ],
  [
    'apply without a manager',
    { patchType: apply, body: widget('a') },
    422,
    'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
  ],
  [
    'apply of another version',
    { patchType: apply, query: 'fieldManager=m', body: widget('a', {}, { resourceVersion: '1' }) },
    409,
    /modified/,
  ],
  [
    'apply of an object that is not there, by its uid',
    { patchType: apply, name: 'none', query: 'fieldManager=m', body: widget('none', {}, { uid: 'u' }) },
    409,
    'Operation cannot be fulfilled on widgets.example.com "none": uid mismatch: the provided object specified uid u, and no existing object was found',
  ],
  [
    'apply to the status of what is not there',
    { patchType: apply, subresource: 'status', name: 'none', query: 'fieldManager=m', body: widget('none') },
    404,
    'widgets.example.com "none" not found',
  ],
  [
    'apply of a field that is unknown',
    { patchType: apply, query: 'fieldManager=m', body: widget('a', { spec: { nope: 1 } }) },
    400,
    /field not declared in schema$/,
  ],
];

for (const [what, asked, code, message] of refused) {
  test(`a patch ${what}`, async () => {
    await using bench = await Bench.open();
    const before = await bench.object('create', { body: widget('a') });
    const status = await bench.refusal('patch', { name: 'a', ...asked });
    assert.equal(status.code, code, status.message);
    if (typeof message === 'string') assert.equal(status.message, message);
    else assert.match(status.message, message);
    assert.deepEqual(await bench.object('get', { name: 'a' }), before);
  });
}

test('unknown fields are reported and dropped', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a') });
  const object = await bench.object('patch', {
    name: 'a',
    patchType: merge,
    body: { spec: { nope: 1, replicas: 2 } },
  });
  assert.deepEqual(object['spec'], { replicas: 2, size: 'medium' });
  assert.deepEqual(bench.warnings, ['unknown field "spec.nope"']);
});

test('status and scale are patched in the form in which they are read', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a', { spec: { replicas: 1 } }) });
  const ready = { spec: { replicas: 7 }, status: { phase: 'Ready' } };
  const after = await bench.object('patch', {
    subresource: 'status',
    name: 'a',
    patchType: merge,
    body: ready,
  });
  assert.deepEqual([after['spec'], after['status']], [{ replicas: 1, size: 'medium' }, { phase: 'Ready' }]);
  const scale = await bench.object('patch', {
    subresource: 'scale',
    name: 'a',
    patchType: merge,
    body: { spec: { replicas: 4 } },
  });
  assert.deepEqual([scale['kind'], scale['spec']], ['Scale', { replicas: 4 }]);
});

test('apply creates, changes, and reports conflicts', async () => {
  await using bench = await Bench.open();
  const ask = (manager: string, spec: JsonObject, more = '') =>
    bench.ask('patch', {
      name: 'a',
      patchType: apply,
      query: `fieldManager=${manager}${more}`,
      body: widget('a', { spec }),
    });
  const created = await ask('one', { replicas: 1, parts: [{ name: 'x', count: 1 }] });
  assert.equal(created.kind === 'item' && created.code, 201);
  const { version } = bench.store;
  const same = await ask('one', { replicas: 1, parts: [{ name: 'x', count: 1 }] });
  assert.equal(same.kind === 'item' && same.code, 200);
  assert.equal(bench.store.version, version);
  const conflict = await bench.refusal('patch', {
    name: 'a',
    patchType: apply,
    query: 'fieldManager=two',
    body: widget('a', { spec: { replicas: 2 } }),
  });
  assert.deepEqual([conflict.code, conflict.reason], [409, 'Conflict']);
  assert.deepEqual(conflict.details?.causes, [
    { reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.spec.replicas' },
  ]);
  await ask('two', { replicas: 2, parts: [{ name: 'y' }] }, '&force=true');
  const after = itemOf(await ask('one', { parts: [{ name: 'x', count: 1 }] })).object;
  assert.deepEqual(after['spec'], {
    replicas: 2,
    size: 'medium',
    parts: [{ name: 'x', count: 1 }, { name: 'y' }],
  });
  const managers = (meta(after)['managedFields'] as readonly JsonObject[]).map(({ manager, operation }) => [
    manager,
    operation,
  ]);
  assert.deepEqual(managers, [
    ['one', 'Apply'],
    ['two', 'Apply'],
  ]);
});

test('apply to the status owns only the status', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a', { spec: {} }) });
  const after = await bench.object('patch', {
    subresource: 'status',
    name: 'a',
    patchType: apply,
    query: 'fieldManager=s',
    body: widget('a', { spec: { replicas: 5 }, status: { phase: 'Ready' } }),
  });
  assert.deepEqual([after['spec'], after['status']], [{ size: 'medium' }, { phase: 'Ready' }]);
  const entry = (meta(after)['managedFields'] as readonly JsonObject[]).find(
    ({ manager }) => manager === 's',
  );
  assert.deepEqual(entry?.['fieldsV1'], { 'f:status': { 'f:phase': {} } });
  assert.equal(entry?.['subresource'], 'status');
});

test('a dry run of an apply', async () => {
  await using bench = await Bench.open();
  const { version } = bench.store;
  const asked: Asked = { name: 'a', patchType: apply, query: 'fieldManager=m&dryRun=All', body: widget('a') };
  const answer = await bench.ask('patch', asked);
  assert.equal(answer.kind === 'item' && answer.code, 201);
  assert.equal(bench.store.version, version);
});

test('in another version of the kind, a patch says its fields as that version has them', async () => {
  await using bench = await Bench.open();
  await bench.ask('create', { body: widget('a') });
  const resource = bench.widget2;
  const object = await bench.object('patch', {
    resource,
    name: 'a',
    patchType: merge,
    body: { spec: { extent: 'small' } },
  });
  assert.deepEqual([object['apiVersion'], object['spec']], ['example.com/v2', { extent: 'small' }]);
  assert.deepEqual((await bench.object('get', { name: 'a' }))['spec'], { size: 'small' });
});
