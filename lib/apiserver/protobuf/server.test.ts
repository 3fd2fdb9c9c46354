// Protobuf through the whole server: what it does with it is what it does with the same object in JSON.
import assert from 'node:assert/strict';
import { after, before, describe, suite, test } from 'node:test';

import { assertReached } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { builtinResources } from '../builtin/builtin.ts';
import { apiVersionOf } from '../resources/resource.ts';
import { jsonText } from '../resources/json-text.ts';
import type { JsonObject } from '../../json/json.ts';
import { body, bytes } from './bytes.fixture.ts';
import { anyObject, encoded } from './messages.fixture.ts';
import { type Answer, comparable, Running } from './server.fixture.ts';

const protobuf = 'application/vnd.kubernetes.protobuf';
const configMaps = '/api/v1/namespaces/default/configmaps';
const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

const crd: JsonObject = {
  kind: 'CustomResourceDefinition',
  apiVersion: 'apiextensions.k8s.io/v1',
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    names: { plural: 'widgets', kind: 'Widget' },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: {
                  size: { type: 'integer', minimum: 0.5, default: 3, enum: [3, 4, 5] },
                  any: { 'x-kubernetes-preserve-unknown-fields': true },
                  list: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
                  map: { type: 'object', additionalProperties: { type: 'string', nullable: true } },
                },
              },
            },
          },
        },
      },
    ],
  },
  status: { acceptedNames: { plural: '', kind: '' } },
};

let running: Running;
suite('a server of protobuf', () => {
  before(async () => {
    running = await Running.start();
  });
  after(() => running[Symbol.asyncDispose]());

  const send = (method: string, path: string, object: JsonObject): Promise<Answer> =>
    running.call(method, path, protobuf, encoded(object));

  test('PUT, of an object and of its status', async () => {
    const path = '/apis/apps/v1/namespaces/default/deployments';
    const labels = { app: 'a' };
    const deployment = {
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'a' },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'a' }] } },
      },
    };
    assert.equal((await send('POST', path, deployment)).code, 201);
    const changed = await send('PUT', `${path}/a`, {
      ...deployment,
      spec: { ...deployment.spec, replicas: 0 },
    });
    assert.equal(changed.code, 200);
    assert.equal((changed.json['spec'] as JsonObject)['replicas'], 0);
    const status = await send('PUT', `${path}/a/status`, { ...deployment, status: { readyReplicas: 1 } });
    assert.deepEqual(status.json['status'], { readyReplicas: 1 });
    const scale = {
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name: 'a' },
      spec: { replicas: 5 },
    };
    const scaled = await send('PUT', `${path}/a/scale`, scale);
    assert.deepEqual(scaled.json['spec'], { replicas: 5 });
  });

  test('DELETE, whose options come in protobuf too', async () => {
    await send('POST', configMaps, { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'gone' } });
    const options = { kind: 'DeleteOptions', apiVersion: 'v1' };
    const other = await send('DELETE', `${configMaps}/gone`, { ...options, preconditions: { uid: 'other' } });
    assert.equal(other.code, 409);
    assert.equal((await send('DELETE', `${configMaps}/gone`, { ...options, dryRun: ['All'] })).code, 200);
    assert.equal(
      (await send('DELETE', `${configMaps}/gone`, { ...options, gracePeriodSeconds: 0 })).code,
      200,
    );
    assert.equal((await running.call('GET', `${configMaps}/gone`)).code, 404);
  });

  test('a CustomResourceDefinition, the same as from JSON; its objects have no protobuf, their deletion has', async () => {
    const typed = await send('POST', `${crds}?dryRun=All`, crd);
    const plain = await running.call('POST', `${crds}?dryRun=All`, undefined, JSON.stringify(crd));
    assert.equal(plain.code, 201, JSON.stringify(plain.json));
    assert.deepEqual(comparable(typed.json), comparable(plain.json));

    assert.equal((await send('POST', crds, crd)).code, 201);
    const widgets = '/apis/example.com/v1/namespaces/default/widgets';
    const widget = JSON.stringify({ kind: 'Widget', apiVersion: 'example.com/v1', metadata: { name: 'a' } });
    const posted = await running.call(
      'POST',
      widgets,
      protobuf,
      body('example.com/v1', 'Widget', bytes(1, bytes(1, 'a'))),
    );
    assert.deepEqual([posted.code, posted.json['reason']], [415, 'UnsupportedMediaType']);
    assert.equal((await running.call('POST', widgets, undefined, widget)).code, 201);
    const options = { kind: 'DeleteOptions', apiVersion: 'example.com/v1', propagationPolicy: 'Background' };
    assert.equal((await send('DELETE', `${widgets}/a`, options)).code, 200);
  });

  describe('refused with a Status', () => {
    const wrong: readonly (readonly [what: string, bytes: Buffer, message: RegExp])[] = [
      [
        'JSON',
        Buffer.from('{"kind":"ConfigMap"}'),
        /must be of type ConfigMap\): .*expected prefix \[107 56 115 0\] \(\{"kind"/,
      ],
      ['bytes that end', encoded({ kind: 'ConfigMap', apiVersion: 'v1' }).subarray(0, 20), /unexpected EOF/],
      [
        'an object of another kind',
        encoded({ kind: 'Secret', apiVersion: 'v1' }),
        /Secret in version "v1" cannot be handled as a ConfigMap/,
      ],
      ['a kind without a message', body('v1', 'Widget'), /no kind "Widget" is registered for version "v1"/],
    ];
    for (const [what, sent, message] of wrong) {
      test(what, async () => {
        const { code, json } = await running.call('POST', configMaps, protobuf, sent);
        assert.equal(code, 400);
        assert.equal(json['kind'], 'Status');
        assert.match(String(json['message']), message);
      });
    }
  });

  test('any object of any kind is answered as the same one in JSON', async () => {
    let taken = 0;
    for (const resource of builtinResources().flat()) {
      if (!resource.verbs.has('create')) continue;
      const apiVersion = apiVersionOf(resource);
      const top = resource.group === '' ? `/api/${resource.version}` : `/apis/${apiVersion}`;
      const place = resource.namespaced ? '/namespaces/default' : '';
      const path = `${top}${place}/${resource.plural}?dryRun=All&fieldValidation=Strict`;
      await fc.assert(
        fc.asyncProperty(fc.integer(), async (seed) => {
          const object = anyObject(seed, apiVersion, resource.kind);
          // The rest of the metadata would have most of them refused.
          object['metadata'] = { name: 'a' };
          const typed = await send('POST', path, object);
          const plain = await running.call('POST', path, undefined, jsonText(object));
          assert.deepEqual(comparable(typed.json), comparable(plain.json));
          if (typed.code === 201) taken++;
        }),
        { numRuns: 10 },
      );
    }
    assertReached(taken > 10, `${taken} taken`);
  });
});
