// The further effects of a write to `status`: labels and annotations, addresses of pods. On the whole server.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { Running } from '../protobuf/server.fixture.ts';
import type { JsonObject } from '../../json/json.ts';

const template = {
  metadata: { labels: { a: 'b' } },
  spec: { containers: [{ name: 'a', image: 'a' }] },
};
const workload = { selector: { matchLabels: { a: 'b' } }, template };
const inDefault = '/namespaces/default';

suite('writes to status', () => {
  let server: Running;
  before(async () => (server = await Running.start()));
  after(() => server[Symbol.asyncDispose]());

  async function made(collection: string, object: JsonObject): Promise<string> {
    const { code, json } = await server.call('POST', collection, undefined, JSON.stringify(object));
    assert.equal(code, 201, JSON.stringify(json));
    return `${collection}/${(json['metadata'] as JsonObject)['name'] as string}`;
  }

  async function patched(path: string, patch: JsonObject): Promise<JsonObject> {
    const type = 'application/merge-patch+json';
    const { code, json } = await server.call('PATCH', path, type, JSON.stringify(patch));
    assert.equal(code, 200, JSON.stringify(json));
    return json;
  }

  const metadata = { name: 'one', labels: { old: 'x' } };
  const finalizers = ['example.com/last'];
  const sent = { labels: { old: null, new: 'y' }, annotations: { note: 'z' }, finalizers };
  const changed = { labels: { new: 'y' }, annotations: { note: 'z' }, finalizers };
  const kinds: readonly (readonly [string, JsonObject, JsonObject])[] = [
    ['/api/v1/nodes', {}, changed],
    [`/api/v1${inDefault}/services`, { spec: { ports: [{ port: 1 }] } }, changed],
    [`/apis/apps/v1${inDefault}/daemonsets`, { spec: workload }, changed],
    // Each of these keeps what its strategy keeps.
    [`/api/v1${inDefault}/pods`, { spec: template.spec }, changed],
    [`/apis/apps/v1${inDefault}/deployments`, { spec: workload }, { ...changed, labels: metadata.labels }],
    [
      '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
      {
        spec: {
          matchConstraints: {
            resourceRules: [
              { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] },
            ],
          },
          validations: [{ expression: 'true' }],
        },
      },
      { labels: metadata.labels, annotations: undefined, finalizers: undefined },
    ],
  ];
  for (const [collection, object, expected] of kinds) {
    test(`metadata of ${collection}`, async () => {
      const path = await made(collection, { metadata, ...object });
      const written = (await patched(`${path}/status`, { metadata: sent }))['metadata'] as JsonObject;
      const { labels, annotations, finalizers: kept } = written;
      assert.deepEqual({ labels, annotations, finalizers: kept }, expected);
      const again = (await patched(`${path}/status`, { metadata: { generation: 99 } }))[
        'metadata'
      ] as JsonObject;
      assert.equal(again['generation'], written['generation']);
      const { code, json } = await server.call(
        'PATCH',
        `${path}/status`,
        'application/merge-patch+json',
        JSON.stringify({ metadata: { annotations: { 'not/a/key': 'x' } } }),
      );
      if (expected['annotations'] !== undefined) assert.equal(code, 422, JSON.stringify(json));
    });
  }

  test('a namespace keeps the label with its name, whatever is sent', async () => {
    const path = await made('/api/v1/namespaces', { metadata: { name: 'named' } });
    const body = { metadata: { labels: { 'kubernetes.io/metadata.name': null, a: 'b' } } };
    const { metadata: kept } = await patched(`${path}/status`, body);
    assert.deepEqual((kept as JsonObject)['labels'], { a: 'b', 'kubernetes.io/metadata.name': 'named' });
  });

  test('a pod keeps its owners', async () => {
    const path = await made(`/api/v1${inDefault}/pods`, { metadata: { name: 'owned' }, spec: template.spec });
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u' }];
    const { metadata: meta } = await patched(`${path}/status`, { metadata: { ownerReferences } });
    assert.equal((meta as JsonObject)['ownerReferences'], undefined);
  });

  test('addresses of a pod', async () => {
    const path = await made(`/api/v1${inDefault}/pods`, { metadata: { name: 'ips' }, spec: template.spec });
    const addresses = async (status: JsonObject): Promise<unknown> => {
      const { podIP, podIPs } = (await patched(`${path}/status`, { status }))['status'] as JsonObject;
      return [podIP, podIPs];
    };
    assert.deepEqual(await addresses({ podIP: '10.0.0.1' }), ['10.0.0.1', [{ ip: '10.0.0.1' }]]);
    const both = [{ ip: '10.0.0.2' }, { ip: 'fd00::2' }];
    assert.deepEqual(await addresses({ podIP: null, podIPs: both }), ['10.0.0.2', both]);
    assert.deepEqual(await addresses({ podIP: '10.0.0.3', podIPs: both }), [
      '10.0.0.3',
      [{ ip: '10.0.0.3' }],
    ]);
    const refused = async (podIPs: readonly string[]): Promise<unknown> => {
      const status = { podIP: null, podIPs: podIPs.map((ip) => ({ ip })) };
      const type = 'application/merge-patch+json';
      const { code, json } = await server.call('PATCH', `${path}/status`, type, JSON.stringify({ status }));
      return [code, ((json['details'] as JsonObject)['causes'] as JsonObject[]).map(({ field }) => field)];
    };
    assert.deepEqual(await refused(['10.0.0.300']), [422, ['status.podIPs[0]']]);
    assert.deepEqual(await refused(['10.0.0.1', '10.0.0.2']), [422, ['status.podIPs']]);
    assert.deepEqual(await refused(['10.0.0.1', 'fd00::1', 'fd00::2']), [422, ['status.podIPs']]);
  });

  test('the numbers of a scale: that of the status is always there', async () => {
    const path = await made(`/apis/apps/v1${inDefault}/deployments`, {
      metadata: { name: 'none' },
      spec: { ...workload, replicas: 0 },
    });
    const { json } = await server.call('GET', `${path}/scale`);
    assert.deepEqual([json['spec'], json['status']], [{}, { replicas: 0, selector: 'a=b' }]);
    const scaled = await patched(`${path}/scale`, { spec: { replicas: 2 } });
    assert.deepEqual(scaled['spec'], { replicas: 2 });
  });

  test('a value of the wrong type', async () => {
    const pod = { metadata: { name: 'wrong' }, spec: { ...template.spec, hostNetwork: 'yes' } };
    const why = 'json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool';
    const { code, json } = await server.call(
      'POST',
      `/api/v1${inDefault}/pods`,
      undefined,
      JSON.stringify(pod),
    );
    assert.deepEqual(
      [code, json['reason'], json['message']],
      [400, 'BadRequest', `Pod in version "v1" cannot be handled as a Pod: ${why}`],
    );
  });

  test('a definition without a scope gets one error', async () => {
    const names = { plural: 'as', kind: 'A' };
    const versions = [
      { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } },
    ];
    const crd = { metadata: { name: 'as.example.com' }, spec: { group: 'example.com', names, versions } };
    const collection = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const { json } = await server.call('POST', collection, undefined, JSON.stringify(crd));
    assert.deepEqual((json['details'] as JsonObject)['causes'], [
      { reason: 'FieldValueRequired', message: 'Required value', field: 'spec.scope' },
    ]);
  });
});
