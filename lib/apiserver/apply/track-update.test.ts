import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Refusal } from '../../json/refusal.ts';
import type { JsonObject } from '../../json/json.ts';
import { configuration, Store, thing, withSpec } from './field-manager.fixture.ts';
import { trackUpdate } from './field-manager.ts';
import { managerName } from './managed-fields.ts';

const withEntries = (entries: unknown) => (object: JsonObject) => ({
  ...object,
  metadata: { ...(object['metadata'] as JsonObject), managedFields: entries },
});

function made(): Store {
  const store = new Store();
  store.update('maker', () => configuration({ spec: { replicas: 1, image: 'a' } }));
  return store;
}

describe('managedFields on create, update and patch', () => {
  it('entries that come back with their times in another form are the same', () => {
    const store = made();
    const before = store.entries;
    const entries = before.map((entry) => ({ ...entry, time: String(entry['time']).replace('Z', '.000Z') }));
    store.update('other', withEntries(entries));
    assert.deepEqual(store.entries, before);
  });

  it('the time of an entry is that of its last change', () => {
    const store = made();
    store.update('other', withSpec({ replicas: 2 }));
    store.update('maker', (object) => ({ ...object }));
    store.update('other', withSpec({ replicas: 2 }));
    assert.deepEqual(
      store.entries.map((entry) => [entry['manager'], entry['time']]),
      [
        ['maker', '2024-01-01T00:00:01Z'],
        ['other', '2024-01-01T00:00:02Z'],
      ],
    );
    store.update('maker', withSpec({ paused: true }));
    assert.deepEqual(
      store.entries.map((entry) => [entry['manager'], entry['time']]),
      [
        ['other', '2024-01-01T00:00:02Z'],
        ['maker', '2024-01-01T00:00:05Z'],
      ],
    );
    assert.deepEqual(store.owned('maker', 'Update'), {
      'f:spec': { '.': {}, 'f:image': {}, 'f:paused': {} },
    });
  });

  it('an update of what an applier owns takes it over, and the applier finds a conflict', () => {
    const store = new Store();
    store.apply('me', { spec: { replicas: 1, image: 'a' } });
    store.update('me', withSpec({ replicas: 2 }));
    assert.deepEqual(store.owned('me', 'Apply'), { 'f:spec': { 'f:image': {} } });
    assert.deepEqual(store.owned('me', 'Update'), { 'f:spec': { 'f:replicas': {} } });
    assert.throws(
      () => store.apply('me', { spec: { replicas: 1 } }),
      (error) =>
        error instanceof Refusal &&
        error.message.endsWith('conflict with "me" using example.com/v1: .spec.replicas'),
    );
  });

  it('a subresource has entries of its own, which the main object may not be seen to write', () => {
    const store = made();
    const status = (object: JsonObject) => ({ ...object, status: { phase: 'x' } });
    store.update('controller', status, { subresource: 'status', resetFields: [['spec']] });
    assert.deepEqual(store.owned('controller', 'Update', 'status'), {
      'f:status': { '.': {}, 'f:phase': {} },
    });
    assert.equal(store.entries.find((entry) => entry['manager'] === 'controller')?.['subresource'], 'status');
    store.update('me', (object) => ({ ...object, status: { phase: 'y' } }), { resetFields: [['status']] });
    assert.equal(store.owned('me', 'Update'), undefined);
  });

  it('items of lists have owners each', () => {
    const store = made();
    store.update('one', withSpec({ containers: [{ name: 'a', image: '1' }], zones: ['x'] }));
    store.update(
      'two',
      withSpec({ containers: [{ name: 'a', image: '2' }, { name: 'b' }], zones: ['y', 'x'] }),
    );
    assert.deepEqual(store.owned('one', 'Update'), {
      'f:spec': {
        'f:containers': { '.': {}, 'k:{"name":"a"}': { '.': {}, 'f:name': {} } },
        'f:zones': { '.': {}, 'v:"x"': {} },
      },
    });
    assert.deepEqual(store.owned('two', 'Update'), {
      'f:spec': {
        'f:containers': { 'k:{"name":"a"}': { 'f:image': {} }, 'k:{"name":"b"}': { '.': {}, 'f:name': {} } },
        'f:zones': { 'v:"y"': {} },
      },
    });
  });

  for (const reset of [[], [{}]]) {
    it(`${JSON.stringify(reset)} removes the entries, and they stay away`, () => {
      const store = made();
      store.update('me', withEntries(reset));
      assert.deepEqual(store.object, configuration({ spec: { replicas: 1, image: 'a' } }));
      store.update('me', withSpec({ replicas: 2 }));
      assert.deepEqual(store.entries, []);
      store.apply('me', { spec: { replicas: 2 } });
      assert.deepEqual(
        store.entries.map((entry) => entry['manager']),
        ['me', 'before-first-apply'],
      );
    });
  }

  it('a create with entries that are reset is tracked like any other', () => {
    const store = new Store();
    store.update('maker', () => withEntries([])(configuration({ spec: { replicas: 1 } })));
    assert.deepEqual(store.owned('maker', 'Update'), { 'f:spec': { '.': {}, 'f:replicas': {} } });
  });

  it('a client that drops the entries, or sends nonsense, changes nothing in them', () => {
    const store = made();
    const before = store.entries;
    const nonsense: readonly unknown[] = [
      undefined,
      null,
      'x',
      [1],
      [{ manager: 'x' }],
      [{ ...before[0], operation: 'Spam' }],
      [{ ...before[0], fieldsType: 'FieldsV2' }],
      [{ ...before[0], apiVersion: '' }],
      [{ ...before[0], fieldsV1: { 'k:{': {} } }],
      [{ ...before[0], fieldsV1: { nothing: {} } }],
      [{ ...before[0], fieldsV1: 1 }],
      [{ ...before[0], time: 1 }],
    ];
    for (const entries of nonsense) {
      store.update('me', withEntries(entries));
      assert.deepEqual(store.entries, before, JSON.stringify(entries));
    }
  });

  it('entries may be written, but not through a subresource', () => {
    const store = made();
    const mine = { ...store.entries[0], manager: 'mine' };
    store.update('me', withEntries([mine]), { subresource: 'status' });
    assert.equal(store.entries[0]?.['manager'], 'maker');
    store.update('me', withEntries([mine]));
    assert.deepEqual(store.entries, [mine]);
  });

  it('who is said to own what is not there has it when it comes', () => {
    const store = made();
    store.update('me', withEntries([{ ...store.entries[0], fieldsV1: { 'f:spec': { 'f:paused': {} } } }]));
    assert.throws(
      () => store.apply('other', { spec: { paused: true } }),
      (error) => error instanceof Refusal && error.message.endsWith(': .spec.paused'),
    );
  });

  it('entries are sorted by operation, time and name', () => {
    const store = made();
    store.apply('b', { spec: { paused: true } });
    store.update('c', withSpec({ image: 'c' }));
    store.apply('a', { spec: { zones: ['a'] } });
    assert.deepEqual(
      store.entries.map((entry) => `${String(entry['operation'])} ${String(entry['manager'])}`),
      ['Apply b', 'Apply a', 'Update maker', 'Update c'],
    );
  });

  it('the oldest of more than ten updaters become one', () => {
    const store = made();
    for (let index = 0; index < 14; index++) {
      store.update(`m${index}`, (object) => ({
        ...object,
        data: { ...(object['data'] as JsonObject), [`k${index}`]: 'v' },
      }));
    }
    const names = store.entries.map((entry) => entry['manager']);
    assert.equal(names.length, 10);
    assert.deepEqual(names.slice(0, 2), ['ancient-changes', 'm5']);
    assert.deepEqual(store.owned('ancient-changes', 'Update'), {
      'f:data': { '.': {}, ...Object.fromEntries([0, 1, 2, 3, 4].map((index) => [`f:k${index}`, {}])) },
      'f:spec': { '.': {}, 'f:image': {}, 'f:replicas': {} },
    });
    assert.equal(store.entries[0]?.['time'], '2024-01-01T00:00:06Z');
  });

  it('neither object is changed', () => {
    const live = made().object ?? {};
    const updated = withSpec({ replicas: 5 })(live);
    const before = JSON.stringify([live, updated]);
    trackUpdate(live, updated, {
      type: thing,
      manager: 'me',
      apiVersion: 'example.com/v1',
      now: new Date(0),
    });
    assert.equal(JSON.stringify([live, updated]), before);
  });

  it('fields of lists that became one value own the whole of it', () => {
    const store = new Store();
    store.update('maker', () => configuration({ spec: { replicas: 1 } }));
    const granular = {
      ...store.entries[0],
      fieldsV1: { 'f:spec': { 'f:args': { 'v:"a"': {} }, 'f:replicas': {} } },
    };
    store.update('maker', withEntries([granular]));
    assert.deepEqual(store.owned('maker', 'Update'), { 'f:spec': { 'f:args': {}, 'f:replicas': {} } });
  });
});

describe('the name of a manager', () => {
  const cases: readonly (readonly [string | undefined, string | undefined, string])[] = [
    ['me', 'kubectl/v1', 'me'],
    [undefined, 'kubectl/v1.34.0 (linux/amd64) kubernetes/abc', 'kubectl'],
    ['', 'node', 'node'],
    [undefined, undefined, ''],
    [undefined, '\u0000a\nb/x', 'ab'],
    [undefined, 'ä'.repeat(100), 'ä'.repeat(64)],
  ];
  for (const [fieldManager, userAgent, name] of cases) {
    it(`the manager of ${JSON.stringify(fieldManager)} and ${JSON.stringify(userAgent?.slice(0, 20))}`, () =>
      assert.equal(managerName(fieldManager, userAgent), name));
  }
});

describe('from kubectl apply to kubectl apply --server-side', () => {
  const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
  const last = configuration({ spec: { replicas: 1, image: 'a' } });

  function clientSide(text = JSON.stringify(last)): Store {
    const store = new Store();
    store.update('kubectl-client-side-apply', () => ({
      ...last,
      metadata: { name: 'x', annotations: { [annotation]: text } },
    }));
    return store;
  }

  it('a field in the last-applied annotation is not a conflict, and the annotation is updated', () => {
    const store = clientSide();
    store.apply('kubectl', { spec: { replicas: 2, image: 'b' } });
    assert.deepEqual(store.get('spec'), { replicas: 2, image: 'b' });
    const annotations = store.get('metadata', 'annotations') as JsonObject;
    assert.deepEqual(
      JSON.parse(String(annotations[annotation])),
      configuration({ spec: { replicas: 2, image: 'b' } }),
    );
    assert.equal(store.apply('kubectl', { spec: { replicas: 2, image: 'b' } }), false);
  });

  it('a field changed since then is a conflict, and for other managers every field is', () => {
    const store = clientSide();
    store.update('scaler', withSpec({ replicas: 5 }));
    assert.throws(
      () => store.apply('kubectl', { spec: { replicas: 2, image: 'b' } }),
      (error) =>
        error instanceof Refusal && /with 1 conflict: conflict with "scaler" .*replicas$/.test(error.message),
    );
    assert.throws(
      () => store.apply('me', { spec: { image: 'b' } }),
      (error) => error instanceof Refusal && /"kubectl-client-side-apply" .*image$/.test(error.message),
    );
  });

  for (const text of [
    '{',
    '[]',
    '"x"',
    'null',
    '[[['.repeat(50_000),
    JSON.stringify({ ...last, apiVersion: 'v0' }),
  ]) {
    it(`an annotation of ${JSON.stringify(text.slice(0, 12))} excuses nothing`, () => {
      const store = clientSide(text);
      assert.throws(
        () => store.apply('kubectl', { spec: { replicas: 2 } }),
        (error) => error instanceof Refusal && error.status.code === 409,
      );
    });
  }
});
