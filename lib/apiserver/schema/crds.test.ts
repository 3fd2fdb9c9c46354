/** The schemas of real resources, from end to end: defaults, pruning, validation, as a server does them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from './compiled-schema.ts';
import { fileIntegrity, kiveData, kivePolicy } from './crds.fixture.ts';
import { lines } from './schema.fixture.ts';

const head = (kind: string): object => ({
  apiVersion: 'kivebpf.san7o.github.io/v1',
  kind,
  metadata: { name: 'a', labels: { x: 'y' } },
});

suite('KivePolicy', () => {
  const schema = compileSchema(kivePolicy);
  const policy = (...traps: object[]): object => ({ ...head('KivePolicy'), spec: { traps } });
  const matchAny = [{ matchLabels: { app: 'web' } }];

  test('a policy as users write it: only defaults are added', () => {
    const object = policy({
      path: '/etc/shadow',
      create: true,
      mode: 444,
      callback: 'http://sink:8080/',
      metadata: { owner: 'me' },
      matchAny,
    });
    const before = structuredClone(object) as { spec: Record<string, unknown> };
    schema.applyDefaults(object);
    assert.deepEqual(schema.prune(object), []);
    assert.deepEqual(schema.validate(object), []);
    before.spec['alertVersion'] = 'v1';
    assert.deepEqual(object, before);
  });

  test('all errors are reported at once', () => {
    const object = policy(
      { path: 'etc/shadow', matchAny: [{}], regex: true },
      { create: 'yes', matchAny: [] },
    );
    schema.applyDefaults(object);
    assert.deepEqual(schema.prune(object), ['spec.traps[0].regex']);
    assert.deepEqual(lines(schema.validate(object)), [
      `spec.traps[0].path: Invalid value: "etc/shadow": spec.traps[0].path in body should match '^/'`,
      'spec.traps[0].matchAny[0]: Invalid value: 0: spec.traps[0].matchAny[0] in body should have at least 1 properties',
      'spec.traps[1].create: Invalid value: "string": spec.traps[1].create in body must be of type boolean: "string"',
      'spec.traps[1].matchAny: Invalid value: 0: spec.traps[1].matchAny in body should have at least 1 items',
      'spec.traps[1].path: Required value',
      '<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
    ]);
  });

  test('its rules', () => {
    const object = policy({ path: '/a/../b', mode: '0400', matchAny: [{ ip: '10.0.0.300' }, { ip: '::1' }] });
    schema.applyDefaults(object);
    assert.deepEqual(lines(schema.validate(object)), [
      'spec.traps[0].mode: Invalid value: mode is only for files that are created',
      'spec.traps[0].path: Forbidden: path /a/../b must not climb',
      'spec.traps[0].matchAny[0].ip: Invalid value: "10.0.0.300": ip must be an IP address',
    ]);
  });
});

suite('KiveData', () => {
  const schema = compileSchema(kiveData);
  const data = (spec: object): object => ({ ...head('KiveData'), spec, status: { anything: [1] } });
  const spec = { inodeNo: 42, devId: 2049, kernelId: '0f6c3f8e-6a35-4c9a-9a68-4a1b1c1d1e1f' };

  test('the names of older releases are unknown', () => {
    const object = data({ ...spec, 'inode-no': 42 });
    assert.deepEqual(schema.prune(object), ['spec.inode-no']);
    assert.deepEqual(schema.validate(object), []);
  });
  test('the file of a trap stays', () => {
    assert.deepEqual(schema.validate(data({ ...spec, metadata: { a: 'b' } }), data(spec)), []);
    assert.deepEqual(lines(schema.validate(data({ ...spec, inodeNo: 43 }), data(spec))), [
      'spec: Invalid value: the file of a trap is immutable',
    ]);
  });
  test('a kernel is a boot id', () => {
    assert.deepEqual(lines(schema.validate(data({ ...spec, inodeNo: 0, kernelId: '6.1' }))).slice(0, 2), [
      'spec.inodeNo: Invalid value: 0: spec.inodeNo in body should be greater than or equal to 1',
      'spec.kernelId: Invalid value: "6.1": spec.kernelId in body must be of type uuid: "6.1"',
    ]);
  });
});

test('FileIntegrity: an empty config is enough', () => {
  const schema = compileSchema(fileIntegrity);
  const object = { spec: { config: {}, tolerations: null as unknown } };
  schema.applyDefaults(object);
  assert.deepEqual(object.spec.config, {
    key: 'aide.conf',
    gracePeriod: 900,
    maxBackups: 5,
    initialDelay: 0,
  });
  assert.equal((object.spec.tolerations as unknown[]).length, 2);
  assert.deepEqual(schema.prune(object), []);
  assert.deepEqual(schema.validate(object), []);
  assert.deepEqual(
    lines(schema.validate({ spec: { config: { gracePeriod: 5 } }, status: { phase: 'Idle' } })),
    [
      'spec.config.gracePeriod: Invalid value: 5: spec.config.gracePeriod in body should be greater than or equal to 10',
      'status.phase: Unsupported value: "Idle": supported values: "Initializing", "Active", "Pending", "Error"',
    ],
  );
});
