// The results of a definition: names, subresources, columns, selectable fields, schemas, warnings.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { fileIntegrity, kivePolicy } from '../schema/crds.fixture.ts';
import { crdStoreName, readCrd } from './crd.ts';
import { resourcesOfCrd } from './custom-resource.ts';
import { crd, cronTab, cronTabSchema, version } from './crds.fixture.ts';
import { crdStrategy } from './crd-strategy.ts';
import { kinds, refusal, startServer } from '../upkeep/server.fixture.ts';

function resources(object: JsonObject) {
  crdStrategy.prepareForCreate?.(object);
  return resourcesOfCrd(readCrd(object));
}

suite('resourcesOfCrd', { timeout: 300_000 }, () => {
  test('returns the served versions, the preferred one first', () => {
    const made = resources(
      crd([
        version('v1beta1', cronTabSchema, { storage: false, deprecated: true }),
        version('v2alpha1', cronTabSchema, { storage: false, deprecated: true, deprecationWarning: 'old' }),
        version('v1'),
        version('v2', cronTabSchema, { storage: false, served: false }),
      ]),
    );
    assert.deepEqual(
      made.map((one) => [one.version, one.deprecation]),
      [
        ['v1', undefined],
        ['v1beta1', 'stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab'],
        ['v2alpha1', 'old'],
      ],
    );
    assert.ok(made.every(({ storedApiVersion }) => storedApiVersion === 'stable.example.com/v1'));
    assert.ok(made.every(({ storeName }) => storeName === 'crontabs.stable.example.com'));
    assert.ok({ ...made[0] }.model !== undefined, 'it can be spread');
  });

  test('OpenAPI: what every object has is added, also to the resources inside', () => {
    const schema = {
      ...cronTabSchema,
      properties: { ...(cronTabSchema['properties'] as JsonObject), inner: embedded() },
    };
    const [resource] = resources(crd([version('v1', schema)]));
    const { name, definitions } = resource?.openApi ?? {
      name: '',
      definitions: new Map<string, JsonObject>(),
    };
    assert.equal(name, 'com.example.stable.v1.CronTab');
    const shown = definitions.get(name);
    const properties = shown?.['properties'] as Record<string, JsonObject>;
    assert.deepEqual(Object.keys(properties).sort(), [
      'apiVersion',
      'inner',
      'kind',
      'metadata',
      'spec',
      'status',
    ]);
    assert.deepEqual(shown?.['x-kubernetes-group-version-kind'], [
      { group: 'stable.example.com', version: 'v1', kind: 'CronTab' },
    ]);
    const inner = properties['inner'] as { properties: JsonObject; required: string[] };
    assert.deepEqual(Object.keys(inner.properties).sort(), ['apiVersion', 'kind', 'metadata', 'spec']);
    assert.deepEqual(inner.required, ['kind', 'apiVersion']);
    for (const definition of [...definitions.values()]) {
      for (const [, ref = ''] of JSON.stringify(definition).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
        assert.ok(definitions.has(ref), ref);
      }
    }
    assert.ok(definitions.has('com.example.stable.v1.CronTabList'));
  });

  test('the guards’ resources are served', async () => {
    await using server = await startServer();
    const policies = await server.define(
      crd([version('v1', kivePolicy, { subresources: { status: {} } })], {
        group: 'kivebpf.san7o.github.io',
        kind: 'KivePolicy',
        plural: 'kivepolicies',
      }),
    );
    const integrities = await server.define(
      crd([version('v1alpha1', fileIntegrity)], {
        group: 'fileintegrity.openshift.io',
        kind: 'FileIntegrity',
        plural: 'fileintegrities',
      }),
    );
    const made = await server.create(integrities, {
      apiVersion: 'fileintegrity.openshift.io/v1alpha1',
      kind: 'FileIntegrity',
      metadata: { name: 'a' },
      spec: { config: {} },
    });
    assert.equal((made.object['spec'] as { config: JsonObject }).config['gracePeriod'], 900);
    const refused = await refusal(
      server.create(policies, {
        apiVersion: 'kivebpf.san7o.github.io/v1',
        kind: 'KivePolicy',
        metadata: { name: 'a' },
        spec: { traps: [{ path: '/etc/shadow', matchAny: [] }] },
      }),
    );
    assert.match(
      refused.message,
      /spec\.traps\[0\]\.matchAny: Invalid value: 0: .* should have at least 1 items/,
    );
  });

  test('status and scale subresources', async () => {
    await using server = await startServer();
    const scale = {
      specReplicasPath: '.spec.replicas',
      statusReplicasPath: '.status.replicas',
      labelSelectorPath: '.status.labelSelector',
    };
    const resource = await server.define(
      crd([version('v1', cronTabSchema, { subresources: { status: {}, scale } })]),
    );
    const place = { namespace: 'default', name: 'a' };
    const created = await server.create(resource, {
      ...cronTab('a', { replicas: 2 }),
      status: { replicas: 9 },
    });
    assert.equal(created.object['status'], undefined);
    const status = { replicas: 1, labelSelector: 'app=a' };
    await server.calls.patch(resource, place, { spec: { replicas: 7 }, status }, server.signal, 'status');
    const read = resource.subresources.get('scale')?.read((await server.get(resource, 'a')) ?? {}) ?? {};
    assert.deepEqual(
      [read['kind'], read['spec'], read['status']],
      ['Scale', { replicas: 2 }, { replicas: 1, selector: 'app=a' }],
    );
    await server.calls.patch(resource, place, { spec: { replicas: 5 } }, server.signal, 'scale');
    const object = await server.get(resource, 'a');
    assert.deepEqual(object?.['spec'], { image: 'busybox', replicas: 5 });
    assert.deepEqual(object?.['status'], status);
    assert.equal((object?.['metadata'] as JsonObject | undefined)?.['generation'], 2);
    const refused = await refusal(
      server.calls.patch(resource, place, { spec: { replicas: -1 } }, server.signal, 'scale'),
    );
    assert.match(refused.message, /spec\.replicas: Invalid value: -1: should be a non-negative integer/);
  });

  test('selectable fields', async () => {
    const [resource] = resources(
      crd([
        version('v1', cronTabSchema, {
          selectableFields: [
            { jsonPath: '.spec.image' },
            { jsonPath: '.spec.replicas' },
            { jsonPath: '.spec.suspended' },
          ],
        }),
      ]),
    );
    const fields = resource?.selectableFields ?? new Map<string, (object: JsonObject) => string>();
    const object = cronTab('a', { image: 'x', replicas: 3, suspended: false });
    assert.deepEqual(
      [...fields].map(([name, read]) => [name, read(object), read({})]),
      [
        ['spec.image', 'x', ''],
        ['spec.replicas', '3', ''],
        ['spec.suspended', 'false', ''],
      ],
    );
  });

  test('a definition of many hundred kilobytes', async () => {
    await using server = await startServer();
    const description = 'What the field is for, and what happens when it is not there. '.repeat(4);
    const part = (depth: number): JsonObject => ({
      type: 'object',
      description,
      properties: {
        ...Object.fromEntries(
          Array.from({ length: 20 }, (_, index) => [`text${index}`, { type: 'string', description }]),
        ),
        last: { type: 'string', default: 'x' },
        ...(depth === 0
          ? {}
          : Object.fromEntries(
              Array.from({ length: 4 }, (_, index) => [
                `list${index}`,
                { type: 'array', items: part(depth - 1) },
              ]),
            )),
      },
    });
    const schema = { type: 'object', properties: { spec: part(3) } };
    const definition = crd([version('v1', schema)]);
    assert.ok(JSON.stringify(definition).length > 400_000);
    const resource = await server.define(definition);
    const spec = { list0: [{ list1: [{ list2: [{ text3: 'y', unknown: 1 }] }] }] };
    const made = await server.create(resource, cronTab('a', spec));
    assert.deepEqual(made.object['spec'], {
      list0: [{ list1: [{ list2: [{ text3: 'y', last: 'x' }], last: 'x' }], last: 'x' }],
      last: 'x',
    });
  });

  test('objects that the strategy rejects are refused by the verbs', async () => {
    await using server = await startServer();
    const { code, reason, details } = await refusal(
      server.create(kinds.crds, crd([version('v1', { type: 'object', properties: { a: {} } })])),
    );
    assert.deepEqual(
      [code, reason, details?.causes?.[0]?.field],
      [422, 'Invalid', 'spec.validation.openAPIV3Schema.properties[a].type'],
    );
    assert.deepEqual(server.store.list(crdStoreName).items, []);
  });
});

function embedded(): JsonObject {
  return {
    type: 'object',
    'x-kubernetes-embedded-resource': true,
    properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
  };
}
