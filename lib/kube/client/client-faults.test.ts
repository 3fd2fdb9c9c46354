import assert from 'node:assert/strict';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { type Answer, json, pair, serve, status } from './api-server.fixture.ts';
import { KubeClient } from './client.ts';
import { isConflict, isTooManyRequests, isUnreachable, KubeError } from './client-errors.ts';
import { anonymous } from '../access/credentials.ts';
import { nodes } from '../object/object.ts';

const node = { metadata: { name: 'n' } };

/** A server below HTTP: what it does with each connection and each request on it is up to the test. */
async function rawServer(
  onRequest: (socket: Socket, count: number) => void,
): Promise<AsyncDisposable & { client: KubeClient; requests: () => number }> {
  const sockets = new Set<Socket>();
  let requests = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', () => onRequest(socket, requests++));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = new KubeClient({ server: url, credentials: anonymous, namespace: 'default' });
  return {
    client,
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}';

/** Busy for the first requests, then well. */
const busy =
  (times: number, code: number, headers: object): Answer =>
  ({ method }, response, count) =>
    count < times
      ? json(response, code, status(code, 'TooManyRequests', 'later'), headers)
      : json(response, 200, { method });

suite('client: a server that asks for time', () => {
  for (const [code, headers, waitsMs] of [
    [429, { 'retry-after': '2' }, 2000],
    [503, { 'retry-after': '3' }, 3000],
    [429, {}, 1000],
    [503, { 'retry-after': new Date(Date.UTC(2030, 0, 1, 0, 0, 5)).toUTCString() }, 4000],
  ] as const) {
    test(`${code} ${JSON.stringify(headers)}: comes back after ${waitsMs} ms`, async () => {
      const clock = new ManualClock();
      await using both = await pair(busy(1, code, headers), { clock });
      const answer = both.client.get(nodes, { name: 'n' });
      // The first answer comes over a real socket, so the clock is moved only once it waits.
      while (clock.timers < 2) await new Promise((resolve) => setTimeout(resolve, 1));
      await clock.advance(waitsMs - 1);
      assert.equal(both.server.received.length, 1);
      await clock.advance(1);
      assert.deepEqual(await answer, { method: 'GET' });
      assert.equal(clock.timers, 0);
    });
  }

  test('retries a limited number of times', async () => {
    await using both = await pair(busy(Infinity, 429, { 'retry-after': '0' }), { maxRetries: 3 });
    await assert.rejects(both.client.get(nodes, { name: 'n' }), isTooManyRequests);
    assert.equal(both.server.received.length, 4);
  });

  test('only what can be sent twice is: not a create, not a patch, but an apply, an update, a delete', async () => {
    const calls: readonly (readonly [(client: KubeClient) => Promise<unknown>, boolean])[] = [
      [(c) => c.create(nodes, node), false],
      [(c) => c.patch(nodes, { name: 'n' }, { type: 'merge', body: {} }), false],
      [(c) => c.apply(nodes, node, { fieldManager: 'me' }), true],
      [(c) => c.update(nodes, node), true],
      [(c) => c.delete(nodes, { name: 'n' }), true],
    ];
    for (const [call, again] of calls) {
      await using both = await pair(busy(1, 429, { 'retry-after': '0' }));
      if (again) await call(both.client);
      else await assert.rejects(call(both.client), { status: 429, retryAfterMs: 0 });
      assert.equal(both.server.received.length, again ? 2 : 1);
    }
  });

  test('longer than the call has: the error at once, with the time', async () => {
    await using both = await pair(busy(1, 429, { 'retry-after': '60' }));
    await assert.rejects(both.client.get(nodes, { name: 'n' }, { timeoutMs: 5000 }), {
      retryAfterMs: 60_000,
    });
  });

  test('a 503 without a time, and a 500, are errors at once', async () => {
    await using both = await pair(busy(1, 503, {}));
    await assert.rejects(both.client.get(nodes, { name: 'n' }), { status: 503 });
    await using other = await pair(busy(1, 500, { 'retry-after': '0' }));
    await assert.rejects(other.client.get(nodes, { name: 'n' }), KubeError);
    assert.deepEqual([both.server.received.length, other.server.received.length], [1, 1]);
  });

  test('an abort ends the waiting', async () => {
    await using both = await pair(busy(1, 429, { 'retry-after': '20' }));
    const controller = new AbortController();
    const reason = new Error('stop');
    const answer = both.client.get(nodes, { name: 'n' }, { signal: controller.signal });
    setTimeout(() => controller.abort(reason), 50);
    await assert.rejects(answer, reason);
  });
});

suite('client: its own limit', () => {
  test('a burst of requests at once, then at the rate', async () => {
    const clock = new ManualClock();
    const echo: Answer = (_, response) => json(response, 200, {});
    await using both = await pair(echo, { perSecond: 10, burst: 3, clock });
    const answered: number[] = [];
    const calls = Array.from({ length: 5 }, (_, index) =>
      both.client.get(nodes, { name: 'n' }).then(() => answered.push(index)),
    );
    await Promise.all(calls.slice(0, 3));
    await clock.advance(99);
    assert.equal(both.server.received.length, 3);
    await clock.advance(101);
    await Promise.all(calls);
    assert.deepEqual(answered.slice(3), [3, 4]);
  });
});

suite('client: connections that fail', () => {
  test('reset before an answer', async () => {
    await using server = await rawServer((socket) => socket.resetAndDestroy());
    await assert.rejects(server.client.get(nodes, { name: 'n' }), isUnreachable);
    assert.equal(server.requests(), 1);
  });

  test('an interrupted answer is an error', async () => {
    await using server = await rawServer((socket) =>
      socket.end(ok.replace('2\r\n\r\n{}', '20\r\n\r\n{"a":')),
    );
    await assert.rejects(
      server.client.get(nodes, { name: 'n' }),
      /cannot get nodes n: the response was interrupted/,
    );
  });

  test('an answer that is not HTTP', async () => {
    await using server = await rawServer((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
    await assert.rejects(server.client.get(nodes, { name: 'n' }), isUnreachable);
  });

  test('no answer at all, the head only, a body that trickles: the time is up', async () => {
    const head = ok.replace('2\r\n\r\n{}', '20\r\n\r\n');
    for (const behaviour of [
      () => undefined,
      (socket: Socket) => void socket.write(head),
      (socket: Socket) => {
        socket.write(head);
        const timer = setInterval(() => socket.write(' '), 20);
        socket.on('close', () => clearInterval(timer));
      },
    ]) {
      await using server = await rawServer(behaviour);
      await assert.rejects(
        server.client.get(nodes, { name: 'n' }, { timeoutMs: 100 }),
        /cannot get nodes n: no response within 100 ms/,
      );
    }
  });

  test('aborted before it is sent, while it waits, while it is read', async () => {
    const reason = new Error('stop');
    await using silent = await rawServer(() => undefined);
    const name = { name: 'n' };
    await assert.rejects(silent.client.get(nodes, name, { signal: AbortSignal.abort(reason) }), reason);
    assert.equal(silent.requests(), 0);
    for (const text of ['', ok.replace('2\r\n\r\n{}', '20\r\n\r\n{"a"')]) {
      const controller = new AbortController();
      await using server = await rawServer((socket) => {
        socket.write(text);
        setTimeout(() => controller.abort(reason), 20);
      });
      await assert.rejects(server.client.get(nodes, name, { signal: controller.signal }), reason);
    }
  });

  test('unused connections are closed when it is asked for; one in use goes on', async () => {
    const waiting: (() => void)[] = [];
    const answer: Answer = ({ url }, response) => {
      if (url.endsWith('/slow')) waiting.push(() => json(response, 200, { metadata: { name: 'slow' } }));
      else json(response, 200, node);
    };
    await using server = await serve(answer);
    using client = new KubeClient(server.access);
    const slow = client.get(nodes, { name: 'slow' });
    await client.get(nodes, { name: 'n' });
    await client.get(nodes, { name: 'n' });
    assert.equal(server.connections(), 2);
    client.closeUnusedConnections();
    await client.get(nodes, { name: 'n' });
    assert.equal(server.connections(), 3);
    for (const go of waiting) go();
    assert.equal((await slow).metadata.name, 'slow');
  });

  test('a kept connection that the server has closed: a get is sent again, an update is not', async () => {
    // Each connection answers once and is reset when it is used again.
    const answered = new WeakSet<Socket>();
    const once = (socket: Socket): void => {
      if (answered.has(socket)) return void socket.resetAndDestroy();
      answered.add(socket);
      socket.write(ok);
    };
    await using server = await rawServer(once);
    await server.client.get(nodes, { name: 'n' });
    assert.deepEqual(await server.client.get(nodes, { name: 'n' }), {});
    assert.equal(server.requests(), 3);
    await assert.rejects(server.client.update(nodes, node), isUnreachable);
    assert.equal(server.requests(), 4);
  });

  test('a server that answers before it has read a large body', async () => {
    const text = JSON.stringify(status(413, 'RequestEntityTooLarge', 'too large'));
    const answer = `HTTP/1.1 413 X\r\nContent-Length: ${text.length}\r\nContent-Type: application/json\r\n\r\n${text}`;
    await using server = await rawServer((socket, count) => void (count === 0 && socket.write(answer)));
    const large = { metadata: { name: 'n', annotations: { a: 'x'.repeat(4_000_000) } } };
    await assert.rejects(server.client.create(nodes, large), { status: 413 });
  });

  test('an update with a conflict is not sent again', async () => {
    await using both = await pair((_, response) => json(response, 409, status(409, 'Conflict', 'changed')));
    await assert.rejects(both.client.update(nodes, node), isConflict);
    assert.equal(both.server.received.length, 1);
  });
});
