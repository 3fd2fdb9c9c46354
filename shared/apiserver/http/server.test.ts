import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { Agent, type IncomingHttpHeaders, request as send } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { createMetrics } from '../../observe/metrics.ts';
import { ApiError, apiErrors, type StatusFailure } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import type { ResourceAnswer, ResourceRequest } from '../verbs/request.ts';
import { BodyMistake } from './body-mistake.ts';
import type { HttpServer } from './server.ts';
import { echo, pods, serveThings, token, widgets } from './server.fixture.ts';
import { versionRoute } from './version.ts';

interface Answer {
  readonly code: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly json: Record<string, unknown>;
}

interface Call {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly agent?: Agent;
}

async function call({ address }: HttpServer, path: string, options: Call = {}): Promise<Answer> {
  const { method = 'GET', headers = {}, body, agent } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = send(
    { ...address, path, method, agent, headers: { authorization: `Bearer ${token}`, ...headers } },
    (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => void chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const whole = Buffer.concat(chunks);
        const isJson = response.headers['content-type'] === 'application/json' && whole[0] === 0x7b;
        resolve({
          code: response.statusCode ?? 0,
          headers: response.headers,
          body: whole,
          json: isJson ? (JSON.parse(whole.toString()) as Record<string, unknown>) : {},
        });
      });
    },
  );
  request.once('error', reject);
  // node's client tells the length of what a DELETE has only when it is asked to.
  if (method === 'DELETE' && body !== undefined) request.setHeader('content-length', Buffer.byteLength(body));
  request.end(body);
  return promise;
}

const inA = '/api/v1/namespaces/a/pods';
const json = { 'content-type': 'application/json' };

test('what the verbs get', async () => {
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

test('what is refused before the verbs see it', async () => {
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
      { method: 'POST', body: '{}', headers: { 'content-type': 'application/vnd.kubernetes.protobuf' } },
      415,
      /accepted media types include: application\/json, application\/yaml$/,
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

test('protobuf, where there is a decoder for it', async () => {
  const headers = { 'content-type': 'application/vnd.kubernetes.protobuf' };
  const post = (server: HttpServer, path: string, body: string, method = 'POST') =>
    call(server, path, { method, headers, body });
  await using server = await serveThings(undefined, {
    decodeProtobuf: (bytes) => {
      if (bytes.toString() === 'bad') throw new BodyMistake('proto: unexpected end');
      return bytes.toString() === 'unknown' ? undefined : { is: bytes.toString() };
    },
  });
  const custom = '/apis/example.com/v1/namespaces/a/widgets';
  assert.equal((await post(server, inA, 'good')).json['body'], '{"is":"good"}');
  assert.equal((await post(server, `${custom}/x`, 'good', 'DELETE')).json['body'], '{"is":"good"}');
  const bad = await post(server, inA, 'bad');
  assert.equal(bad.code, 400);
  assert.match(String(bad.json['message']), /must be of type Pod\): proto: unexpected end \(626164\)$/);
  for (const [path, body] of [
    [inA, 'unknown'],
    [custom, 'good'],
  ] as const) {
    assert.equal((await post(server, path, body)).code, 415);
  }
});

test('a body that is too long is refused whether its length is told or not', async () => {
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

test('warnings reach the client as they are, beside any text', async () => {
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

const longList = (request: ResourceRequest): ResourceAnswer => {
  const items = Array.from({ length: 3000 }, (_, at) =>
    Item.ofObject(pods, { kind: 'Pod', metadata: { name: `${at}` }, text: 'ü'.repeat(200) }),
  );
  if (request.verb === 'get') {
    return { kind: 'item', code: 200, item: Item.ofObject(pods, { text: 'ü'.repeat(200_000) }) };
  }
  return { kind: 'list', list: { resource: pods, items, version: 7n, continue: 'next', remaining: 5 } };
};

test('lists come in pieces, whole, compressed for who wants it', async () => {
  await using server = await serveThings(longList, { compress: true });
  const plain = await call(server, inA);
  assert.equal(plain.headers['content-length'], undefined);
  assert.equal((plain.json['items'] as readonly unknown[]).length, 3000);
  for (const path of [inA, `${inA}/x`]) {
    const [whole, zipped, refused] = await Promise.all(
      [{}, { 'accept-encoding': 'br, gzip' }, { 'accept-encoding': 'gzip;q=0' }].map((headers) =>
        call(server, path, { headers }),
      ),
    );
    assert.equal(zipped?.headers['content-encoding'], 'gzip');
    assert.deepEqual(gunzipSync(zipped?.body ?? ''), whole?.body);
    assert.equal(refused?.headers['content-encoding'], undefined);
  }
});

test('a client that leaves in the middle of a list stops it', async () => {
  let left = 0;
  let endless = 0;
  const { renderer } = await import('../render/renderer.ts');
  await using server = await serveThings(longList, {
    renderer: {
      ...renderer,
      *renderList() {
        try {
          for (;;) {
            endless++;
            yield 'x'.repeat(100_000);
          }
        } finally {
          left++;
        }
      },
    },
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  const request = send(
    { ...server.address, path: inA, headers: { authorization: `Bearer ${token}` } },
    (response) => {
      response.once('data', () => request.destroy());
      response.once('close', resolve);
      response.on('error', () => undefined);
    },
  );
  request.on('error', () => undefined);
  request.end();
  await promise;
  while (server.traffic.inFlight.readonly > 0) await new Promise((next) => void setTimeout(next, 5));
  assert.equal(left, 1);
  // The client took none of what the sockets do not hold.
  assert.ok(endless < 1000, `${endless}`);
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

test('addresses and limits that cannot work are refused', async () => {
  await using server = await serveThings();
  assert.ok('port' in server.address);
  await assert.rejects(serveThings(undefined, { listen: server.address }), { code: 'RAMPART_IN_USE' });
  await assert.rejects(serveThings(undefined, { limits: { bodyBytes: 0 } }), /bodyBytes cannot be 0/);
});

test('what is counted', async () => {
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
