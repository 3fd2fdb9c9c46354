// Which items of lists say what they are: those of custom kinds, as with Kubernetes. On the whole server.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { crd, cronTab } from '../custom/crds.fixture.ts';
import { Running } from '../protobuf/server.fixture.ts';
import type { JsonObject } from '../../json/json.ts';

suite('kind and apiVersion of the items of a list', () => {
  let server: Running;
  before(async () => (server = await Running.start()));
  after(() => server[Symbol.asyncDispose]());

  async function create(collection: string, object: JsonObject): Promise<void> {
    const { code, json } = await server.call('POST', collection, undefined, JSON.stringify(object));
    assert.equal(code, 201, JSON.stringify(json));
  }

  const queries = ['', '?limit=5', '?labelSelector=a', '?pretty=true', '?fieldSelector=metadata.name%3Dx'];
  const kinds: readonly (readonly [string, JsonObject, readonly [unknown, unknown]])[] = [
    ['/api/v1/namespaces/default/configmaps', { data: { a: 'b' } }, [undefined, undefined]],
    ['/apis/apps/v1/namespaces/default/deployments', deployment(), [undefined, undefined]],
    [
      '/apis/events.k8s.io/v1/namespaces/default/events',
      {
        regarding: { namespace: 'default' },
        type: 'Normal',
        reportingController: 'a.b/c',
        reportingInstance: 'i',
        action: 'a',
        reason: 'r',
        eventTime: '2026-01-01T00:00:00.000000Z',
      },
      [undefined, undefined],
    ],
    [
      '/apis/stable.example.com/v1/namespaces/default/crontabs',
      cronTab('x'),
      ['stable.example.com/v1', 'CronTab'],
    ],
  ];
  for (const [collection, object, expected] of kinds) {
    test(collection, async () => {
      if (expected[1] !== undefined) await established();
      await create(collection, { ...object, metadata: { name: 'x', labels: { a: 'b' } } });
      for (const query of queries) {
        const { json } = await server.call('GET', `${collection}${query}`);
        const items = json['items'] as readonly JsonObject[];
        assert.equal(items.length, 1, query);
        for (const { apiVersion, kind, metadata } of items) {
          assert.deepEqual([apiVersion, kind], expected, query);
          assert.equal((metadata as JsonObject)['name'], 'x');
        }
      }
      const { json } = await server.call('GET', `${collection}/x`);
      assert.equal(typeof json['kind'], 'string');
    });
  }

  async function established(): Promise<void> {
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    await create(definitions, crd());
    while ((await server.call('GET', '/apis/stable.example.com/v1/crontabs')).code !== 200);
  }

  test('kubectl shows the kind of each all the same', async () => {
    const { stdout } = await server.kubectl('get', 'configmap,crontab', '-o', 'jsonpath={.items[*].kind}');
    assert.equal(stdout, 'ConfigMap CronTab');
  });
});

function deployment(): JsonObject {
  const labels = { a: 'b' };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'a' }] } };
  return { spec: { selector: { matchLabels: labels }, template } };
}
