// Receivers of all kinds: what each answer, and each lack of one, does.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { openDelivery } from './delivery.ts';
import {
  accept,
  answerWith,
  balanced,
  hang,
  inBalance,
  openQuick,
  quickOptions,
  Receiver,
} from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `a${index}`);

suite('receivers of all kinds', { timeout: 300_000 }, () => {
  test('5xx, 408, 425, 429, 401, 404 and redirects are tried again, for ever', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using elsewhere = await Receiver.start();
    await using delivery = openQuick(directory.path);
    const statuses = [500, 503, 408, 425, 429, 401, 403, 404, 301, 302, 307, 308, 304];
    receiver.manners = (received, response, request) => {
      const status = statuses.shift();
      if (status === undefined) accept(received, response, request);
      else answerWith(status, { location: elsewhere.url() })(received, response, request);
    };
    for (const id of ['a', 'b']) delivery.enqueue(receiver.url(), id, '{}');
    await until(() => delivery.stats.delivered === 2);
    assert.deepEqual(receiver.taken, ['a', 'b']);
    assert.equal(delivery.stats.retried, 13);
    assert.match(delivery.callbacks()[0]?.lastError?.why ?? '', /HTTP 304: redirects are not followed/);
    assert.equal(elsewhere.connections, 0);
  });

  test('an alert that is not wanted is dropped after some tries, and the next one goes', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path);
    receiver.manners = (received, response, request) =>
      (received.id === 'b' ? answerWith(413) : accept)(received, response, request);
    for (const id of ['a', 'b', 'c']) delivery.enqueue(receiver.url(), id, '{}');
    await until(() => delivery.stats.delivered === 2);
    assert.deepEqual(
      receiver.received.map(({ id }) => id),
      ['a', 'b', 'b', 'b', 'c'],
    );
    assert.equal(delivery.stats.dropped.unwanted, 1);
    assert.deepEqual(balanced(delivery), inBalance);
  });

  test('429 with Retry-After: not before', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    const clock = new ManualClock();
    await using delivery = openQuick(directory.path, { clock, maxRetryAfterMs: 100_000, lingerMs: 0 });
    const wait = async (header: string, ms: number): Promise<void> => {
      const before = receiver.received.length;
      const { retried } = delivery.stats;
      receiver.manners = answerWith(429, { 'retry-after': header });
      delivery.enqueue(receiver.url(), `x${before}`, '{}');
      await until(() => delivery.stats.retried === retried + 1);
      await until(() => clock.timers > 0);
      receiver.manners = accept;
      await clock.advance(ms - 1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal(receiver.received.length, before + 1, header);
      await clock.advance(1);
      await until(() => delivery.stats.depth === 0);
    };
    await wait('30', 30_000);
    await wait(new Date(clock.wallMs() + 20_000).toUTCString(), 20_000);
    await wait('9999999', 100_000);
  });

  deepTest('no answer in time, and answers that dribble', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    receiver.manners = hang;
    {
      await using hasty = openQuick(directory.path, { timeoutMs: 100 });
      hasty.enqueue(receiver.url(), 'a', '{}');
      await until(() => hasty.stats.retried >= 2);
      assert.match(hasty.callbacks()[0]?.lastError?.why ?? '', /no response within 100 ms/);
    }
    await using delivery = openQuick(directory.path);
    const timers = new Set<NodeJS.Timeout>();
    // The head says all; the body is given a second.
    receiver.manners = (_received, response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('x'), 10);
      timers.add(timer);
      response.once('close', () => clearInterval(timer));
    };
    await until(() => delivery.stats.delivered === 1);
    delivery.enqueue(receiver.url(), 'b', '{}');
    await until(() => delivery.stats.delivered === 2);
    // A long body costs the connection, nothing else.
    receiver.manners = (_received, response) => void response.end('x'.repeat(10_000_000));
    delivery.enqueue(receiver.url(), 'c', '{}');
    await until(() => delivery.stats.delivered === 3);
    const { connections } = receiver;
    receiver.manners = accept;
    delivery.enqueue(receiver.url(), 'd', '{}');
    await until(() => delivery.stats.delivered === 4);
    assert.equal(receiver.connections, connections + 1, 'it was not read to its end');
    for (const timer of timers) clearInterval(timer);
  });

  deepTest('heads that dribble are given up, too', async () => {
    using directory = new TemporaryDirectory();
    const timers = new Set<NodeJS.Timeout>();
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 200 OK\r\nx: ');
      const timer = setInterval(() => socket.write('x'), 10);
      timers.add(timer);
      socket.once('close', () => clearInterval(timer));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      await using delivery = openQuick(directory.path, { timeoutMs: 100 });
      const { port } = server.address() as { port: number };
      delivery.enqueue(`http://127.0.0.1:${port}/`, 'a', '{}');
      await until(() => delivery.stats.retried >= 2);
      assert.match(delivery.callbacks()[0]?.lastError?.why ?? '', /no response within/);
    } finally {
      for (const timer of timers) clearInterval(timer);
      server.close();
    }
  });

  test('connections that are reset, before, in and after the request, lose nothing', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path);
    let count = 0;
    receiver.manners = (received, response, request) => {
      if (count++ % 3 === 0) request.socket.resetAndDestroy();
      else if (count % 5 === 0) {
        // Answered and gone: the next request meets a closed connection.
        accept(received, response, request);
        response.once('finish', () => request.socket.resetAndDestroy());
      } else accept(received, response, request);
    };
    const ids = numbered(100);
    for (const id of ids) delivery.enqueue(receiver.url(), id, 'x'.repeat(100_000));
    await until(() => delivery.stats.delivered === ids.length);
    assert.deepEqual(receiver.firsts, ids);
    assert.deepEqual(balanced(delivery), inBalance);
  });

  test('a kept connection that the receiver has closed is not a failure', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path);
    const served = new Set<unknown>();
    // As a receiver does whose idle timeout ends while the request is on its way.
    receiver.manners = (received, response, request) => {
      if (served.has(request.socket)) request.socket.resetAndDestroy();
      else accept(received, response, request);
      served.add(request.socket);
    };
    const ids = numbered(10);
    for (const id of ids) delivery.enqueue(receiver.url(), id, '{}');
    await until(() => delivery.stats.delivered === ids.length);
    assert.equal(receiver.connections, ids.length);
    assert.equal(delivery.stats.retried, 0);
    assert.deepEqual(receiver.taken, ids);
  });

  test('no HTTP at all', async () => {
    using directory = new TemporaryDirectory();
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.end('SSH-2.0-OpenSSH_9.2p1\r\n');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    await using delivery = openQuick(directory.path);
    const { port } = server.address() as { port: number };
    delivery.enqueue(`http://127.0.0.1:${port}/`, 'a', '{}');
    await until(() => delivery.stats.retried >= 2);
    assert.equal(delivery.stats.depth, 1);
    server.close();
  });

  test('alerts that are too old are dropped and counted', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    receiver.manners = answerWith(500);
    const clock = new ManualClock();
    const options = quickOptions(directory.path, {
      clock,
      maxAgeMs: 60_000,
      backoff: { baseMs: 1000, maxMs: 1000, jitter: 0 },
      lingerMs: 0,
    });
    {
      await using delivery = openDelivery(options);
      delivery.enqueue(receiver.url(), 'old', '{}');
      await until(() => delivery.stats.retried === 1);
    }
    // A minute passes while nothing runs.
    clock.advanceSync(50_000);
    await using delivery = openDelivery(options);
    delivery.enqueue(receiver.url(), 'young', '{}');
    await until(() => delivery.stats.retried === 1);
    assert.ok(delivery.stats.oldestMs >= 50_000);
    clock.wallOffsetMs += 3_600_000;
    await clock.advance(15_000);
    receiver.manners = accept;
    while (delivery.stats.depth > 0) {
      await clock.advance(1000);
      await turn();
    }
    assert.deepEqual(receiver.taken, ['young'], 'and a step of the clock makes none older');
    assert.equal(delivery.stats.dropped.expired, 1);
    assert.deepEqual(balanced(delivery), inBalance);
  });
});
