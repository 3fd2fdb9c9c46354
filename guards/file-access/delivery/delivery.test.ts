// Delivery as its user sees it: real receivers on loopback, real files.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { AlertIds } from './alert-ids.fixture.ts';
import { addDeliveryMetrics } from './delivery-metrics.ts';
import {
  accept,
  answerWith,
  balanced,
  closedPort,
  hang,
  inBalance,
  lineOf,
  openQuick,
  Receiver,
} from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

const numbered = (count: number, prefix = 'a'): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

suite('delivery', { timeout: 300_000 }, () => {
  test('one POST for each alert, in order, as the consumer of today expects it', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path);
    const ids = numbered(300);
    for (const id of ids)
      assert.equal(delivery.enqueue(receiver.url('/handlers/kive?x=1'), id, lineOf(id)), true);
    await until(() => receiver.taken.length === ids.length);
    assert.deepEqual(receiver.taken, ids);
    assert.deepEqual(
      receiver.received.map(({ line }) => line),
      ids.map(lineOf),
    );
    const [first] = receiver.received;
    assert.equal(first?.path, '/handlers/kive?x=1');
    assert.equal(first.headers['content-type'], 'application/json');
    assert.match(String(first.headers['user-agent']), /^rampart\/\d+\.\d+\.\d+$/);
    assert.equal(first.headers['authorization'], undefined);
    assert.equal(receiver.connections, 1, 'the connection is kept');
    await until(() => delivery.stats.delivered === ids.length);
    assert.deepEqual(balanced(delivery), inBalance);
    assert.ok(delivery.stats.latencyMs > 0);
  });

  test('bytes and text beyond ASCII arrive unchanged', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path);
    const lines = ['{"a":"grüße 😀"}', 'x'.repeat(200_000), '😀'.repeat(30_000), '{}'];
    for (const [index, line] of lines.entries()) {
      assert.ok(delivery.enqueue(receiver.url(), `t${index}`, line));
      assert.ok(delivery.enqueue(receiver.url(), `b${index}`, Buffer.from(line)));
    }
    await until(() => receiver.taken.length === 2 * lines.length);
    assert.deepEqual(
      receiver.received.map(({ line }) => line),
      lines.flatMap((line) => [line, line]),
    );
  });

  test('a receiver that is down at first gets all of it, in order', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    await using delivery = openQuick(directory.path);
    const ids = numbered(200);
    for (const id of ids) delivery.enqueue(`http://127.0.0.1:${port}/`, id, lineOf(id));
    await until(() => delivery.stats.retried > 3);
    const [status] = delivery.callbacks();
    assert.match(status?.lastError?.why ?? '', /ECONNREFUSED/);
    assert.ok((status?.failures ?? 0) > 0);
    await using receiver = await Receiver.start({ port });
    await until(() => delivery.stats.delivered === ids.length);
    assert.deepEqual(receiver.taken, ids);
    assert.equal(delivery.callbacks()[0]?.failures, 0);
  });

  test('undelivered alerts wait for the next process', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    const ids = numbered(50);
    for (let start = 0; start < ids.length; start += 10) {
      await using delivery = openQuick(directory.path);
      assert.equal(delivery.stats.recovered, start);
      for (const id of ids.slice(start, start + 10)) delivery.enqueue(url, id, lineOf(id));
    }
    await using delivery = openQuick(directory.path);
    await using receiver = await Receiver.start({ port });
    await until(() => delivery.stats.delivered === ids.length);
    assert.deepEqual(receiver.taken, ids);
    assert.deepEqual(balanced(delivery), inBalance);
  });

  test('the next process does not deliver alerts again', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    const ids = numbered(60);
    for (let start = 0; start < ids.length; start += 10) {
      await using delivery = openQuick(directory.path);
      if (start === 0) for (const id of ids) delivery.enqueue(receiver.url(), id, lineOf(id));
      receiver.manners = (...exchange) =>
        (receiver.taken.length < start + 10 ? accept : answerWith(503))(...exchange);
      await until(() => delivery.stats.retried > 1 || delivery.stats.depth === 0);
      assert.equal(delivery.stats.delivered, 10);
      assert.equal(delivery.stats.depth, ids.length - start - 10);
    }
    assert.deepEqual(receiver.taken, ids);
  });

  test('the files go when they are delivered, and are for their owner only', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    {
      await using delivery = openQuick(directory.at('queue'));
      for (const id of numbered(500)) delivery.enqueue(receiver.url(), id, lineOf(id));
      await delivery.sync();
      assert.equal(statSync(directory.at('queue')).mode & 0o777, 0o700);
      for (const name of readdirSync(directory.at('queue'))) {
        if (name.endsWith('.alerts'))
          assert.equal(statSync(directory.at(`queue/${name}`)).mode & 0o777, 0o600);
      }
      await until(() => delivery.stats.depth === 0);
      assert.ok(delivery.stats.sizeBytes < 64 * 1024);
    }
    assert.deepEqual(readdirSync(directory.at('queue')), ['lock']);
  });

  test('a damaged record is counted as dropped, and the others arrive', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const ids = numbered(10);
    {
      await using delivery = openQuick(directory.path);
      for (const id of ids) delivery.enqueue(`http://127.0.0.1:${port}/`, id, lineOf(id));
    }
    const [file = ''] = readdirSync(directory.path).filter((name) => name.endsWith('.alerts'));
    const bytes = readFileSync(directory.at(file));
    bytes.write('?', bytes.indexOf('"a4"') + 100);
    writeFileSync(directory.at(file), bytes);
    await using delivery = openQuick(directory.path);
    await using receiver = await Receiver.start({ port });
    await until(() => delivery.stats.depth === 0);
    assert.deepEqual(
      receiver.taken,
      ids.filter((id) => id !== 'a4'),
    );
    assert.equal(delivery.stats.dropped.damaged, 1);
    assert.equal(delivery.stats.damagedFiles, 1);
    assert.deepEqual(balanced(delivery), inBalance);
  });

  test('a second process fails because the directory is in use', async () => {
    using directory = new TemporaryDirectory();
    await using _delivery = openQuick(directory.path);
    assert.throws(
      () => openQuick(directory.path),
      (error) => error instanceof RampartError && error.code === errorCodes.IN_USE,
    );
  });

  test('refuses invalid networks', () => {
    using directory = new TemporaryDirectory();
    for (const options of [{ allow: ['300.0.0.0/8'] }, { refuse: ['10.0.0.0/33'] }]) {
      assert.throws(
        () => openQuick(directory.path, options),
        (error) => error instanceof RampartError && error.code === errorCodes.INPUT,
        JSON.stringify(options),
      );
    }
  });

  test('refuses and counts alerts that cannot be sent', async () => {
    using directory = new TemporaryDirectory();
    const delivery = openQuick(directory.path);
    const url = 'http://127.0.0.1:9/';
    for (const callback of [
      '',
      'x',
      'ftp://a/',
      'http://u:p@a/',
      'http://169.254.169.254/',
      `http://a/${'x'.repeat(5000)}`,
    ]) {
      assert.equal(delivery.enqueue(callback, 'a', '{}'), false, callback);
    }
    for (const id of ['', 'a b', 'a\r\nx: y', 'ä', 'x'.repeat(129)]) {
      assert.equal(delivery.enqueue(url, id, '{}'), false, id);
    }
    assert.equal(delivery.enqueue(url, 'a', 'x'.repeat(2 ** 20 + 1)), false);
    assert.equal(delivery.enqueue(url, 'a', Buffer.alloc(2 ** 20 + 1)), false);
    await delivery[Symbol.asyncDispose]();
    assert.equal(delivery.enqueue(url, 'a', '{}'), false);
    const { refused } = delivery.stats;
    assert.deepEqual(
      { callback: refused.callback, id: refused.id, size: refused.size, closed: refused.closed },
      { callback: 6, id: 5, size: 2, closed: 1 },
    );
    assert.deepEqual(balanced(delivery), inBalance);
  });

  test('overflow is refused and counted exactly, and what was taken arrives', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    await using delivery = openQuick(directory.path, { maxBytes: 1_000_000, maxBytesPerCallback: 300_000 });
    const taken = numbered(1000).filter((id) => delivery.enqueue(url, id, lineOf(id)));
    assert.ok(taken.length > 250 && taken.length < 300, String(taken.length));
    assert.deepEqual(taken, numbered(taken.length), 'the first ones are kept');
    assert.equal(delivery.stats.refused.callback_full, 1000 - taken.length);
    assert.ok(delivery.stats.sizeBytes <= 300_000);
    // Another callback gets what is free, and a third one half of the rest.
    for (const [index, name] of ['b', 'c', 'd'].entries()) {
      const more = numbered(1000, name).filter((id) => delivery.enqueue(`${url}${name}`, id, lineOf(id)));
      assert.ok(more.length > 90, `callback ${index} got ${more.length}`);
    }
    assert.ok(delivery.stats.refused.full > 0);
    assert.ok(delivery.stats.sizeBytes <= 1_000_000);
    assert.deepEqual(balanced(delivery), inBalance);
    const before = delivery.stats;
    await using receiver = await Receiver.start({ port });
    await until(() => delivery.stats.depth === 0);
    assert.equal(delivery.stats.delivered, before.accepted);
    assert.equal(new Set(receiver.taken).size, before.accepted);
    assert.ok(delivery.enqueue(url, 'again', '{}'), 'there is room again');
  });

  test('one dead and one hung callback do not delay the others', async () => {
    const callbacks = scaled(200, 40);
    using directory = new TemporaryDirectory();
    await using good = await Receiver.start();
    await using hung = await Receiver.start();
    hung.manners = hang;
    const port = await closedPort();
    await using delivery = openQuick(directory.path, { timeoutMs: 60_000, concurrency: 300 });
    for (let index = 0; index < 10; index++) {
      delivery.enqueue(`http://127.0.0.1:${port}/`, `dead${index}`, '{}');
      delivery.enqueue(hung.url(), `hung${index}`, '{}');
      for (let callback = 0; callback < callbacks; callback++) {
        assert.ok(delivery.enqueue(good.url(`/${callback}`), `${callback}-${index}`, '{}'));
      }
    }
    await until(() => good.taken.length === 10 * callbacks);
    for (let callback = 0; callback < callbacks; callback++) {
      assert.deepEqual(
        good.received.filter(({ path }) => path === `/${callback}`).map(({ id }) => id),
        Array.from({ length: 10 }, (_, index) => `${callback}-${index}`),
      );
    }
    await until(() => delivery.stats.delivered === 10 * callbacks);
    assert.equal(delivery.stats.depth, 20);
    assert.equal(delivery.callbacks().length, callbacks + 2);
  });

  deepTest('receivers that hang get at most half of the places', async () => {
    using directory = new TemporaryDirectory();
    await using hung = await Receiver.start();
    hung.manners = hang;
    await using good = await Receiver.start();
    const clock = new ManualClock();
    await using delivery = openQuick(directory.path, { timeoutMs: 1000, concurrency: 4, clock, lingerMs: 0 });
    for (let callback = 0; callback < 20; callback++)
      delivery.enqueue(hung.url(`/${callback}`), `h${callback}`, '{}');
    // All have failed once.
    while (delivery.callbacks().some(({ failures }) => failures === 0)) {
      await clock.advance(100);
      await turn();
    }
    for (let index = 0; index < 20; index++) delivery.enqueue(good.url(), `g${index}`, '{}');
    await until(() => good.taken.length === 20);
    await until(() => delivery.stats.delivered === 20);
    const stopped = delivery[Symbol.asyncDispose]();
    await clock.advance(1);
    await stopped;
  });

  test('idle callbacks make room for new ones, busy ones do not', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path, { maxCallbacks: 3 });
    for (let round = 0; round < 10; round++) {
      assert.ok(delivery.enqueue(receiver.url(`/${round}`), `r${round}`, '{}'));
      await until(() => delivery.stats.depth === 0);
      await turn();
    }
    assert.equal(delivery.callbacks().length, 3);
    const port = await closedPort();
    const urls = [1, 2, 3, 4, 5].map((number) => `http://127.0.0.1:${port}/${number}`);
    assert.deepEqual(
      urls.map((url) => delivery.enqueue(url, 'x', '{}')),
      [true, true, true, false, false],
    );
    assert.equal(delivery.stats.refused.callbacks, 2);
  });
});

test('ids are unique and fit into a header', () => {
  const makers = [new AlertIds(), new AlertIds()];
  const ids = makers.flatMap((maker) => Array.from({ length: 1000 }, () => maker.next()));
  assert.equal(new Set(ids).size, 2000);
  assert.ok(ids.every((id) => /^[0-9a-f]{24}-[0-9a-z]+$/.test(id)));
});

test('metrics', async () => {
  using directory = new TemporaryDirectory();
  await using receiver = await Receiver.start();
  await using delivery = openQuick(directory.path);
  const metrics = await createMetrics();
  addDeliveryMetrics(metrics, delivery);
  delivery.enqueue(receiver.url('/secret-path'), 'a', '{}');
  delivery.enqueue('ftp://a', 'b', '{}');
  await until(() => delivery.stats.delivered === 1);
  const text = metrics.registry.metrics();
  assert.match(text, /^rampart_callback_delivered_total 1$/m);
  assert.match(text, /^rampart_callback_refused_total\{reason="callback"\} 1$/m);
  assert.match(text, /^rampart_callback_refused_total\{reason="full"\} 0$/m);
  assert.match(
    text,
    /^rampart_callback_queue_alerts\{callback="http:\/\/127\.0\.0\.1:\d+#[0-9a-f]{8}"\} 0$/m,
  );
  assert.doesNotMatch(text, /secret-path/);
});
