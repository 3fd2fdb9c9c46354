import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { refusalOf } from '../../json/refusal.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { configuration, spec, Store, withSpec } from './field-manager.fixture.ts';

describe('apply', () => {
  it('an apply keeps the fields of others, and removes its own earlier fields that it omits now', () => {
    const store = new Store();
    store.apply(
      'me',
      spec({ replicas: 3, image: 'a', containers: [{ name: 'web', image: 'w', command: ['c'] }] }),
    );
    store.update('other', withSpec({ paused: true }));
    store.apply('me', spec({ replicas: 3, containers: [{ name: 'web', image: 'w' }] }));
    assert.deepEqual(store.get('spec'), {
      replicas: 3,
      paused: true,
      containers: [{ name: 'web', image: 'w' }],
    });
  });

  it('applying over the value of another manager is a conflict, with the message of the API server', () => {
    const store = new Store();
    store.update('kubectl', () =>
      configuration(spec({ replicas: 1, containers: [{ name: 'web', image: 'a' }] })),
    );
    const one = refusalOf(() => store.apply('me', spec({ replicas: 2 })));
    assert.deepEqual(one, {
      code: 409,
      reason: 'Conflict',
      message: 'Apply failed with 1 conflict: conflict with "kubectl" using example.com/v1: .spec.replicas',
      causes: [
        {
          reason: 'FieldManagerConflict',
          message: 'conflict with "kubectl" using example.com/v1',
          field: '.spec.replicas',
        },
      ],
    });
    const two = refusalOf(() =>
      store.apply('me', spec({ replicas: 2, containers: [{ name: 'web', image: 'b' }] })),
    );
    assert.equal(
      two.message,
      'Apply failed with 2 conflicts: conflicts with "kubectl" using example.com/v1:\n- .spec.replicas\n- .spec.containers[name="web"].image',
    );
    assert.deepEqual(store.get('spec', 'replicas'), 1);
  });

  it('names a manager of a subresource, and one that applied, without version', () => {
    const store = new Store();
    store.apply('maker', spec({ replicas: 1 }));
    store.update('hpa', withSpec({ image: 'x' }), { subresource: 'scale' });
    const { causes } = refusalOf(() => store.apply('me', spec({ replicas: 2, image: 'y' })));
    assert.deepEqual(
      causes?.map(({ message, field }) => `${message} ${field}`),
      [
        'conflict with "hpa" with subresource "scale" using example.com/v1 .spec.image',
        'conflict with "maker" .spec.replicas',
      ],
    );
  });

  it('by force takes over', () => {
    const store = new Store();
    store.apply('one', spec({ replicas: 1, image: 'a' }));
    store.apply('two', spec({ replicas: 2 }), { force: true });
    assert.equal(store.get('spec', 'replicas'), 2);
    assert.deepEqual(store.owned('one'), { 'f:spec': { 'f:image': {} } });
    assert.deepEqual(store.owned('two'), { 'f:spec': { 'f:replicas': {} } });
    // The first no longer owns it, so that not applying it does not remove it.
    store.apply('one', spec({ image: 'a' }));
    assert.equal(store.get('spec', 'replicas'), 2);
  });

  it('managers that apply an equal value share it; it goes when its last owner drops it', () => {
    const store = new Store();
    store.apply('one', spec({ replicas: 1, image: 'a' }));
    store.apply('two', spec({ replicas: 1 }));
    assert.equal(refusalOf(() => store.apply('one', spec({ replicas: 2, image: 'a' }))).code, 409);
    store.apply('one', spec({ image: 'a' }));
    assert.equal(store.get('spec', 'replicas'), 1);
    store.apply('two', {});
    assert.deepEqual(store.get('spec'), { image: 'a' });
    assert.equal(store.owned('two'), undefined);
  });

  it('hands a field over to a controller: it applies, then the maker stops to', () => {
    const store = new Store();
    store.apply('maker', spec({ replicas: 3, image: 'a' }));
    store.apply('scaler', spec({ replicas: 3 }));
    store.apply('maker', spec({ image: 'a' }));
    store.apply('scaler', spec({ replicas: 7 }));
    assert.deepEqual(store.get('spec'), { replicas: 7, image: 'a' });
  });

  it('an applier cannot remove a field that an update has changed', () => {
    const store = new Store();
    store.apply('me', spec({ replicas: 3, image: 'a' }));
    store.update('scaler', withSpec({ replicas: 5 }));
    store.apply('me', spec({ image: 'a' }));
    assert.deepEqual(store.get('spec'), { replicas: 5, image: 'a' });
  });

  it('each item of a list map has owners; a port is identified by number and protocol', () => {
    const store = new Store();
    store.apply('one', spec({ containers: [{ name: 'a', ports: [{ containerPort: 80 }] }] }));
    store.apply(
      'two',
      spec({ containers: [{ name: 'b' }, { name: 'a', ports: [{ containerPort: 80, protocol: 'UDP' }] }] }),
    );
    assert.deepEqual(store.get('spec', 'containers'), [
      { name: 'b' },
      { name: 'a', ports: [{ containerPort: 80 }, { containerPort: 80, protocol: 'UDP' }] },
    ]);
    store.apply('one', spec({ replicas: 1 }));
    assert.deepEqual(store.get('spec', 'containers'), [
      { name: 'b' },
      { name: 'a', ports: [{ containerPort: 80, protocol: 'UDP' }] },
    ]);
    store.apply('two', spec({ replicas: 1 }));
    assert.deepEqual(store.get('spec'), { replicas: 1 });
  });

  it('an item is removed with the fields that an update added to it, unless it has another owner', () => {
    const store = new Store();
    const item = (fields: JsonObject) => spec({ containers: [{ name: 'a', ...fields }] });
    store.apply('one', item({ image: 'i', command: ['x'] }));
    store.update('other', withSpec({ containers: [{ name: 'a', image: 'j', command: ['x'] }] }));
    store.apply('two', item({ resources: { limits: { cpu: '1' } } }));
    store.apply('one', {});
    assert.deepEqual(store.get('spec', 'containers'), [
      { name: 'a', image: 'j', resources: { limits: { cpu: '1' } } },
    ]);
    store.apply('two', {});
    assert.equal(store.get('spec'), undefined);
    assert.deepEqual(store.entries, []);
  });

  it('a struct stays with what others own in it', () => {
    const store = new Store();
    store.apply('me', spec({ strategy: { type: 'x' } }));
    store.update('other', withSpec({ strategy: { type: 'x', rollingUpdate: { maxSurge: 1 } } }));
    store.apply('me', {});
    assert.deepEqual(store.get('spec'), { strategy: { rollingUpdate: { maxSurge: 1 } } });
    store.apply('me', spec({ strategy: {} }));
    assert.deepEqual(store.get('spec'), { strategy: { rollingUpdate: { maxSurge: 1 } } });
  });

  it('fields without an owner, such as server defaults, stay in a struct with other fields', () => {
    const store = new Store();
    store.apply('me', spec({ image: 'a' }));
    store.apply('other', spec({ replicas: 1 }));
    store.object = withSpec({ paused: false })(store.object ?? {});
    store.apply('me', {});
    assert.deepEqual(store.get('spec'), { paused: false, replicas: 1 });
  });

  it('items of a set have owners each', () => {
    const store = new Store();
    store.apply('one', { metadata: { finalizers: ['a', 'b'] } });
    store.apply('two', { metadata: { finalizers: ['b', 'c'] } });
    assert.deepEqual(store.get('metadata', 'finalizers'), ['a', 'b', 'c']);
    store.apply('one', {});
    assert.deepEqual(store.get('metadata', 'finalizers'), ['b', 'c']);
  });

  it('atomic lists and maps are one value', () => {
    const store = new Store();
    store.apply('one', spec({ args: ['a'], selector: { matchLabels: { a: '1' } } }));
    const { causes } = refusalOf(() =>
      store.apply('two', spec({ args: ['a', 'b'], selector: { matchLabels: { b: '2' } } })),
    );
    assert.deepEqual(
      causes?.map(({ field }) => field),
      ['.spec.args', '.spec.selector'],
    );
    store.apply('two', spec({ args: ['b'] }), { force: true });
    assert.deepEqual(store.get('spec', 'args'), ['b']);
  });

  it('keeps the order of the configuration, and of the others among themselves', () => {
    const store = new Store();
    const names = (...list: readonly string[]) => spec({ containers: list.map((name) => ({ name })) });
    const got = () =>
      (store.get('spec', 'containers') as { name: string }[]).map(({ name }) => name).join('');
    store.apply('one', names('a', 'b', 'c'));
    store.apply('two', names('c', 'x', 'a'));
    assert.equal(got(), 'bcxa');
    store.apply('one', names('b', 'a', 'c'));
    assert.equal(got(), 'bxac');
    assert.equal(store.apply('one', names('b', 'a', 'c')), false);
  });

  it('an empty map is a value that is kept when its last entry is removed', () => {
    const store = new Store();
    store.apply('me', spec({ strategy: { rollingUpdate: { maxSurge: 1 } }, nodeSelector: { a: '1' } }));
    store.apply('me', spec({ strategy: { rollingUpdate: {} } }));
    assert.deepEqual(store.get('spec'), { strategy: { rollingUpdate: {} } });
    assert.equal(store.apply('me', spec({ strategy: { rollingUpdate: {} } })), false);
  });

  it('a live list with repeated keys does not stop it', () => {
    const store = new Store();
    store.update('maker', () =>
      configuration(
        spec({
          containers: [
            { name: 'a', image: '1' },
            { name: 'a', image: '2' },
          ],
        }),
      ),
    );
    assert.deepEqual(store.owned('maker', 'Update'), {
      'f:spec': { '.': {}, 'f:containers': { '.': {}, 'k:{"name":"a"}': {} } },
    });
    store.apply('me', spec({ containers: [{ name: 'b' }] }));
    assert.equal((store.get('spec', 'containers') as unknown[]).length, 3);
    store.apply('me', spec({ containers: [{ name: 'a', image: '3' }] }), { force: true });
    assert.deepEqual(store.get('spec', 'containers'), [{ name: 'a', image: '3' }]);
  });

  it('to an object whose owners are not known gives all of it to before-first-apply', () => {
    const store = new Store();
    store.object = configuration(spec({ replicas: 1 }));
    assert.match(
      refusalOf(() => store.apply('me', spec({ replicas: 2 }))).message,
      /conflict with "before-first-apply" using example.com\/v1: \.spec\.replicas$/,
    );
    store.apply('me', spec({ replicas: 1, image: 'a' }));
    assert.deepEqual(
      store.entries.map((entry) => [entry['manager'], entry['operation']]),
      [
        ['me', 'Apply'],
        ['before-first-apply', 'Update'],
      ],
    );
  });

  it('does not own what its endpoint does not write', () => {
    const store = new Store();
    store.apply('me', { ...spec({ replicas: 1 }), status: { phase: 'x' } }, { resetFields: [['status']] });
    assert.deepEqual(store.owned('me'), { 'f:spec': { 'f:replicas': {} } });
    assert.equal(store.get('status'), undefined);
    store.apply('me', { status: { phase: 'x' } }, { subresource: 'status', resetFields: [['spec']] });
    assert.deepEqual(store.owned('me', 'Apply', 'status'), { 'f:status': { 'f:phase': {} } });
    assert.deepEqual(store.get('spec'), { replicas: 1 });
  });

  it('twice is once: nothing changes, not even the time', () => {
    const store = new Store();
    assert.equal(store.apply('me', spec({ replicas: 1 })), true);
    const before = store.object;
    assert.equal(store.apply('me', spec({ replicas: 1 })), false);
    assert.equal(store.object, before);
  });

  it('names such as __proto__ are ordinary data', () => {
    const store = new Store();
    const data = JSON.parse('{"__proto__":"a","constructor":"b"}') as JsonObject;
    store.apply('me', { data });
    assert.equal(JSON.stringify(store.get('data')), '{"__proto__":"a","constructor":"b"}');
    assert.deepEqual(store.owned('me'), { 'f:data': { 'f:__proto__': {}, 'f:constructor': {} } });
    store.apply('me', { data: JSON.parse('{"__proto__":"a"}') as JsonObject });
    assert.equal(JSON.stringify(store.get('data')), '{"__proto__":"a"}');
  });
});
