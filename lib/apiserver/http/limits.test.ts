import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

import { Agent, request as send } from '../../net/node-http.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { issueAuthority, issueServerCertificate } from '../../x509/certificate.ts';
import type { ResourceAnswer, ResourceRequest } from '../verbs/request.ts';
import type { HttpServer } from './server.ts';
import { echo, serveThings, token } from './server.fixture.ts';

const inA = '/api/v1/namespaces/a/pods';
const authorization = `Bearer ${token}`;

async function open(
  server: HttpServer,
  method: string,
  path: string,
  body?: string,
): Promise<IncomingMessage> {
  const request = send({ ...server.address, method, path, agent: false, headers: { authorization } });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return response;
}

async function call(server: HttpServer, method: string, path: string, body?: string) {
  const response = await open(server, method, path, body);
  return { code: response.statusCode, headers: response.headers, body: await text(response) };
}

function dial(server: HttpServer): Socket {
  assert.ok('port' in server.address);
  const socket = connect(server.address.port, server.address.host);
  socket.on('error', () => undefined);
  return socket;
}

/** Verbs that wait until they are released. */
function gated() {
  const started: ResourceRequest[] = [];
  const waiting: (() => void)[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  let isOpen = false;
  return {
    started,
    async handle(request: ResourceRequest): Promise<ResourceAnswer> {
      started.push(request);
      for (const wake of waiting.splice(0)) wake();
      if (!isOpen) await promise;
      return echo(request);
    },
    async hasStarted(count: number): Promise<void> {
      while (started.length < count) await new Promise<void>((wake) => void waiting.push(wake));
    },
    letGo(): void {
      isOpen = true;
      resolve();
    },
  };
}

test('too many requests at a time are answered 429, watches are not among them', async () => {
  const gate = gated();
  await using server = await serveThings(gate.handle, {
    limits: { mutatingInFlight: 2, readonlyInFlight: 1 },
  });
  const first = [
    call(server, 'POST', inA, '{}'),
    call(server, 'PUT', `${inA}/x`, '{}'),
    call(server, 'GET', inA),
  ];
  await gate.hasStarted(3);
  const watching = call(server, 'GET', `${inA}?watch=1`);
  await gate.hasStarted(4);
  assert.deepEqual({ ...server.traffic.inFlight }, { mutating: 2, readonly: 1 });
  for (const [method, path] of [
    ['DELETE', `${inA}/x`],
    ['GET', `${inA}/x`],
    ['GET', '/api'],
  ] as const) {
    const { code, headers, body } = await call(server, method, path);
    assert.equal(code, 429);
    assert.equal(headers['retry-after'], '1');
    assert.match(body, /"reason":"TooManyRequests"/);
  }
  assert.equal((await call(server, 'GET', '/livez')).code, 200);
  gate.letGo();
  assert.deepEqual(
    (await Promise.all([...first, watching])).map(({ code }) => code),
    [201, 200, 200, 200],
  );
  assert.equal((await call(server, 'GET', inA)).code, 200);
  assert.equal(server.traffic.rejected, 3);
  assert.deepEqual({ ...server.traffic.inFlight }, { mutating: 0, readonly: 0 });
});

test('a request that takes too long is answered 504 and aborted', async () => {
  const gate = gated();
  await using server = await serveThings(gate.handle, { limits: { requestTimeoutMs: 100 } });
  const answer = call(server, 'POST', inA, '{}');
  await gate.hasStarted(1);
  const signal = gate.started[0]?.signal;
  assert.equal(signal?.aborted, false);
  const { code, body } = await answer;
  assert.equal(code, 504);
  assert.match(body, /"reason":"Timeout"/);
  if (!signal.aborted) await once(signal, 'abort');
  // The write goes on, and is counted as long as it does.
  assert.equal(server.traffic.inFlight.mutating, 1);
  gate.letGo();
  while (server.traffic.inFlight.mutating > 0) await new Promise((next) => void setImmediate(next));
  assert.equal((await call(server, 'GET', inA)).code, 200);
});

test('the signal is aborted when the client goes, and not when it was answered', async () => {
  const gate = gated();
  await using server = await serveThings(gate.handle);
  const request = send({ ...server.address, path: inA, agent: false, headers: { authorization } });
  request.on('error', () => undefined);
  request.end();
  await gate.hasStarted(1);
  const gone = gate.started[0]?.signal;
  assert.ok(gone);
  request.destroy();
  if (!gone.aborted) await once(gone, 'abort');
  gate.letGo();
  const signals: AbortSignal[] = [];
  await using other = await serveThings((one) => {
    signals.push(one.signal);
    return echo(one);
  });
  await call(other, 'GET', inA);
  await call(other, 'GET', inA);
  assert.equal(signals[0]?.aborted, false);
});

test('who sends nothing, half a header or half a body is not waited for', async () => {
  await using server = await serveThings(undefined, {
    limits: { headersTimeoutMs: 100, requestTimeoutMs: 300 },
  });
  const head = `POST ${inA} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n`;
  for (const [start, expected] of [
    ['', /^$|^HTTP\/1\.1 408 /],
    [head, /^HTTP\/1\.1 408 .*"code":408\}$/s],
    [`${head}Content-Length: 10\r\n\r\n{`, /^HTTP\/1\.1 (408|504) /],
    [`${head}Transfer-Encoding: chunked\r\n\r\n5\r\n{`, /^HTTP\/1\.1 (408|504) /],
  ] as const) {
    const socket = dial(server);
    socket.write(start);
    assert.match(await text(socket), expected, start);
  }
  while (server.traffic.inFlight.mutating > 0) await new Promise((next) => void setImmediate(next));
});

test('while a long YAML is parsed, others are answered', async () => {
  await using server = await serveThings();
  const body = '['.repeat(30_000);
  const request = send({
    ...{ ...server.address, method: 'POST', path: inA, agent: false },
    headers: { authorization, 'content-type': 'application/yaml' },
  });
  request.end(body);
  const state = { isAnswered: false };
  const answered = once(request, 'response').then(([response]) => {
    state.isAnswered = true;
    return response as IncomingMessage;
  });
  while (server.traffic.receivedBytes < body.length) await new Promise((next) => void setImmediate(next));
  let others = 0;
  while (!state.isAnswered) {
    const { code } = await call(server, 'GET', '/livez');
    assert.equal(code, 200);
    if (!state.isAnswered) others++;
  }
  const answer = await answered;
  assert.equal(answer.statusCode, 400);
  assert.match(await text(answer), /nested deeper than 500 levels/);
  assert.ok(others > 0);
});

test('unauthenticated connections do not keep out authenticated ones', async () => {
  using directory = new TemporaryDirectory();
  const privateSocket = directory.at('own.sock');
  await using server = await serveThings(undefined, {
    limits: { connections: 20, unauthenticated: 8, unauthenticatedPerSource: 8 },
    privateSocket,
  });
  const agent = new Agent({ keepAlive: true });
  const ask = async (more: object): Promise<ClientRequest> => {
    const request = send({ path: inA, headers: { authorization }, ...more });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 200);
    await text(response);
    return request;
  };
  const silent: Socket[] = [];
  try {
    await ask({ ...server.address, agent });
    for (let at = 0; at < 50; at++) silent.push(dial(server));
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    await ask({ ...server.address, agent: false });
    assert.equal((await ask({ ...server.address, agent })).reusedSocket, true);
    await ask({ socketPath: privateSocket, agent: false });
    for (const socket of silent.slice(0, 40)) if (!socket.closed) await once(socket.resume(), 'close');
  } finally {
    for (const socket of silent) socket.destroy();
    agent.destroy();
  }
});

test('a connection that stays unauthenticated is closed', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  await using server = await serveThings(undefined, { limits: { authenticateMs: 200 } });
  const socket = dial(server);
  socket.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  assert.match(chunk.toString(), /^HTTP\/1\.1 200 /);
  t.mock.timers.tick(199);
  socket.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(socket, 'data');
  t.mock.timers.tick(1);
  await once(socket, 'close');
});

test('connections beyond the limit are closed, and those before go on', async () => {
  await using server = await serveThings(undefined, { limits: { connections: 2 } });
  const agent = new Agent({ keepAlive: true, maxSockets: 2 });
  const sockets = [dial(server), dial(server)];
  try {
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    sockets[0]?.write(`GET /livez HTTP/1.1\r\nHost: x\r\n\r\n`);
    const [chunk] = (await once(sockets[0] as Socket, 'data')) as [Buffer];
    assert.match(chunk.toString(), /^HTTP\/1\.1 200 /);
    assert.equal(await text(dial(server)), '');
    sockets[1]?.write(`GET /livez HTTP/1.1\r\nHost: x\r\n\r\n`);
    await once(sockets[1] as Socket, 'data');
  } finally {
    for (const socket of sockets) socket.destroy();
    agent.destroy();
  }
});

test('stopping: no new connections, what was begun is finished, idle connections are closed', async () => {
  const gate = gated();
  const server = await serveThings(gate.handle);
  const idle = dial(server);
  idle.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(idle, 'data');
  const started = call(server, 'POST', inA, '{"a":1}');
  await gate.hasStarted(1);
  const stopped = server[Symbol.asyncDispose]();
  await text(idle);
  const refused = dial(server);
  const [error] = (await once(refused, 'error')) as [NodeJS.ErrnoException];
  assert.equal(error.code, 'ECONNREFUSED');
  gate.letGo();
  const { code, headers } = await started;
  assert.equal(code, 201);
  assert.equal(headers['connection'], 'close');
  await stopped;
});

test('stopping waits no longer than its limit for requests that do not end', async () => {
  const gate = gated();
  const server = await serveThings(gate.handle, { limits: { stopMs: 50 } });
  const started = call(server, 'POST', inA, '{}').then(
    () => 'answered',
    () => 'cut off',
  );
  await gate.hasStarted(1);
  await server[Symbol.asyncDispose]();
  assert.equal(await started, 'cut off');
  assert.equal(gate.started[0]?.signal.aborted, true);
  gate.letGo();
});

test('stopping does not wait for a client that has not said anything yet, with TLS or without', async () => {
  const authority = issueAuthority('test', { now: new Date(), days: 1 });
  const tls = issueServerCertificate(authority, ['127.0.0.1'], { now: new Date(), days: 1 });
  for (const options of [{}, { tls }]) {
    // Longer than the test may take.
    const server = await serveThings(undefined, {
      ...options,
      limits: { headersTimeoutMs: 600_000, requestTimeoutMs: 600_000, stopMs: 600_000 },
    });
    const silent = dial(server);
    await once(silent, 'connect');
    // It is known to the server once a later one was answered or refused.
    const other = dial(server);
    other.write('GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    await text(other).catch(() => undefined);
    await server[Symbol.asyncDispose]();
    if (!silent.closed) await once(silent, 'close');
  }
});
