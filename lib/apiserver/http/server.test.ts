import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { createMetrics } from '../../telemetry/metrics.ts';
import { ApiError, type StatusFailure } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import { call, inA, json } from './call.fixture.ts';
import { pods, serveThings, widgets } from './server.fixture.ts';
import { versionRoute } from './version.ts';

test('the request that the verbs get', async () => {
  await using server = await serveThings();
  const got = await call(server, `${inA}/x?resourceVersion=5&a=%26`);
  assert.equal(got.code, 200);
  assert.match(String(got.headers['audit-id']), /^[0-9a-f]{8}-[0-9a-f-]{27}$/);
  assert.equal(got.headers['cache-control'], 'no-cache, private');
  assert.deepEqual(
    {
      verb: got.json['verb'],
      namespace: got.json['namespace'],
      name: got.json['name'],
      query: got.json['query'],
    },
    { verb: 'get', namespace: 'a', name: 'x', query: ['resourceVersion=5', 'a=&'] },
  );
  const created = await call(server, inA, {
    method: 'POST',
    headers: json,
    body: '{"n":9007199254740993,"n":1}',
  });
  assert.equal(created.code, 201);
  assert.equal(created.json['body'], '{"n":1}');
  assert.deepEqual(created.json['duplicates'], ['duplicate field "n"']);

  const patched = await call(server, `${inA}/x/status`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/apply-patch+yaml; charset=utf-8' },
    body: 'a: yes',
  });
  assert.equal(patched.json['patchType'], 'application/apply-patch+yaml');
  assert.equal(patched.json['subresource'], 'status');
  assert.equal(patched.json['body'], '{"a":true}');

  for (const [body, expected] of [
    ['', undefined],
    ['{"kind":"DeleteOptions"}', '{"kind":"DeleteOptions"}'],
  ] as const) {
    const deleted = await call(server, `${inA}/x`, { method: 'DELETE', headers: json, body });
    assert.equal(deleted.json['verb'], 'delete');
    assert.equal(deleted.json['body'], expected);
  }
});

test('warnings reach the client unchanged, with any text', async () => {
  await using server = await serveThings((request) => {
    request.warnings.push('é "1"', 'two', 'two');
    const object = { kind: 'Pod', text: request.name === 'ascii' ? 'a' : 'ü\u{1F600}' };
    const item = Item.ofObject(pods, object);
    if (request.verb === 'get') return { kind: 'item', code: 200, item };
    const items = request.query.has('many') ? Array.from({ length: 20_000 }, () => item) : [item];
    return {
      kind: 'list',
      list: { resource: pods, items, version: 1n, continue: undefined, remaining: undefined },
    };
  });
  for (const path of [`${inA}/ascii`, `${inA}/x`, inA, `${inA}?many`]) {
    const { headers, body } = await call(server, path);
    // node joins what comes several times.
    assert.equal(
      Buffer.from(String(headers['warning']), 'latin1').toString(),
      String.raw`299 - "é \"1\"", 299 - "two"`,
    );
    if (path !== `${inA}/ascii`) assert.match(body.toString(), /"ü\u{1F600}"/u);
  }
});

test('plain routes, version and health', async () => {
  const state: { reason?: string } = {};
  await using server = await serveThings(undefined, {
    routes: [
      ({ path, query }) =>
        path === '/api' ? { code: 203, headers: { 'x-a': '1' }, body: query.get('q') ?? '' } : undefined,
      versionRoute('1.2.3 x'),
    ],
    health: [{ name: 'store', check: () => state.reason, of: 'readyz' }],
  });
  const api = await call(server, '/api?q=5');
  assert.deepEqual([api.code, api.headers['x-a'], api.body.toString()], [203, '1', '5']);
  assert.equal((await call(server, '/api', { method: 'POST' })).code, 405);
  assert.equal((await call(server, '/version')).json['gitVersion'], 'v1.35.0+rampart-1.2.3-x');

  const nobody = { headers: { authorization: '' } };
  assert.equal((await call(server, '/version', nobody)).code, 401);
  assert.equal((await call(server, '/api', nobody)).code, 401);
  for (const path of ['/livez', '/readyz', '/healthz', '/livez/ping', '/readyz/store']) {
    const { code, body } = await call(server, path, nobody);
    assert.deepEqual([code, body.toString()], [200, 'ok'], path);
  }
  assert.equal((await call(server, '/livez/store')).code, 404);
  const verbose = await call(server, '/readyz?verbose&exclude=ping', nobody);
  assert.equal(
    verbose.body.toString(),
    '[+]ping excluded: ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n',
  );
  state.reason = 'disk is full';
  for (const path of ['/readyz', '/healthz', '/readyz/store']) {
    const { code, body } = await call(server, path, nobody);
    assert.equal(code, 500, path);
    assert.doesNotMatch(body.toString(), /disk/);
  }
  assert.match(
    (await call(server, '/readyz', nobody)).body.toString(),
    /^\[-\]store failed: reason withheld$/m,
  );
  assert.equal((await call(server, '/livez', nobody)).code, 200);
});

test('a unix socket is for its owner, and a dead one is taken over', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'rampart-http-'));
  const socketPath = join(directory.path, 's');
  {
    await using server = await serveThings(undefined, { listen: { socketPath } });
    assert.equal(server.url, undefined);
    assert.equal(statSync(socketPath).mode & 0o777, 0o600);
    assert.equal((await call(server, inA)).code, 200);
    await assert.rejects(serveThings(undefined, { listen: { socketPath } }), { code: 'RAMPART_IN_USE' });
    assert.equal((await call(server, inA)).code, 200);
  }
  writeFileSync(socketPath, 'a file');
  await assert.rejects(serveThings(undefined, { listen: { socketPath } }), { code: 'RAMPART_IN_USE' });
});

test('an address that is in use is refused', async () => {
  await using server = await serveThings();
  assert.ok('port' in server.address);
  await assert.rejects(serveThings(undefined, { listen: server.address }), { code: 'RAMPART_IN_USE' });
});

test('requests are counted', async () => {
  const metrics = await createMetrics();
  await using server = await serveThings(
    ({ name }) => {
      if (name === 'x') throw new ApiError({ code: 404, reason: 'NotFound', message: 'no' });
      return {
        kind: 'status',
        code: 200,
        body: { kind: 'Status', status: 'Success' } satisfies Partial<StatusFailure> | object,
      };
    },
    { metrics },
  );
  await call(server, `${inA}/x`);
  await call(server, `${inA}/y`, { method: 'DELETE' });
  await call(server, `/apis/example.com/v1/namespaces/a/${widgets.plural}`, {
    method: 'POST',
    headers: json,
    body: '{"a":1}',
  });
  await call(server, '/no/such/path');
  const text = metrics.registry.metrics();
  for (const line of [
    'rampart_apiserver_requests_total{verb="get",code="404",resource="pods"} 1',
    'rampart_apiserver_requests_total{verb="delete",code="200",resource="pods"} 1',
    'rampart_apiserver_requests_total{verb="create",code="200",resource="widgets.example.com"} 1',
    'rampart_apiserver_requests_total{verb="GET",code="404",resource=""} 1',
    'rampart_apiserver_request_duration_seconds_bucket{verb="get",le="+Inf"} 1',
    'rampart_apiserver_request_duration_seconds_count{verb="create"} 1',
    'rampart_apiserver_requests_in_flight{kind="mutating"} 0',
    'rampart_apiserver_received_bytes_total 7',
  ]) {
    assert.ok(text.includes(`${line}\n`), line);
  }
});
