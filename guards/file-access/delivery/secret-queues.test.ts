// A callback with a Secret and the same one without are two queues, on disk too; nothing goes with another's credentials.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { issueAuthority, issueServerCertificate } from '../../../lib/x509/certificate.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { isSecretName, keyOf, queueName } from './callback-queue.ts';
import { displayName } from './callback-url.ts';
import type { CallbackStats, Credentials } from './options.ts';
import { balanced, inBalance, openQuick, Receiver } from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { RecordEncoder } from '../../../lib/spool/record.ts';
import { encodeHeader } from '../../../lib/spool/segment-header.ts';
import { Segment } from '../../../lib/spool/segment.ts';

const validity = { now: new Date(), days: 30 };
const authority = issueAuthority('receivers', validity);
const serverPair = issueServerCertificate(authority, ['127.0.0.1'], validity);
const secure = (): Promise<Receiver> => Receiver.start({ tls: serverPair });
const urlOf = (receiver: Receiver): string => receiver.url('/').replace('http:', 'https:');

suite('queues of callbacks with Secrets', { timeout: 300_000 }, () => {
  test('the same callback with two Secrets and without: each alert with its own token, in order', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await secure();
    await using delivery = openQuick(directory.path, {
      credentialsFor: (_callback, secret) => ({
        ca: authority.cert,
        ...(secret !== '' && { bearerToken: secret.replace('/', '-') }),
      }),
    });
    const url = urlOf(receiver);
    const secrets = ['', 'shop/hook', 'bank/hook'];
    for (let index = 0; index < 60; index++) {
      const secret = secrets[index % 3] as string;
      assert.ok(delivery.enqueue(url, `${secret}:${index}`, '{}', secret));
    }
    await until(() => delivery.stats.delivered === 60);
    for (const secret of secrets) {
      const own = receiver.received.filter(({ id }) => id.startsWith(`${secret}:`));
      const numbers = own.map(({ id }) => Number(id.split(':')[1]));
      assert.equal(numbers.length, 20);
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
      );
      const sent = new Set(own.map(({ headers }) => headers.authorization));
      assert.deepEqual(sent, new Set([secret === '' ? undefined : `Bearer ${secret.replace('/', '-')}`]));
    }
    assert.deepEqual(
      delivery
        .callbacks()
        .map(({ secret }) => secret)
        .sort(),
      secrets.toSorted(),
    );
    assert.equal(new Set(delivery.callbacks().map(({ name }) => name)).size, 3);
    assert.deepEqual(balanced(delivery), inBalance);
  });

  test('the next process keeps waiting alerts of different Secrets apart', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await secure();
    const url = urlOf(receiver);
    {
      await using delivery = openQuick(directory.path, {
        credentialsFor: () => {
          throw new Error('not yet');
        },
      });
      delivery.enqueue(url, 'plain', '{}');
      delivery.enqueue(url, 'shop', '{}', 'shop/hook');
      delivery.enqueue(url, 'bank', '{}', 'bank/hook');
    }
    assert.equal(readdirSync(directory.path).filter((name) => name.endsWith('.alerts')).length, 3);
    await using delivery = openQuick(directory.path, {
      credentialsFor: (_callback, secret) => ({ ca: authority.cert, bearerToken: `of-${secret}` }),
    });
    assert.equal(delivery.stats.recovered, 3);
    await until(() => delivery.stats.delivered === 3);
    const sent = receiver.received.map(({ id, headers }) => `${id} ${headers.authorization}`);
    assert.deepEqual(sent.sort(), [
      'bank Bearer of-bank/hook',
      'plain Bearer of-',
      'shop Bearer of-shop/hook',
    ]);
  });

  test('reads files of versions without Secrets', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    // Byte for byte what version 0.1.0 wrote: the magic, then the callback as the name.
    {
      await using delivery = openQuick(directory.path, {
        credentialsFor: () => {
          throw new Error('not yet');
        },
      });
      delivery.enqueue(receiver.url('/old'), 'old', '{}');
    }
    const [file = ''] = readdirSync(directory.path).filter((name) => name.endsWith('.alerts'));
    const bytes = readFileSync(directory.at(file));
    assert.equal(bytes.toString('latin1', 0, 8), 'RAMPALRT');
    assert.equal(bytes.toString('utf8', 40, 40 + receiver.url('/old').length), receiver.url('/old'));
    assert.ok(file.startsWith(keyOf(receiver.url('/old'))));
    // A queue that claims a Secret without naming one has no owner.
    const nameless = encodeHeader({ kind: 'RAMPALRS', text: 'https://receiver.example/' });
    writeFileSync(directory.at(`${keyOf('https://receiver.example/')}-000000000001.alerts`), nameless);
    await using delivery = openQuick(directory.path);
    await until(() => delivery.stats.delivered === 1);
    assert.deepEqual(receiver.taken, ['old']);
    assert.equal(delivery.stats.damagedFiles, 1);
  });

  test('sends nothing if the credentials of a Secret are missing, and reports that once', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await secure();
    let credentials: Credentials | undefined;
    await using delivery = openQuick(directory.path, { credentialsFor: async () => credentials });
    const reported: CallbackStats[] = [];
    using _listening = delivery.onCredentialsTrouble((callback) => reported.push(callback));
    const url = urlOf(receiver);
    delivery.enqueue(url, 'a', '{}', 'shop/hook');
    const lastWhy = (): string => delivery.callbacks()[0]?.lastError?.why ?? '';
    await until(() => delivery.stats.retried > 3);
    assert.equal(lastWhy(), 'its credentials are unknown');
    credentials = {};
    await until(() => delivery.stats.retried > 6);
    assert.equal(receiver.connections, 0);
    assert.equal(reported.length, 1);
    assert.equal(reported[0]?.secret, 'shop/hook');
    assert.equal(reported[0]?.lastError?.aboutCredentials, true);
    // Another reason is news: the authority is the wrong one now.
    credentials = { bearerToken: 'token' };
    await until(() => reported.length === 2);
    assert.match(reported[1]?.lastError?.why ?? '', /certificate|signature/);
    assert.equal(receiver.received.length, 0);
    credentials = { bearerToken: 'token', ca: authority.cert };
    await until(() => delivery.stats.delivered === 1);
  });

  test("reports 401, 403 and TLS failures to the Secret's policies, and no other failure", async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await secure();
    let refused = 0;
    let ca = authority.cert;
    await using delivery = openQuick(directory.path, {
      credentialsFor: () => ({ ca, bearerToken: 'token', onRefused: () => refused++ }),
    });
    const statuses = [500, 401, 404, 403];
    receiver.manners = (_received, response) => void response.writeHead(statuses.shift() ?? 200).end();
    delivery.enqueue(urlOf(receiver), 'a', '{}', 'shop/hook');
    await until(() => delivery.stats.delivered === 1);
    assert.equal(refused, 2);
    ca = issueAuthority('strangers', validity).cert;
    delivery.enqueue(urlOf(receiver), 'b', '{}', 'shop/hook');
    await until(() => refused > 2);
  });

  test('a Secret is for https, and has a name that Secrets have', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path, { credentialsFor: () => ({ bearerToken: 'token' }) });
    assert.equal(delivery.enqueue(receiver.url(), 'a', '{}', 'shop/hook'), false);
    for (const secret of [
      'hook',
      '/hook',
      'shop/',
      'shop/hook\n',
      'Shop/hook',
      'a/b/c',
      'shop/..',
      `a/${'b'.repeat(400)}`,
    ]) {
      assert.equal(delivery.enqueue('https://127.0.0.1/', 'a', '{}', secret), false, secret);
      assert.equal(isSecretName(secret), false);
    }
    assert.equal(delivery.stats.refused.callback, 9);
    assert.equal(receiver.connections, 0);
  });

  test('a file for plain http with a Secret, whoever wrote it, is not sent', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    const key = keyOf(receiver.url(), 'shop/hook');
    const name = queueName({ callback: receiver.url(), secret: 'shop/hook' });
    const segment = Segment.create(directory.at(`${key}-000000000001.alerts`), name);
    const record = new RecordEncoder().encode('a', '{}', Date.now());
    assert.ok(record);
    segment.append(record.buffer, record.sizeBytes);
    segment.close();
    await using delivery = openQuick(directory.path, { credentialsFor: () => ({ bearerToken: 'token' }) });
    await until(() => delivery.stats.retried > 2);
    assert.equal(delivery.callbacks()[0]?.lastError?.why, 'a Secret requires https');
    assert.equal(receiver.connections, 0);
  });

  test('no two queues have files of the same name', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '/', '"', ',', '[', ']', '\n'), maxLength: 6 });
    const queue = fc.tuple(
      text.filter((callback) => URL.canParse(`https://${callback}`)).map((callback) => `https://${callback}`),
      fc.constantFrom('', 'a/a', 'a/b', 'b/a'),
    );
    fc.assert(
      fc.property(queue, queue, (one, other) => {
        const same = one[0] === other[0] && one[1] === other[1];
        assert.equal(keyOf(...one) === keyOf(...other), same);
      }),
    );
    // As a callback, the text that a queue with a Secret is hashed by is no URL.
    assert.equal(URL.parse(JSON.stringify(['https://a/', 'b/c'])), null);
    assert.notEqual(displayName('https://a/', 'b/c'), displayName('https://a/'));
  });
});
