import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Agent } from '../../net/node-http.ts';
import { apiErrors } from '../resources/api-error.ts';
import { body as protobufBody } from '../protobuf/bytes.fixture.ts';
import { type Call, call, inA, json } from './call.fixture.ts';
import { echo, pods, serveThings } from './server.fixture.ts';

test('requests refused before they reach the verbs', async () => {
  let calls = 0;
  await using server = await serveThings((request) => {
    calls++;
    return echo(request);
  });
  const widget = '/apis/example.com/v1/namespaces/a/widgets';
  const cases: readonly (readonly [string, Call, number, RegExp])[] = [
    ['/nope', {}, 404, /could not find the requested resource/],
    ['/api/v1/nope', {}, 404, /could not find the requested resource/],
    [inA, { headers: { authorization: 'Bearer wrong' } }, 401, /^Unauthorized$/],
    [
      inA,
      { headers: { 'impersonate-user': 'bob' } },
      403,
      /^users "bob" is forbidden: .* cannot impersonate/,
    ],
    [
      inA,
      { headers: { accept: 'image/png' } },
      406,
      /only the following media types are accepted: application\/json/,
    ],
    [
      inA,
      { method: 'POST', body: '{}', headers: { 'content-type': 'text/plain' } },
      415,
      /accepted media types include: application\/json, application\/yaml, application\/vnd.kubernetes.protobuf$/,
    ],
    [
      `${inA}/x`,
      { method: 'PATCH', body: '{}', headers: json },
      415,
      /json-patch\+json, application\/merge-patch\+json, application\/strategic-merge-patch\+json, application\/apply-patch\+yaml$/,
    ],
    [
      `${widget}/x`,
      { method: 'PATCH', body: '{}', headers: { 'content-type': 'application/strategic-merge-patch+json' } },
      415,
      /json-patch\+json, application\/merge-patch\+json, application\/apply-patch\+yaml$/,
    ],
    [
      inA,
      { method: 'POST', headers: json },
      400,
      /must be of type Pod\).*unexpected end of JSON input \(<empty>\)/,
    ],
    [
      inA,
      { method: 'POST', headers: json, body: `{"a":${'1'.repeat(40)}x` },
      400,
      /invalid character 'x' after object key:value pair \(\{"a":1{25} \.\.\.\)$/,
    ],
    [
      inA,
      { method: 'POST', headers: json, body: Buffer.from([0x22, 0xff, 0x22]) },
      400,
      /invalid UTF-8 \(22ff22\)/,
    ],
    [
      `${inA}/x`,
      { method: 'PUT', headers: json, body: '['.repeat(2_000_000) },
      400,
      /nested deeper than 500/,
    ],
    [
      `${inA}/x`,
      { method: 'PATCH', headers: { 'content-type': 'application/merge-patch+json' }, body: '{' },
      400,
      /^error decoding patch: unexpected end/,
    ],
    [
      `${inA}/x`,
      { method: 'PATCH', headers: { 'content-type': 'application/apply-patch+yaml' }, body: 'a: [' },
      400,
      /^error decoding YAML: yaml: line 1/,
    ],
    [
      `${inA}/x`,
      { method: 'DELETE', headers: json, body: '{' },
      400,
      /^couldn't get version\/kind; json parse error: unexpected end/,
    ],
    [inA, { method: 'HEAD' }, 405, /^$/],
    [inA, { method: 'OPTIONS' }, 405, /options is not supported on resources of kind "pods"/],
    ['/livez', { method: 'POST' }, 405, /does not allow this method/],
  ];
  for (const [path, options, code, message] of cases) {
    const answer = await call(server, path, options);
    assert.equal(answer.code, code, `${options.method} ${path}`);
    if (options.method !== 'HEAD') {
      assert.deepEqual(
        [answer.json['kind'], answer.json['status'], answer.json['code']],
        ['Status', 'Failure', code],
      );
      assert.match(String(answer.json['message']), message);
    }
    if (code === 405) assert.match(String(answer.headers.allow), /GET/);
  }
  assert.equal(calls, 0);
});

test('protobuf of built-in kinds', async () => {
  const headers = { 'content-type': 'application/vnd.kubernetes.protobuf' };
  await using server = await serveThings();
  const post = (path: string, body: Buffer, method = 'POST') => call(server, path, { method, headers, body });
  const pod = protobufBody('v1', 'Pod');
  const custom = '/apis/example.com/v1/namespaces/a/widgets';
  assert.match(String((await post(inA, pod)).json['body']), /^\{"kind":"Pod","apiVersion":"v1"/);
  assert.equal((await post(`${custom}/x`, pod, 'DELETE')).code, 200);
  const bad = await post(inA, Buffer.from('bad'));
  assert.equal(bad.code, 400);
  assert.match(String(bad.json['message']), /must be of type Pod\): provided data .* \(626164\)$/);
  assert.equal((await post(custom, pod)).code, 415);
});

test('a body that is too long is refused with and without a declared length', async () => {
  await using server = await serveThings(undefined, { limits: { bodyBytes: 1000 } });
  const fits = Buffer.from(`"${'x'.repeat(998)}"`);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    for (const headers of [json, { ...json, 'transfer-encoding': 'chunked' }]) {
      assert.equal((await call(server, inA, { method: 'POST', headers, body: fits, agent })).code, 201);
      for (const size of [1001, 5_000_000]) {
        const answer = await call(server, inA, {
          method: 'POST',
          headers,
          body: Buffer.alloc(size, 0x20),
          agent,
        });
        assert.equal(answer.code, 413);
        assert.equal(answer.json['message'], 'Request entity too large: limit is 1000');
        assert.equal(answer.json['reason'], 'RequestEntityTooLarge');
      }
    }
    // The connection is still good.
    assert.equal((await call(server, inA, { agent })).code, 200);
  } finally {
    agent.destroy();
  }
});

test('errors: a Status for those that are meant for the client, an audit id for all others', async () => {
  const logged: { auditId?: string; err?: unknown }[] = [];
  const log = {
    error: (fields: object) => void logged.push(fields),
    warn: () => undefined,
    debug: () => undefined,
  };
  const secret = new Error('secret');
  const throwing: Readonly<Record<string, () => never>> = {
    conflict: () => {
      throw apiErrors.changed(pods, 'x');
    },
    busy: () => {
      throw apiErrors.tooManyRequests(7);
    },
    bug: () => {
      throw secret;
    },
  };
  await using server = await serveThings((request) => throwing[request.name]?.() ?? echo(request), {
    log: log as never,
  });
  const conflict = await call(server, `${inA}/conflict`);
  assert.deepEqual([conflict.code, conflict.json['reason']], [409, 'Conflict']);
  const busy = await call(server, `${inA}/busy`);
  assert.deepEqual([busy.code, busy.headers['retry-after']], [429, '7']);
  assert.equal(logged.length, 0);
  const bug = await call(server, `${inA}/bug`);
  assert.equal(bug.code, 500);
  assert.doesNotMatch(bug.body.toString(), /secret/);
  assert.match(String(bug.json['message']), new RegExp(String(bug.headers['audit-id'])));
  assert.equal(logged.length, 1);
  assert.equal(logged[0]?.auditId, bug.headers['audit-id']);
  assert.equal(logged[0]?.err, secret);
});

test('an answer that cannot be written ends its connection, and nothing else', async () => {
  const { renderer } = await import('../render/renderer.ts');
  await using server = await serveThings(undefined, {
    renderer: {
      ...renderer,
      renderItem: () => {
        throw new Error('cannot render');
      },
      renderError: () => {
        throw new Error('cannot render that either');
      },
    },
    routes: [({ path }) => ({ code: 200, headers: { 'x-bad': path }, body: '' })],
  });
  await assert.rejects(call(server, `${inA}/x`), { code: 'ECONNRESET' });
  await assert.rejects(call(server, '/a%0d%0aSet-Cookie:%20x'), { code: 'ECONNRESET' });
  assert.equal((await call(server, '/livez')).code, 200);
});
