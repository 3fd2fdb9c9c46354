// TLS with a private authority, client certificates and tokens; none of it is revealed.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { inspect } from 'node:util';

import { RampartError } from '../../../lib/errors/errors.ts';
import { issueAuthority, issueServerCertificate } from '../../../lib/x509/certificate.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { Delivery } from './delivery.ts';
import type { Credentials } from './options.ts';
import { answerWith, openQuick, Receiver } from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

const validity = { now: new Date(), days: 30 };
const authority = issueAuthority('receivers', validity);
const stranger = issueAuthority('strangers', validity);
const serverPair = issueServerCertificate(authority, ['127.0.0.1'], validity);
const elsewherePair = issueServerCertificate(authority, ['elsewhere.example'], validity);

const url = (receiver: Receiver): string => receiver.url('/').replace('http:', 'https:');
const lastWhy = (delivery: Delivery): string => delivery.callbacks()[0]?.lastError?.why ?? '';

suite('credentials', { timeout: 300_000 }, () => {
  test('a receiver of an authority of its own, a token, and its rotation', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start({ tls: serverPair });
    let credentials: Credentials | undefined = {};
    await using delivery = openQuick(directory.path, { credentialsFor: () => credentials });
    delivery.enqueue(url(receiver), 'a', '{}');
    await until(() => /certificate|signature/.test(lastWhy(delivery)));
    credentials = { ca: stranger.cert };
    await until(() => delivery.stats.retried > 3);
    assert.equal(receiver.received.length, 0);
    credentials = { ca: authority.cert, bearerToken: 'first-token' };
    await until(() => delivery.stats.delivered === 1);
    assert.equal(receiver.received[0]?.headers.authorization, 'Bearer first-token');
    credentials = { ca: Buffer.from(authority.cert), bearerToken: 'second-token\n' };
    delivery.enqueue(url(receiver), 'b', '{}');
    await until(() => delivery.stats.delivered === 2);
    assert.equal(receiver.received[1]?.headers.authorization, 'Bearer second-token');
  });

  test('a certificate for another name is refused, whatever the environment says', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start({ tls: elsewherePair });
    const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    try {
      await using delivery = openQuick(directory.path, { credentialsFor: () => ({ ca: authority.cert }) });
      delivery.enqueue(url(receiver), 'a', '{}');
      await until(() => delivery.stats.retried > 1);
      assert.match(lastWhy(delivery), /altnames/);
      assert.equal(receiver.received.length, 0);
    } finally {
      if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
      else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
    }
  });

  test('a client certificate, shown and proven, and its rotation', async () => {
    using directory = new TemporaryDirectory();
    const clients = [1, 2].map(() => issueServerCertificate(authority, ['agent.example'], validity));
    // Our certificate maker makes none for clients, so the receiver does not check the purpose but which one it is.
    await using receiver = await Receiver.start({
      tls: { ...serverPair, requestCert: true, rejectUnauthorized: false },
    });
    const shown: (string | undefined)[] = [];
    receiver.manners = (_received, response, request) => {
      const peer = (request.socket as TLSSocket).getPeerX509Certificate();
      if (peer !== undefined) shown.push(peer.fingerprint256);
      response.writeHead(peer === undefined ? 401 : 202).end();
    };
    let credentials: Credentials = { ca: authority.cert };
    await using delivery = openQuick(directory.path, { credentialsFor: () => credentials });
    delivery.enqueue(url(receiver), 'a', '{}');
    await until(() => /HTTP 401/.test(lastWhy(delivery)));
    credentials = { ca: authority.cert, cert: serverPair.cert, key: 'no key' };
    await until(() => /PEM|key|DECODER/i.test(lastWhy(delivery)));
    for (const [index, client] of clients.entries()) {
      credentials = { ca: authority.cert, ...client };
      delivery.enqueue(url(receiver), `b${index}`, '{}');
      await until(() => delivery.stats.depth === 0);
    }
    const fingerprints = clients.map(({ cert }) => new X509Certificate(cert).fingerprint256);
    assert.deepEqual(shown, [fingerprints[0], fingerprints[0], fingerprints[1]]);
  });

  test('a token goes over https or to this machine only', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    await using delivery = openQuick(directory.path, {
      allow: ['127.0.0.1', 'receiver.example'],
      resolve: (_host, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
      credentialsFor: () => ({ bearerToken: 'secret-token' }),
    });
    delivery.enqueue(`http://receiver.example:${receiver.port}/`, 'a', '{}');
    await until(() => /not sent over plain http/.test(lastWhy(delivery)));
    assert.equal(receiver.connections, 0);
    delivery.enqueue(receiver.url(), 'b', '{}');
    await until(() => receiver.taken.length === 1);
    assert.equal(receiver.received[0]?.headers.authorization, 'Bearer secret-token');
  });

  test('nothing secret is in logs, counts or errors', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    receiver.manners = answerWith(401, { 'www-authenticate': 'Bearer' });
    const said: unknown[] = [];
    const log = {
      info: (...parts: unknown[]) => void said.push(parts),
      warn: (...parts: unknown[]) => void said.push(parts),
    };
    const secret = 'hush-hush';
    const attempts: (() => Credentials)[] = [
      () => ({ bearerToken: secret }),
      () => ({ bearerToken: `${secret} with a space` }),
      () => ({ bearerToken: `${secret}\r\nx-more: 1` }),
      () => ({ cert: secret, key: secret, ca: secret }),
      () => {
        throw new Error(`cannot parse ${secret}`);
      },
      () => {
        throw new RampartError('RAMPART_INPUT', { what: 'the Secret a/b', why: 'it has no key "token"' });
      },
    ];
    await using delivery = openQuick(directory.path, {
      log: log as never,
      maxBytesPerCallback: 400,
      credentialsFor: (callback) => {
        const attempt = attempts[Number(new URL(callback).searchParams.get('attempt'))];
        assert.ok(attempt);
        return attempt();
      },
    });
    for (const index of attempts.keys()) {
      // The path is secret, too, as with most webhooks.
      const callback = receiver.url(`/hooks/${secret}?attempt=${index}`);
      for (let count = 0; count < 5; count++)
        delivery.enqueue(callback, `${index}-${count}`, 'x'.repeat(100));
    }
    const failures = (): number[] => delivery.callbacks().map((callback) => callback.failures);
    await until(() => failures().length === attempts.length && failures().every((count) => count > 0));
    const why = delivery.callbacks().map(({ lastError }) => lastError?.why ?? '');
    assert.match(why[0] ?? '', /HTTP 401/);
    assert.match(why[1] ?? '', /bearer token contains invalid characters/);
    assert.match(why[4] ?? '', /credentials cannot be read$/);
    assert.match(why[5] ?? '', /no key "token"/);
    const reported = inspect(
      [said, delivery.stats, delivery.callbacks().map(({ callback: _url, ...rest }) => rest)],
      {
        depth: 10,
      },
    );
    assert.ok(said.length >= attempts.length);
    assert.match(reported, /does not accept alerts/);
    assert.match(reported, /not queued/);
    assert.doesNotMatch(reported, new RegExp(secret));
    assert.doesNotMatch(inspect(delivery, { depth: 0 }), new RegExp(secret));
  });
});
