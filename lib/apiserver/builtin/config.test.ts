import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { created, resourceOf, updated } from './builtin.fixture.ts';

const core = (kind: string, rest: string): string =>
  `{ apiVersion: v1, kind: ${kind}, metadata: { name: x }, ${rest} }`;

suite('Secret', () => {
  test('text becomes data, and the type is Opaque', () => {
    const { object, causes } = created(
      core('Secret', 'stringData: { a: "ü", b: new }, data: { b: b2xk, c: "" }'),
    );
    assert.deepEqual(causes, []);
    assert.equal(object['type'], 'Opaque');
    assert.deepEqual(object['data'], { a: 'w7w=', b: 'bmV3', c: '' });
    assert.equal('stringData' in object, false);
  });

  const broken: readonly (readonly [string, string])[] = [
    ['data: { a: "???" }', 'data[a]: Invalid value: "???": illegal base64 data at input byte 0'],
    ['data: { a: "YWJ" }', 'data[a]: Invalid value: "YWJ": illegal base64 data at input byte 3'],
    [
      'data: { "a b": YQ== }',
      "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    ],
    ['type: kubernetes.io/ssh-auth', 'data[ssh-privatekey]: Required value'],
    [
      'type: kubernetes.io/service-account-token',
      'metadata.annotations[kubernetes.io/service-account.name]: Required value',
    ],
  ];
  for (const [rest, cause] of broken) {
    test(`${rest} is refused`, () => assert.deepEqual(created(core('Secret', rest)).causes, [cause]));
  }

  test('its type stays, and with immutable all of it', () => {
    const first = created(core('Secret', 'immutable: true, data: { a: YQ== }'));
    const { causes } = updated(first, (secret) => {
      secret['type'] = 'other';
      secret['data'] = { a: 'Yg==' };
    });
    assert.deepEqual(causes, [
      'type: Invalid value: "other": field is immutable',
      'data: Forbidden: field is immutable when `immutable` is set',
    ]);
    assert.deepEqual(updated(first, (secret) => delete secret['type']).causes, []);
  });
});

suite('ConfigMap', () => {
  test('keys stand once', () => {
    const { causes } = created(core('ConfigMap', 'data: { a: x }, binaryData: { a: YQ== }'));
    assert.deepEqual(causes, ['data[a]: Invalid value: "a": duplicate of key present in binaryData']);
  });

  test('a mebibyte is the most', () => {
    const fits = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'x' },
      data: { a: 'a'.repeat(2 ** 20) },
    };
    assert.deepEqual(created(fits).causes, []);
    const { causes } = created({ ...fits, data: { ...fits.data, b: 'b' } });
    assert.deepEqual(causes, ['<nil>: Too long: may not be more than 1048576 bytes']);
  });

  test('immutable', () => {
    const first = created(core('ConfigMap', 'immutable: true, data: { a: x }'));
    assert.deepEqual(updated(first, (map) => (map['immutable'] = false)).causes, [
      'immutable: Forbidden: field is immutable when `immutable` is set',
    ]);
    assert.deepEqual(updated(first, (map) => (map['data'] = { a: 'y' })).causes, [
      'data: Forbidden: field is immutable when `immutable` is set',
    ]);
  });
});

suite('Namespace', () => {
  test('a new one is labelled, active, and has a finalizer of its own', () => {
    const first = created(core('Namespace', 'spec: {}'));
    assert.deepEqual(first.causes, []);
    assert.deepEqual((first.object['metadata'] as JsonObject)['labels'], {
      'kubernetes.io/metadata.name': 'x',
    });
    assert.deepEqual(first.object['spec'], { finalizers: ['kubernetes'] });
    assert.deepEqual(first.object['status'], { phase: 'Active' });
    const { strategy } = resourceOf('v1', 'Namespace');
    assert.equal(strategy.hasOwnFinalizers?.(first.object), true);
    assert.equal(strategy.hasOwnFinalizers?.({ spec: {} }), false);
    const { object } = updated(first, (namespace) => {
      delete namespace['spec'];
      delete (namespace['metadata'] as JsonObject)['labels'];
    });
    assert.deepEqual(object['spec'], { finalizers: ['kubernetes'] });
    assert.deepEqual((object['metadata'] as JsonObject)['labels'], { 'kubernetes.io/metadata.name': 'x' });
    strategy.markDeleted?.(object);
    assert.deepEqual(object['status'], { phase: 'Terminating' });
  });
});

suite('Node', () => {
  test('a kubelet creates it with its status', () => {
    const { object, causes } = created(
      core(
        'Node',
        'status: { capacity: { cpu: 4, memory: 8388608Ki }, nodeInfo: { kubeletVersion: v1.35.0 } }',
      ),
    );
    assert.deepEqual(causes, []);
    const status = object['status'] as Record<string, JsonObject>;
    assert.deepEqual(status['capacity'], { cpu: '4', memory: '8Gi' });
    assert.deepEqual(status['allocatable'], { cpu: '4', memory: '8Gi' });
    assert.equal(status['nodeInfo']?.['osImage'], '');
  });

  test('taints', () => {
    const { causes } = created(
      core(
        'Node',
        'spec: { taints: [{ key: a, effect: NoRun }, { key: b, effect: NoSchedule }, { key: b, effect: NoSchedule }] }',
      ),
    );
    assert.deepEqual(causes, [
      'spec.taints[0].effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
      'spec.taints[2]: Duplicate value: {"effect":"NoSchedule","key":"b"}',
    ]);
  });
});

suite('Storage', () => {
  test('a claim', () => {
    const { object, causes } = created(
      core(
        'PersistentVolumeClaim',
        'spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 0.5Gi } } }',
      ),
    );
    assert.deepEqual(causes, []);
    assert.deepEqual(object['spec'], {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: '512Mi' } },
      volumeMode: 'Filesystem',
    });
    assert.deepEqual(object['status'], { phase: 'Pending' });
  });

  test('a volume', () => {
    const { object, causes } = created(
      core(
        'PersistentVolume',
        'spec: { capacity: { storage: 1Gi }, accessModes: [ReadWriteOnce], hostPath: { path: /data } }',
      ),
    );
    assert.deepEqual(causes, []);
    assert.equal((object['spec'] as JsonObject)['persistentVolumeReclaimPolicy'], 'Retain');
  });
});

const lease =
  '{ apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: { name: l }, spec: { holderIdentity: a, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.123456Z" } }';

test('Lease', () => {
  assert.deepEqual(created(lease).causes, []);
  assert.deepEqual(created(lease.replace('15', '0')).causes, [
    'spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
  ]);
  assert.deepEqual(created(lease.replace('holderIdentity: a', 'preferredHolder: b')).causes, [
    'spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined',
  ]);
  assert.match(
    created(lease.replace('"2026-01-01T00:00:00.123456Z"', 'yesterday')).causes.join(),
    /^parsing time "yesterday" as "2006-01-02T15:04:05\.000000Z07:00": cannot parse/,
  );
});

test('a Lease is let go as client-go does it', () => {
  const released = updated(created(lease), (object) => {
    const now = '2026-01-01T00:01:00.000000Z';
    object['spec'] = {
      holderIdentity: '',
      leaseDurationSeconds: 1,
      leaseTransitions: 0,
      acquireTime: now,
      renewTime: now,
    };
  });
  assert.deepEqual(released.causes, []);
  assert.equal((released.object['spec'] as JsonObject)['holderIdentity'], '');
});

test('PriorityClass', () => {
  const first = created(
    '{ apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: { name: p }, value: 5 }',
  );
  assert.deepEqual(first.causes, []);
  assert.equal(first.object['preemptionPolicy'], 'PreemptLowerPriority');
});
