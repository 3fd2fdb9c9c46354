// The four kinds of patches.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';

import { type Cluster } from './cluster.fixture.ts';

export function patchCases(opened: () => Cluster): void {
  describe('patches', () => {
    let cluster: Cluster;
    let namespace: string;
    before(async () => {
      cluster = opened();
      namespace = await cluster.namespace();
    });

    const types = {
      json: 'application/json-patch+json',
      merge: 'application/merge-patch+json',
      strategic: 'application/strategic-merge-patch+json',
      apply: 'application/apply-patch+yaml',
    };

    const configMap = (name: string): string => `/api/v1/namespaces/${namespace}/configmaps/${name}`;
    const deployment = (name: string): string => `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`;

    const patch = (path: string, type: keyof typeof types, body: object) =>
      cluster.raw(path, { method: 'PATCH', type: types[type], body });

    async function makeConfigMap(name: string, data: Record<string, string>): Promise<void> {
      const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels: { a: '1' } }, data };
      const { status, text } = await cluster.raw(`/api/v1/namespaces/${namespace}/configmaps`, {
        method: 'POST',
        body,
      });
      assert.equal(status, 201, text);
    }

    const webDeployment = (name: string, extra: object = {}): object => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name },
      spec: {
        replicas: 0,
        selector: { matchLabels: { app: name } },
        template: {
          metadata: { labels: { app: name } },
          spec: { containers: [{ name: 'web', image: 'web:1', env: [{ name: 'A', value: '1' }] }] },
        },
        ...extra,
      },
    });

    async function makeDeployment(name: string): Promise<void> {
      const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
      const { status, text } = await cluster.raw(path, { method: 'POST', body: webDeployment(name) });
      assert.equal(status, 201, text);
    }

    describe('JSON patch', () => {
      test('all operations, in their order', async () => {
        await makeConfigMap('ops', { a: '1', b: '2' });
        const answer = await patch(configMap('ops'), 'json', [
          { op: 'test', path: '/data/a', value: '1' },
          { op: 'add', path: '/data/c', value: '3' },
          { op: 'replace', path: '/data/a', value: '9' },
          { op: 'remove', path: '/data/b' },
          { op: 'copy', from: '/data/c', path: '/data/d' },
          { op: 'move', from: '/data/c', path: '/data/e' },
        ]);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(answer.json().data, { a: '9', d: '3', e: '3' });
      });

      test('a test that fails changes nothing', async () => {
        await makeConfigMap('tested', { a: '1' });
        const answer = await patch(configMap('tested'), 'json', [
          { op: 'replace', path: '/data/a', value: '2' },
          { op: 'test', path: '/data/a', value: 'other' },
        ]);
        assert.equal(answer.status, 422, answer.text);
        assert.deepEqual((await cluster.raw(configMap('tested'))).json().data, { a: '1' });
      });

      test('an invalid patch is 400', async () => {
        await makeConfigMap('no-patch', {});
        const answer = await patch(configMap('no-patch'), 'json', { op: 'remove' });
        assert.equal(answer.status, 400);
        assert.equal(answer.json().kind, 'Status');
      });
    });

    describe('merge patch', () => {
      test('null removes, the rest is merged', async () => {
        await makeConfigMap('merge', { a: '1', b: '2' });
        const answer = await patch(configMap('merge'), 'merge', {
          data: { a: null, c: '3' },
          metadata: { labels: { a: null }, annotations: { x: 'y' } },
        });
        assert.deepEqual(answer.json().data, { b: '2', c: '3' });
        assert.equal(answer.json().metadata.labels, undefined);
        assert.deepEqual(answer.json().metadata.annotations, { x: 'y' });
      });

      test('with a stale resourceVersion is 409', async () => {
        await makeConfigMap('versioned', { a: '1' });
        const { resourceVersion } = (await cluster.raw(configMap('versioned'))).json().metadata;
        await patch(configMap('versioned'), 'merge', { data: { a: '2' } });
        const answer = await patch(configMap('versioned'), 'merge', {
          metadata: { resourceVersion },
          data: { a: '3' },
        });
        assert.equal(answer.status, 409, answer.text);
      });

      test('a patch of a missing object is 404', async () => {
        assert.equal((await patch(configMap('none'), 'merge', {})).status, 404);
      });
    });

    describe('strategic merge patch', () => {
      test('lists are merged by their key', async () => {
        await makeDeployment('strategic');
        const answer = await patch(deployment('strategic'), 'strategic', {
          spec: {
            template: {
              spec: {
                containers: [
                  { name: 'web', env: [{ name: 'B', value: '2' }] },
                  { name: 'side', image: 'side:1' },
                ],
              },
            },
          },
        });
        assert.equal(answer.status, 200, answer.text);
        const { containers } = answer.json().spec.template.spec;
        assert.deepEqual(
          containers.map(({ name, image }: { name: string; image: string }) => `${name} ${image}`).toSorted(),
          ['side side:1', 'web web:1'],
        );
        const web = containers.find(({ name }: { name: string }) => name === 'web');
        assert.deepEqual(web.env.map(({ name }: { name: string }) => name).toSorted(), ['A', 'B']);
      });

      test('$patch: delete removes an item', async () => {
        await makeDeployment('directive');
        const spec = {
          template: { spec: { containers: [{ name: 'web', env: [{ name: 'A', $patch: 'delete' }] }] } },
        };
        const answer = await patch(deployment('directive'), 'strategic', { spec });
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(answer.json().spec.template.spec.containers[0].env ?? [], []);
      });
    });

    describe('server-side apply', () => {
      const apply = (path: string, body: object, manager: string, force = false) =>
        patch(`${path}?fieldManager=${manager}${force ? '&force=true' : ''}`, 'apply', body);
      const config = (name: string, data: Record<string, string>): object => ({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name },
        data,
      });

      test('creates, changes, and removes fields that are no longer applied', async () => {
        const made = await apply(configMap('applied'), config('applied', { a: '1', b: '2' }), 'one');
        assert.equal(made.status, 201, made.text);
        const changed = await apply(configMap('applied'), config('applied', { a: '9' }), 'one');
        assert.equal(changed.status, 200);
        assert.deepEqual(changed.json().data, { a: '9' });
        const [entry] = changed.json().metadata.managedFields;
        assert.equal(entry.manager, 'one');
        assert.equal(entry.operation, 'Apply');
        assert.deepEqual(entry.fieldsV1, { 'f:data': { 'f:a': {} } });
      });

      test('applying the same changes nothing', async () => {
        const one = await apply(configMap('stable'), config('stable', { a: '1' }), 'one');
        const two = await apply(configMap('stable'), config('stable', { a: '1' }), 'one');
        assert.equal(two.json().metadata.resourceVersion, one.json().metadata.resourceVersion);
      });

      test('applying a field of another manager is 409 with the field, until forced', async () => {
        await apply(configMap('owned'), config('owned', { a: '1' }), 'one');
        const refused = await apply(configMap('owned'), config('owned', { a: '2' }), 'two');
        assert.equal(refused.status, 409, refused.text);
        const status = refused.json();
        assert.equal(status.reason, 'Conflict');
        assert.equal(status.details.causes[0].reason, 'FieldManagerConflict');
        assert.equal(status.details.causes[0].field, '.data.a');
        assert.match(status.details.causes[0].message, /^conflict with "one"/);
        const forced = await apply(configMap('owned'), config('owned', { a: '2' }), 'two', true);
        assert.equal(forced.json().data.a, '2');
      });

      test('applying the same value shares it, and it stays until both drop it', async () => {
        await apply(configMap('shared'), config('shared', { a: '1' }), 'one');
        assert.equal((await apply(configMap('shared'), config('shared', { a: '1' }), 'two')).status, 200);
        const left = await apply(configMap('shared'), config('shared', {}), 'one');
        assert.equal(left.json().data.a, '1');
        const gone = await apply(configMap('shared'), config('shared', {}), 'two');
        assert.equal(gone.json().data?.a, undefined);
      });

      test('merges lists by their keys', async () => {
        await makeDeployment('lists');
        const side = webDeployment('lists');
        Object.assign((side as { spec: { template: { spec: object } } }).spec.template.spec, {
          containers: [
            {
              name: 'side',
              image: 'side:1',
              ports: [{ containerPort: 80 }, { containerPort: 80, protocol: 'UDP' }],
            },
          ],
        });
        const answer = await apply(deployment('lists'), side, 'suite', true);
        assert.equal(answer.status, 200, answer.text);
        const { containers } = answer.json().spec.template.spec;
        assert.deepEqual(containers.map(({ name }: { name: string }) => name).toSorted(), ['side', 'web']);
        assert.equal(containers.find(({ name }: { name: string }) => name === 'side').ports.length, 2);
      });

      test('without a manager is 400', async () => {
        const answer = await patch(configMap('nobody'), 'apply', config('nobody', {}));
        assert.ok([400, 422].includes(answer.status), answer.text);
        assert.match(answer.json().message, /fieldManager/);
      });

      test('with managedFields is 400', async () => {
        const body = {
          ...config('fields', {}),
          metadata: { name: 'fields', managedFields: [{ manager: 'x' }] },
        };
        const answer = await apply(configMap('fields'), body, 'one');
        assert.equal(answer.status, 400);
        assert.equal(answer.json().message, 'metadata.managedFields must be nil');
      });
    });
  });
}
