// CustomResourceDefinitions, and the objects of their kinds.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';

import { type Cluster, eventually } from './cluster.fixture.ts';

export function customCases(opened: () => Cluster): void {
  describe('custom resources', () => {
    let cluster: Cluster;
    let namespace: string;
    const group = 'suite.rampart.example';
    const name = `crontabs.${group}`;

    const schema = {
      type: 'object',
      required: ['spec'],
      properties: {
        spec: {
          type: 'object',
          required: ['cronSpec'],
          properties: {
            cronSpec: { type: 'string', pattern: String.raw`^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$` },
            image: { type: 'string', default: 'busybox' },
            replicas: { type: 'integer', minimum: 0, maximum: 10, default: 1 },
            minReplicas: { type: 'integer' },
            port: { 'x-kubernetes-int-or-string': true },
            free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
            tags: {
              type: 'array',
              maxItems: 20,
              items: { type: 'string', maxLength: 50 },
              'x-kubernetes-list-type': 'set',
            },
            steps: {
              type: 'array',
              maxItems: 20,
              items: {
                type: 'object',
                required: ['id'],
                properties: { id: { type: 'string' }, run: { type: 'string' } },
              },
              'x-kubernetes-list-type': 'map',
              'x-kubernetes-list-map-keys': ['id'],
            },
            frozen: {
              type: 'string',
              'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'frozen cannot change' }],
            },
          },
          'x-kubernetes-validations': [
            {
              rule: '!has(self.minReplicas) || self.minReplicas <= self.replicas',
              message: 'minReplicas is at most replicas',
              fieldPath: '.minReplicas',
            },
          ],
        },
        status: {
          type: 'object',
          properties: {
            replicas: { type: 'integer' },
            selector: { type: 'string' },
            phase: { type: 'string' },
          },
        },
      },
    };

    const definition = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name },
      spec: {
        group,
        scope: 'Namespaced',
        names: {
          plural: 'crontabs',
          singular: 'crontab',
          kind: 'CronTab',
          shortNames: ['ct'],
          categories: ['suite'],
        },
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            schema: { openAPIV3Schema: schema },
            subresources: {
              status: {},
              scale: {
                specReplicasPath: '.spec.replicas',
                statusReplicasPath: '.status.replicas',
                labelSelectorPath: '.status.selector',
              },
            },
            additionalPrinterColumns: [
              { name: 'Name', type: 'string', jsonPath: '.spec.image', priority: 1 },
              { name: 'Spec', type: 'string', jsonPath: '.spec.cronSpec' },
              { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas' },
              { name: 'Image', type: 'string', jsonPath: '.spec.image', priority: 1 },
              { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
            ],
            selectableFields: [{ jsonPath: '.spec.image' }],
          },
          {
            ...{ name: 'v1beta1', served: true, storage: false, schema: { openAPIV3Schema: schema } },
            selectableFields: [{ jsonPath: '.spec.image' }],
          },
        ],
      },
    };

    const all = (version = 'v1'): string => `/apis/${group}/${version}/namespaces/${namespace}/crontabs`;
    const crontab = (object: string, spec: object): object => ({
      apiVersion: `${group}/v1`,
      kind: 'CronTab',
      metadata: { name: object },
      spec,
    });
    const post = (body: object, query = '') => cluster.raw(`${all()}${query}`, { method: 'POST', body });

    before(async () => {
      cluster = opened();
      namespace = await cluster.namespace();
      cluster.removeLater('delete', 'crd', name);
      await cluster.kubectl(['apply', '-f', '-'], JSON.stringify(definition));
      await cluster.kubectl(['wait', '--for=condition=Established', `crd/${name}`, '--timeout=30s']);
      await eventually('the kind is served', async () => (await cluster.raw(all())).status === 200);
    });

    const every = '*/5 * * * *';

    describe('objects', () => {
      test('are defaulted and pruned', async () => {
        const answer = await post(
          crontab('plain', { cronSpec: every, nonsense: 1, free: { any: { thing: [1] } } }),
        );
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual(answer.json().spec, {
          cronSpec: every,
          image: 'busybox',
          replicas: 1,
          free: { any: { thing: [1] } },
        });
        assert.equal(answer.json().metadata.generation, 1);
        assert.match(String(answer.headers['warning']), /unknown field \\"spec\.nonsense\\"/);
      });

      const wrong: readonly (readonly [string, object, string, RegExp])[] = [
        ['a required field', {}, 'spec.cronSpec', /^spec\.cronSpec: Required value$|Required value/],
        ['a pattern', { cronSpec: 'never' }, 'spec.cronSpec', /should match/],
        [
          'a maximum',
          { cronSpec: every, replicas: 11 },
          'spec.replicas',
          /should be less than or equal to 10/,
        ],
        [
          'a type',
          { cronSpec: every, replicas: 'many' },
          'spec.replicas',
          /must be of type integer: "string"/,
        ],
        [
          'an item twice in a set',
          { cronSpec: every, tags: ['a', 'b', 'a'] },
          'spec.tags[2]',
          /Duplicate value: "a"/,
        ],
        [
          'an item twice in a map',
          { cronSpec: every, steps: [{ id: 'a' }, { id: 'a' }] },
          'spec.steps[1]',
          /Duplicate value/,
        ],
        [
          'a rule',
          { cronSpec: every, replicas: 1, minReplicas: 2 },
          'spec.minReplicas',
          /minReplicas is at most replicas/,
        ],
      ];
      for (const [what, spec, field, message] of wrong) {
        test(`that break ${what} are 422`, async () => {
          const answer = await post(crontab('wrong', spec));
          assert.equal(answer.status, 422, answer.text);
          const { details, message: whole } = answer.json();
          assert.ok(
            details.causes.some((cause: { field: string }) => cause.field === field),
            answer.text,
          );
          assert.match(details.causes.map((cause: { message: string }) => cause.message).join('\n'), message);
          assert.match(whole, /^CronTab\.suite\.rampart\.example "wrong" is invalid: /);
        });
      }

      test('int-or-string takes both', async () => {
        assert.equal((await post(crontab('port-a', { cronSpec: every, port: 80 }))).json().spec.port, 80);
        assert.equal(
          (await post(crontab('port-b', { cronSpec: every, port: 'http' }))).json().spec.port,
          'http',
        );
        assert.equal((await post(crontab('port-c', { cronSpec: every, port: true }))).status, 422);
      });

      test('rules see the old value', async () => {
        await post(crontab('frozen', { cronSpec: every, frozen: 'a' }));
        const merge = (body: object) =>
          cluster.raw(`${all()}/frozen`, { method: 'PATCH', type: 'application/merge-patch+json', body });
        assert.equal((await merge({ spec: { replicas: 2 } })).status, 200);
        const answer = await merge({ spec: { frozen: 'b' } });
        assert.equal(answer.status, 422);
        assert.match(answer.json().message, /frozen cannot change/);
      });

      test('the generation counts changes of the spec, not of status or labels', async () => {
        await post(crontab('counted', { cronSpec: every }));
        const merge = (path: string, body: object) =>
          cluster.raw(`${all()}/counted${path}`, {
            method: 'PATCH',
            type: 'application/merge-patch+json',
            body,
          });
        assert.equal((await merge('', { spec: { replicas: 3 } })).json().metadata.generation, 2);
        assert.equal((await merge('', { metadata: { labels: { a: 'b' } } })).json().metadata.generation, 2);
        assert.equal((await merge('/status', { status: { replicas: 3 } })).json().metadata.generation, 2);
      });

      test('status is written by its subresource only', async () => {
        await post(crontab('reported', { cronSpec: every }));
        const merge = (path: string, body: object) =>
          cluster.raw(`${all()}/reported${path}`, {
            method: 'PATCH',
            type: 'application/merge-patch+json',
            body,
          });
        const ignored = await merge('', { status: { phase: 'Done' } });
        assert.equal(ignored.json().status, undefined);
        const reported = await merge('/status', { status: { phase: 'Done' }, spec: { replicas: 7 } });
        assert.equal(reported.json().status.phase, 'Done');
        assert.equal(reported.json().spec.replicas, 1);
      });

      test('scale', async () => {
        await post(crontab('scaled', { cronSpec: every, replicas: 2 }));
        const scale = await cluster.raw(`${all()}/scaled/scale`);
        assert.equal(scale.json().kind, 'Scale');
        assert.equal(scale.json().spec.replicas, 2);
        await cluster.kubectl(['-n', namespace, 'scale', 'crontab/scaled', '--replicas=5']);
        assert.equal((await cluster.raw(`${all()}/scaled`)).json().spec.replicas, 5);
      });

      test('selectable fields', async () => {
        await post(crontab('other-image', { cronSpec: every, image: 'alpine' }));
        const list = await cluster.raw(`${all()}?fieldSelector=spec.image%3Dalpine`);
        assert.deepEqual(
          list.json().items.map((item: { metadata: { name: string } }) => item.metadata.name),
          ['other-image'],
        );
        assert.equal((await cluster.raw(`${all()}?fieldSelector=spec.cronSpec%3Dx`)).status, 400);
      });

      test('are the same in all versions', async () => {
        await post(crontab('both', { cronSpec: every }));
        const other = (await cluster.raw(`${all('v1beta1')}/both`)).json();
        assert.equal(other.apiVersion, `${group}/v1beta1`);
        assert.deepEqual(other.spec, (await cluster.raw(`${all()}/both`)).json().spec);
      });

      test('strategic merge patches are 415', async () => {
        const answer = await cluster.raw(`${all()}/both`, {
          method: 'PATCH',
          type: 'application/strategic-merge-patch+json',
          body: { spec: {} },
        });
        assert.equal(answer.status, 415, answer.text);
      });

      test('server-side apply merges lists that are maps', async () => {
        const apply = (manager: string, steps: object[]) =>
          cluster.raw(`${all()}/steps?fieldManager=${manager}`, {
            method: 'PATCH',
            type: 'application/apply-patch+yaml',
            body: crontab('steps', { cronSpec: every, steps }),
          });
        assert.equal((await apply('one', [{ id: 'a', run: 'x' }])).status, 201);
        const both = await apply('two', [{ id: 'b', run: 'y' }]);
        assert.equal(both.status, 200, both.text);
        assert.deepEqual(
          both.json().spec.steps.map(({ id }: { id: string }) => id),
          ['a', 'b'],
        );
        const less = await apply('one', []);
        assert.deepEqual(
          less.json().spec.steps.map(({ id }: { id: string }) => id),
          ['b'],
        );
      });
    });

    describe('kubectl', () => {
      test('get shows the columns', async () => {
        await post(crontab('shown', { cronSpec: every, replicas: 4 }));
        const lines = (await cluster.kubectl(['-n', namespace, 'get', 'ct', 'shown'])).split('\n');
        assert.match(lines[0] ?? '', /^NAME +SPEC +REPLICAS +AGE$/);
        assert.match(lines[1] ?? '', /^shown +\*\/5 \* \* \* \* +4 +\d+s$/);
        const wide = await cluster.kubectl(['-n', namespace, 'get', 'crontab', 'shown', '-o', 'wide']);
        assert.match(wide.split('\n')[0] ?? '', /^NAME +NAME +SPEC +REPLICAS +IMAGE +AGE$/);
        assert.match(
          await cluster.kubectl(['-n', namespace, 'get', 'suite', '-o', 'name']),
          /^crontab\.suite\.rampart\.example\/shown$/m,
        );
      });

      test('explain knows the schema', async () => {
        const text = await cluster.kubectl(['explain', 'crontab.spec']);
        assert.match(text, /cronSpec/);
        assert.match(text, /replicas/);
      });

      test('a typing error is refused', async () => {
        const body = JSON.stringify(crontab('typo', { cronSpec: every, replicaz: 3 }));
        const run = await cluster.tryKubectl(['-n', namespace, 'create', '-f', '-'], body);
        assert.notEqual(run.code, 0);
        assert.match(run.stderr, /unknown field "(spec\.)?replicaz"/);
      });
    });

    describe('definitions', () => {
      const post2 = (body: object) =>
        cluster.raw('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', { method: 'POST', body });

      test('one whose schema is not structural is 422', async () => {
        const body = structuredClone(definition);
        body.metadata.name = `things.${group}`;
        body.spec.names = {
          plural: 'things',
          singular: 'thing',
          kind: 'Thing',
          shortNames: [],
          categories: [],
        };
        const [first] = body.spec.versions;
        if (first === undefined) throw new Error('no version');
        body.spec.versions = [
          { ...first, schema: { openAPIV3Schema: { properties: { spec: {} } } as unknown as typeof schema } },
        ];
        const answer = await post2(body);
        assert.equal(answer.status, 422, answer.text);
        assert.match(answer.json().message, /must not be empty|Required value/);
      });

      test('one whose name is not plural.group is 422', async () => {
        const answer = await post2({ ...definition, metadata: { name: 'wrong.name' } });
        assert.equal(answer.status, 422, answer.text);
        assert.ok(
          answer.json().details.causes.some((cause: { field: string }) => cause.field === 'metadata.name'),
        );
      });

      test('removing one removes its objects, and the kind', async () => {
        const own = structuredClone(definition);
        own.metadata.name = `shortlived.${group}`;
        own.spec.names = {
          plural: 'shortlived',
          singular: 'shortlived',
          kind: 'ShortLived',
          shortNames: [],
          categories: [],
        };
        await cluster.kubectl(['create', '-f', '-'], JSON.stringify(own));
        await cluster.kubectl([
          'wait',
          '--for=condition=Established',
          `crd/${own.metadata.name}`,
          '--timeout=30s',
        ]);
        const path = `/apis/${group}/v1/namespaces/${namespace}/shortlived`;
        await eventually('served', async () => (await cluster.raw(path)).status === 200);
        const body = {
          apiVersion: `${group}/v1`,
          kind: 'ShortLived',
          metadata: { name: 'x' },
          spec: { cronSpec: every },
        };
        assert.equal((await cluster.raw(path, { method: 'POST', body })).status, 201);
        await cluster.kubectl(['delete', 'crd', own.metadata.name, '--timeout=60s']);
        await eventually('no longer served', async () => (await cluster.raw(path)).status === 404);
      });
    });
  });
}
