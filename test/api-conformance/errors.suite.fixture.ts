// Whatever is wrong is answered by a Status.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';

import { type Answer, type Cluster, type RawRequest } from './cluster.fixture.ts';

export function errorCases(opened: () => Cluster): void {
  describe('errors', () => {
    let cluster: Cluster;
    let namespace: string;
    before(async () => {
      cluster = opened();
      namespace = await cluster.namespace();
    });

    async function refused(path: string, request: RawRequest, code: number, reason: string): Promise<Answer> {
      const answer = await cluster.raw(path, request);
      assert.equal(answer.status, code, answer.text);
      const status = answer.json();
      assert.equal(status.kind, 'Status');
      assert.equal(status.apiVersion, 'v1');
      assert.equal(status.status, 'Failure');
      assert.equal(status.reason, reason);
      assert.equal(status.code, code);
      assert.match(String(answer.headers['content-type']), /^application\/json/);
      return answer;
    }

    const configMaps = (): string => `/api/v1/namespaces/${namespace}/configmaps`;
    const json = (metadata: object, rest: object = {}): object => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      ...rest,
    });

    describe('400', () => {
      test('a body that is not JSON', async () => {
        await refused(configMaps(), { method: 'POST', body: '{"a":' }, 400, 'BadRequest');
      });

      test('no body', async () => {
        await refused(configMaps(), { method: 'POST', body: '' }, 400, 'BadRequest');
      });

      test('another kind than that of the path', async () => {
        const body = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a' } };
        const answer = await refused(configMaps(), { method: 'POST', body }, 400, 'BadRequest');
        assert.match(answer.json().message, /Secret/);
      });

      test('a field of the wrong type', async () => {
        const body = json({ name: 'a' }, { data: { a: 5 } });
        const answer = await cluster.raw(configMaps(), { method: 'POST', body });
        // Kubernetes fails to decode it; a server that validates by schema finds it invalid.
        assert.ok([400, 422].includes(answer.status), answer.text);
        assert.equal(answer.json().kind, 'Status');
      });

      test('fieldValidation=Strict: an unknown field, and one that stands twice', async () => {
        const unknown = json({ name: 'strict' }, { nonsense: 1 });
        const one = await refused(
          `${configMaps()}?fieldValidation=Strict`,
          { method: 'POST', body: unknown },
          400,
          'BadRequest',
        );
        assert.match(one.json().message, /strict decoding error: unknown field "nonsense"/);
        const twice =
          '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"strict"},"data":{"a":"1","a":"2"}}';
        const two = await refused(
          `${configMaps()}?fieldValidation=Strict`,
          { method: 'POST', body: twice },
          400,
          'BadRequest',
        );
        assert.match(two.json().message, /duplicate field "data\.a"/);
      });

      test('fieldValidation=Warn: a Warning header, and the field is dropped', async () => {
        const body = json({ name: 'warned' }, { nonsense: 1 });
        const answer = await cluster.raw(`${configMaps()}?fieldValidation=Warn`, { method: 'POST', body });
        assert.equal(answer.status, 201, answer.text);
        assert.match(String(answer.headers['warning']), /^299 - "unknown field \\"nonsense\\""/);
        assert.equal(answer.json().nonsense, undefined);
      });

      test('fieldValidation=Ignore: no word of it', async () => {
        const body = json({ name: 'ignored' }, { nonsense: 1 });
        const answer = await cluster.raw(`${configMaps()}?fieldValidation=Ignore`, { method: 'POST', body });
        assert.equal(answer.status, 201);
        assert.equal(answer.headers['warning'], undefined);
      });
    });

    describe('who asks', () => {
      test('without credentials: 401, or 403 if anonymous users are known', async () => {
        const answer = await cluster.raw('/api/v1/namespaces', { anonymous: true });
        assert.ok([401, 403].includes(answer.status), answer.text);
        assert.equal(answer.json().kind, 'Status');
      });

      test('an invalid token: 401', async () => {
        await refused(
          '/api/v1/namespaces',
          { anonymous: true, headers: { authorization: 'Bearer none' } },
          401,
          'Unauthorized',
        );
      });

      for (const path of ['/livez', '/readyz', '/healthz']) {
        test(`${path} needs no credentials`, async () => {
          const answer = await cluster.raw(path, { anonymous: true });
          assert.equal(answer.status, 200);
          assert.equal(answer.text, 'ok');
        });
      }
    });

    describe('404', () => {
      test('a path', async () => {
        await refused('/api/v1/no-such-things', {}, 404, 'NotFound');
      });
      test('a group', async () => {
        await refused('/apis/no.such.group/v1/things', {}, 404, 'NotFound');
      });
      test('an object', async () => {
        const answer = await refused(`${configMaps()}/none`, {}, 404, 'NotFound');
        assert.deepEqual(answer.json().details, { name: 'none', kind: 'configmaps' });
      });
      test('an object of a group', async () => {
        const answer = await refused(
          `/apis/apps/v1/namespaces/${namespace}/deployments/none`,
          {},
          404,
          'NotFound',
        );
        assert.equal(answer.json().message, 'deployments.apps "none" not found');
        assert.deepEqual(answer.json().details, { name: 'none', group: 'apps', kind: 'deployments' });
      });
    });

    describe('media types that are not supported', () => {
      test('405: a method', async () => {
        await refused(
          `${configMaps()}/a`,
          { method: 'POST', body: json({ name: 'a' }) },
          405,
          'MethodNotAllowed',
        );
      });

      test('406: an answer in a form that is not known', async () => {
        await refused(configMaps(), { headers: { accept: 'image/png' } }, 406, 'NotAcceptable');
      });

      test('413: more than 3 MiB', async () => {
        const body = json({ name: 'large' }, { data: { a: 'x'.repeat(3 * 1024 * 1024 + 1) } });
        const answer = await refused(configMaps(), { method: 'POST', body }, 413, 'RequestEntityTooLarge');
        assert.match(answer.json().message, /too large|limit is 3145728/i);
      });

      test('415: a body in a form that is not known', async () => {
        await refused(
          configMaps(),
          { method: 'POST', body: 'x', type: 'text/plain' },
          415,
          'UnsupportedMediaType',
        );
      });

      test('415: a patch of no type', async () => {
        await refused(
          `${configMaps()}/warned`,
          { method: 'PATCH', body: '{}', type: 'application/json' },
          415,
          'UnsupportedMediaType',
        );
      });

      test('422: what breaks the rules, with the causes', async () => {
        const body = json({ name: 'a', labels: { 'not a key': 'x', ok: 'not a value!' } });
        const answer = await refused(configMaps(), { method: 'POST', body }, 422, 'Invalid');
        const { details } = answer.json();
        assert.equal(details.kind, 'ConfigMap');
        assert.ok(details.causes.every((cause: { field: string }) => cause.field === 'metadata.labels'));
        assert.equal(details.causes.length, 2);
      });
    });

    test('YAML is taken, and given', async () => {
      const body = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  a: "1"\n';
      const made = await cluster.raw(configMaps(), { method: 'POST', body, type: 'application/yaml' });
      assert.equal(made.status, 201, made.text);
      const given = await cluster.raw(`${configMaps()}/from-yaml`, {
        headers: { accept: 'application/yaml' },
      });
      assert.match(String(given.headers['content-type']), /yaml/);
      assert.match(given.text, /^ {2}name: from-yaml$/m);
    });
  });
}
