// An exporter as its user sees it: real receivers on loopback that decode by OpenTelemetry's schema, real files.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { SmallDisk, smallDiskSkip } from '../testing/small-disk.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { until } from '../testing/until.fixture.ts';
import { ManualClock } from '../time/clock.fixture.ts';
import { issueAuthority, issueServerCertificate } from '../x509/certificate.ts';
import type { OtlpExporter } from './exporter.ts';
import {
  accept,
  answerWith,
  balanced,
  hang,
  inBalance,
  type Manners,
  openQuick,
  OtlpReceiver,
} from './receiver.fixture.ts';

const numbered = (count: number, prefix = 'a'): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(4, '0')}`);
const pushAll = (exporter: OtlpExporter, lines: readonly string[]): void => {
  for (const line of lines) assert.ok(exporter.push(line));
};
/** A port without a listener. */
async function closedUrl(): Promise<URL> {
  await using receiver = await OtlpReceiver.start();
  return receiver.url;
}
const portOf = (url: URL): { port: number } => ({ port: Number(url.port) });

suite('an exporter', { timeout: 300_000 }, () => {
  test('in order, in batches, over one connection, each with an id of its own', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await OtlpReceiver.start();
    await using exporter = openQuick(directory.path, receiver.url);
    const lines = numbered(2000);
    pushAll(exporter, lines);
    await until(() => exporter.stats.sent === lines.length);
    assert.deepEqual(receiver.taken, lines);
    assert.ok(receiver.received.length < 20, `${receiver.received.length} requests`);
    assert.ok(receiver.received.every(({ records }) => records.length <= 512));
    assert.equal(receiver.connections, 1);
    const ids = receiver.received.flatMap(({ records }) =>
      records.map(({ values }) => values['log.record.uid']),
    );
    assert.equal(new Set(ids).size, lines.length);
    const [{ headers, path, resource } = assert.fail()] = receiver.received;
    assert.equal(path, '/v1/logs');
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['user-agent'], 'tests');
    assert.deepEqual(resource, { 'service.name': 'tests' });
    assert.deepEqual(receiver.faults, []);
    assert.deepEqual(balanced(exporter), inBalance);
  });

  test('headers are sent, and are in no log', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await OtlpReceiver.start();
    receiver.manners = answerWith(401);
    const logged: unknown[] = [];
    const log = {
      info: (...reported: unknown[]) => logged.push(reported),
      warn: (...reported: unknown[]) => logged.push(reported),
    };
    await using exporter = openQuick(directory.path, receiver.url, {
      target: { headers: { authorization: 'Bearer s3cret', 'x-scope-orgid': 'tenant' } },
      log: log as never,
    });
    pushAll(exporter, ['a']);
    await until(() => exporter.stats.dropped.refused === 1);
    const [{ headers } = assert.fail()] = receiver.received;
    assert.equal(headers.authorization, 'Bearer s3cret');
    assert.equal(headers['x-scope-orgid'], 'tenant');
    assert.match(JSON.stringify(logged), /HTTP 401/);
    assert.doesNotMatch(JSON.stringify(logged), /s3cret/);
  });

  for (const status of [429, 502, 503, 504]) {
    test(`HTTP ${status}: the same batch again`, async () => {
      using directory = new TemporaryDirectory();
      await using receiver = await OtlpReceiver.start();
      receiver.manners = answerWith(status);
      await using exporter = openQuick(directory.path, receiver.url, { maxBatchRecords: 10 });
      const lines = numbered(30);
      pushAll(exporter, lines);
      await until(() => exporter.stats.retried > 3);
      assert.match(exporter.stats.lastError ?? '', new RegExp(`HTTP ${status}`));
      assert.ok(exporter.stats.failures > 0);
      assert.ok(receiver.received.every(({ bodies }) => bodies[0] === 'a0000'));
      receiver.manners = accept;
      await until(() => exporter.stats.sent === lines.length);
      assert.deepEqual(receiver.taken, lines);
      assert.deepEqual(balanced(exporter), inBalance);
    });
  }

  test('no answer: a connection that is cut, a receiver that hangs, one that is not there', async () => {
    using directory = new TemporaryDirectory();
    const url = await closedUrl();
    await using exporter = openQuick(directory.path, url, { timeoutMs: 100 });
    pushAll(exporter, numbered(20));
    await until(() => exporter.stats.retried > 1);
    assert.match(exporter.stats.lastError ?? '', /ECONNREFUSED/);
    await using receiver = await OtlpReceiver.start(portOf(url));
    receiver.manners = (_received, _response, request) => void request.socket.resetAndDestroy();
    await until(() => receiver.received.length > 1);
    receiver.manners = hang;
    await until(() => /no response within/.test(exporter.stats.lastError ?? ''));
    assert.equal(exporter.stats.sent, 0);
    receiver.manners = accept;
    await until(() => exporter.stats.sent === 20);
    // On a busy machine an answer may be late here too: then the same is sent once more.
    assert.deepEqual([...new Set(receiver.taken)], numbered(20));
  });

  for (const status of [400, 401, 404, 500, 501]) {
    test(`HTTP ${status}: dropped, counted and reported; the next is sent`, async () => {
      using directory = new TemporaryDirectory();
      await using receiver = await OtlpReceiver.start();
      receiver.manners = answerWith(status, {}, { message: 'the reason' });
      const reported: string[] = [];
      await using exporter = openQuick(directory.path, receiver.url, {
        log: {
          info: () => undefined,
          warn: (...of: unknown[]) => reported.push(JSON.stringify(of)),
        } as never,
      });
      pushAll(exporter, ['a']);
      await until(() => exporter.stats.dropped.refused === 1);
      assert.equal(receiver.received.length, 1, 'it must not be sent again');
      assert.match(reported.join(), new RegExp(`HTTP ${status}: the reason`));
      receiver.manners = accept;
      pushAll(exporter, ['b']);
      await until(() => exporter.stats.sent === 1);
      assert.deepEqual(receiver.taken, ['b']);
      assert.deepEqual(balanced(exporter), inBalance);
    });
  }

  test('HTTP 413: in smaller requests, down to what is too large by itself', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await OtlpReceiver.start();
    const small: Manners = (...exchange) => {
      const [{ bodies }] = exchange;
      const isSmall = bodies.length <= 3 && !bodies.includes('a0010');
      (isSmall || bodies.length === 0 ? accept : answerWith(413))(...exchange);
    };
    receiver.manners = answerWith(503);
    await using exporter = openQuick(directory.path, receiver.url);
    pushAll(exporter, numbered(40));
    await until(() => exporter.stats.retried > 0);
    receiver.manners = small;
    await until(() => exporter.stats.depth === 0);
    assert.deepEqual(
      receiver.taken,
      numbered(40).filter((line) => line !== 'a0010'),
    );
    assert.equal(exporter.stats.dropped.refused, 1);
    assert.deepEqual(balanced(exporter), inBalance);
  });

  test('a partial success: the rejected are counted, nothing is sent again', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await OtlpReceiver.start();
    receiver.manners = answerWith(503);
    await using exporter = openQuick(directory.path, receiver.url);
    pushAll(exporter, numbered(10));
    await until(() => exporter.stats.retried > 0);
    const before = receiver.received.length;
    // A 64-bit integer is a string in JSON.
    receiver.manners = answerWith(
      200,
      {},
      { partialSuccess: { rejectedLogRecords: '4', errorMessage: 'too old' } },
    );
    await until(() => exporter.stats.depth === 0);
    assert.ok(receiver.received.length - before <= 2);
    assert.equal(exporter.stats.sent, 6);
    assert.equal(exporter.stats.dropped.rejected, 4);
    // All that can go wrong with an answer that says yes.
    for (const body of [
      { partialSuccess: { rejectedLogRecords: 0, errorMessage: 'a warning' } },
      { partialSuccess: { rejectedLogRecords: 'many' } },
      { partialSuccess: 7 },
      { padding: 'x'.repeat(100_000) },
    ]) {
      receiver.manners = answerWith(200, {}, body);
      const { sent } = exporter.stats;
      pushAll(exporter, ['b']);
      await until(() => exporter.stats.sent === sent + 1);
    }
    assert.equal(exporter.stats.dropped.rejected, 4);
    assert.deepEqual(balanced(exporter), inBalance);
  });

  test('Retry-After is waited for', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await OtlpReceiver.start();
    receiver.manners = answerWith(429, { 'retry-after': '30' });
    const clock = new ManualClock();
    const exporter = openQuick(directory.path, receiver.url, { clock, lingerMs: 0 });
    pushAll(exporter, ['a']);
    await until(() => exporter.stats.retried === 1);
    await clock.advance(29_000);
    assert.equal(receiver.received.length, 1);
    receiver.manners = accept;
    await clock.advance(2000);
    await until(() => exporter.stats.sent === 1);
    const stopped = exporter[Symbol.asyncDispose]();
    await clock.advance(1);
    await stopped;
  });

  test('too old: dropped and counted', async () => {
    using directory = new TemporaryDirectory();
    const url = await closedUrl();
    const clock = new ManualClock(Date.UTC(2030, 0, 1));
    const exporter = openQuick(directory.path, url, {
      ...{ clock, maxAgeMs: 60_000, lingerMs: 0 },
      timeoutMs: 1e9,
    });
    pushAll(exporter, ['old', 'older']);
    await until(() => exporter.stats.retried > 0);
    await clock.advance(61_000);
    pushAll(exporter, ['new']);
    await using receiver = await OtlpReceiver.start(portOf(url));
    while (exporter.stats.sent === 0) {
      await clock.advance(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(receiver.taken, ['new']);
    assert.equal(exporter.stats.dropped.expired, 2);
    assert.deepEqual(balanced(exporter), inBalance);
    const stopped = exporter[Symbol.asyncDispose]();
    await clock.advance(1);
    await stopped;
  });

  test('unsent records wait for the next process, and go to its receiver', async () => {
    using directory = new TemporaryDirectory();
    const url = await closedUrl();
    const lines = numbered(50);
    for (let start = 0; start < 50; start += 10) {
      await using exporter = openQuick(directory.path, url);
      assert.equal(exporter.stats.recovered, start);
      pushAll(exporter, lines.slice(start, start + 10));
    }
    await using receiver = await OtlpReceiver.start();
    await using exporter = openQuick(directory.path, receiver.url);
    await until(() => exporter.stats.sent === lines.length);
    assert.deepEqual(receiver.taken, lines);
  });

  test('disposed, it goes on sending to a receiver that answers', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await OtlpReceiver.start();
    const exporter = openQuick(directory.path, receiver.url, { maxBatchRecords: 10, lingerMs: 60_000 });
    pushAll(exporter, numbered(200));
    await exporter[Symbol.asyncDispose]();
    assert.deepEqual(receiver.taken, numbered(200));
    assert.equal(exporter.push('late'), false);
    assert.equal(exporter.stats.refused.closed, 1);
  });

  test('a full queue refuses what is new, and counts it', async () => {
    using directory = new TemporaryDirectory();
    const url = await closedUrl();
    await using exporter = openQuick(directory.path, url, { maxBytes: 200_000 });
    const lines = numbered(1000).map((line) => line.padEnd(1000, 'x'));
    const taken = lines.filter((line) => exporter.push(line));
    assert.ok(taken.length > 150 && taken.length < 200, String(taken.length));
    assert.equal(exporter.stats.refused.full, lines.length - taken.length);
    assert.equal(exporter.push('x'.repeat(2 ** 20 + 1)), false);
    assert.equal(exporter.stats.refused.size, 1);
    await using receiver = await OtlpReceiver.start(portOf(url));
    await until(() => exporter.stats.depth === 0);
    assert.deepEqual(receiver.taken, lines.slice(0, taken.length), 'the first ones are kept');
    assert.ok(exporter.push('again'));
    assert.deepEqual(balanced(exporter), inBalance);
  });

  test(
    'a full disk: refused and counted, and on it goes when there is space',
    { skip: smallDiskSkip() },
    async () => {
      using disk = new SmallDisk(300);
      const url = await closedUrl();
      await using exporter = openQuick(disk.at('queue'), url);
      const lines = numbered(400).map((line) => line.padEnd(1000, 'x'));
      const taken = lines.filter((line) => exporter.push(line));
      assert.ok(taken.length > 200 && taken.length < 400, `${taken.length} of 400 fit`);
      assert.equal(exporter.stats.refused.disk, 400 - taken.length);
      await using receiver = await OtlpReceiver.start(portOf(url));
      await until(() => exporter.stats.depth === 0);
      // A file that is being synced takes its space until that ends.
      await until(() => exporter.push('after'));
      await until(() => exporter.stats.depth === 0);
      assert.deepEqual(receiver.taken, [...taken, 'after']);
      assert.equal(exporter.stats.cursorErrors, 0);
      assert.deepEqual(balanced(exporter), inBalance);
    },
  );

  test('TLS: an authority of its own, one that is replaced, and none that is trusted', async () => {
    using directory = new TemporaryDirectory();
    const validity = { now: new Date(), days: 30 };
    const [authority, stranger] = [
      issueAuthority('receivers', validity),
      issueAuthority('strangers', validity),
    ];
    await using receiver = await OtlpReceiver.start({
      tls: issueServerCertificate(authority, ['127.0.0.1'], validity),
    });
    const certificateFile = directory.at('ca.crt');
    writeFileSync(certificateFile, stranger.cert);
    const url = new URL(receiver.url.href.replace('http:', 'https:'));
    await using exporter = openQuick(directory.at('queue'), url, { target: { certificateFile } });
    pushAll(exporter, numbered(10));
    await until(() => exporter.stats.retried > 2);
    assert.match(exporter.stats.lastError ?? '', /certificate/);
    assert.equal(receiver.received.length, 0);
    writeFileSync(certificateFile, authority.cert);
    await until(() => exporter.stats.sent === 10);
    assert.deepEqual(receiver.taken, numbered(10));
  });

  test('an unusable certificate and a directory in use are reported at the start', async () => {
    using directory = new TemporaryDirectory();
    const url = new URL('https://127.0.0.1:9/v1/logs');
    writeFileSync(directory.at('bad.crt'), '-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n');
    for (const file of ['missing.crt', 'bad.crt']) {
      assert.throws(
        () => openQuick(directory.at('queue'), url, { target: { certificateFile: directory.at(file) } }),
        (error) =>
          error instanceof RampartError && error.code === errorCodes.INPUT && error.message.includes(file),
      );
    }
    await using _exporter = openQuick(directory.at('queue'), url);
    assert.throws(
      () => openQuick(directory.at('queue'), url),
      (error) => error instanceof RampartError && error.code === errorCodes.IN_USE,
    );
  });
});
