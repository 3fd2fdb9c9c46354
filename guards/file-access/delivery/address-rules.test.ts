import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { suite, test } from 'node:test';

import { RampartError } from '../../../lib/errors/errors.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { AddressRules, type Resolve } from '../../../lib/net/address-rules.ts';
import { callbackException as exception, parseCallback } from './callback-url.ts';
import { openQuick, Receiver } from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

const refused: readonly (readonly [callback: string, why: RegExp])[] = [
  ['http://169.254.169.254/latest/meta-data/', /link-local/],
  ['http://169.254.0.1/', /link-local/],
  // Other ways to write the same.
  ['http://2852039166/', /link-local/],
  ['http://0xa9fea9fe/', /link-local/],
  ['http://0251.0376.0251.0376/', /link-local/],
  ['http://169.254.43518/', /link-local/],
  ['http://①⑥⑨.254.169.254/', /link-local/],
  ['http://169.254.169.254./', /link-local/],
  ['http://[::ffff:169.254.169.254]/', /link-local/],
  ['http://[::ffff:a9fe:a9fe]/', /link-local/],
  ['http://[::a9fe:a9fe]/', /link-local/],
  ['http://[64:ff9b::a9fe:a9fe]/', /link-local/],
  ['http://[2002:a9fe:a9fe::1]/', /link-local/],
  ['https://[fe80::1]/', /link-local/],
  ['https://[febf::1]/', /link-local/],
  ['http://100.100.100.200/', /metadata/],
  ['http://168.63.129.16/', /metadata/],
  ['http://192.0.0.192/', /metadata/],
  ['http://[fd00:ec2::254]/', /metadata/],
  ['http://[fd00:0ec2:0:0:0:0:0:254]/', /metadata/],
  ['http://[fd20:ce::254]/', /metadata/],
  ['http://127.0.0.1:8080/', /loopback/],
  ['http://127.1/', /loopback/],
  ['http://127.255.255.254/', /loopback/],
  ['http://[::1]/', /loopback/],
  ['http://[::ffff:127.0.0.1]/', /loopback/],
  ['http://[64:ff9b::7f00:1]/', /loopback/],
  ['http://0.0.0.0/', /unspecified/],
  ['http://0/', /unspecified/],
  ['http://[::]/', /unspecified/],
  ['http://224.0.0.1/', /multicast/],
  ['http://239.255.255.255/', /multicast/],
  ['http://[ff02::1]/', /multicast/],
  ['http://255.255.255.255/', /reserved/],
  ['http://240.0.0.1/', /reserved/],
  ['file:///etc/shadow', /neither http nor https/],
  ['gopher://10.0.0.1/', /neither http nor https/],
  ['unix:/run/containerd.sock', /neither http nor https/],
  ['http://user@receiver.example/', /user name/],
  ['http://:secret@receiver.example/', /password/],
  ['//receiver.example/', /not a URL/],
  ['http://', /not a URL/],
  ['http://[fe80::1%25eth0]/', /not a URL/],
];

const usable: readonly string[] = [
  'http://10.96.0.10/alerts',
  'http://192.168.0.3:8000/',
  'http://172.17.0.1/',
  'http://100.64.0.1/',
  'http://169.253.255.255/',
  'https://[fd00::10]:8443/',
  'https://[2001:db8::1]/',
  'http://koney-alert-forwarder.koney-system.svc:8000/handlers/kive',
  'HTTPS://Receiver.Example/Path?query=1#fragment',
];

/** A resolver that answers each time with the next list. */
function resolver(...answers: readonly (readonly string[])[]): Resolve & { asked: string[] } {
  const asked: string[] = [];
  const resolve: Resolve = (host, _options, done) => {
    const addresses = answers[Math.min(asked.length, answers.length - 1)] ?? [];
    asked.push(host);
    const list: LookupAddress[] = addresses.map((address) => ({
      address,
      family: address.includes(':') ? 6 : 4,
    }));
    setImmediate(() => done(null, list));
  };
  return Object.assign(resolve, { asked });
}

suite('addresses of callbacks', () => {
  const rules = new AddressRules({ exception });

  for (const [callback, why] of refused) {
    test(`refused: ${callback}`, () => {
      const result = parseCallback(callback, rules);
      assert.ok(typeof result === 'string', `is ${String(result)}`);
      assert.match(result, why);
    });
  }

  test('others are used', () => {
    for (const callback of usable) assert.ok(parseCallback(callback, rules) instanceof URL, callback);
  });

  test('allowed and blocked by the configuration', () => {
    const own = new AddressRules({
      exception,
      allow: ['127.0.0.1', '169.254.10.0/24', 'fe80::5', 'local.example'],
      refuse: ['10.1.0.0/16', 'fd00:1::/32'],
    });
    const why = (address: string): string | undefined => own.refusal(address);
    assert.equal(why('127.0.0.1'), undefined);
    assert.equal(why('::ffff:127.0.0.1'), undefined);
    assert.match(why('127.0.0.2') ?? '', /loopback/);
    assert.equal(why('169.254.10.77'), undefined);
    assert.match(why('169.254.11.77') ?? '', /link-local/);
    assert.equal(why('fe80::5'), undefined);
    assert.match(why('fe80::6') ?? '', /link-local/);
    assert.match(why('10.1.2.3') ?? '', /blocked by the configuration/);
    assert.match(why('::ffff:10.1.2.3') ?? '', /blocked by the configuration/);
    assert.match(why('fd00:1::2') ?? '', /blocked by the configuration/);
    assert.equal(why('10.2.2.3'), undefined);
    for (const bad of ['', '1.2.3', '1.2.3.4/33', '::1/129', '1.2.3.4/a', '1.2.3.4/8/8', 'a b', 'http://a']) {
      assert.throws(() => new AddressRules({ exception, allow: [bad] }), RampartError, bad);
    }
  });

  test('names are checked by what they resolve to', async () => {
    const look = (own: AddressRules, all: boolean): Promise<unknown> =>
      new Promise((resolve, reject) => {
        own.lookup('Name.example', { all }, (error, address) => (error ? reject(error) : resolve(address)));
      });
    const both = new AddressRules({ exception, resolve: resolver(['169.254.169.254', '10.0.0.1', '::1']) });
    assert.deepEqual(await look(both, true), [{ address: '10.0.0.1', family: 4 }]);
    assert.equal(await look(both, false), '10.0.0.1');
    const none = new AddressRules({ exception, resolve: resolver(['169.254.169.254', '::ffff:127.0.0.1']) });
    await assert.rejects(
      look(none, true),
      /Name.example: 169.254.169.254 is link-local, ::ffff:127.0.0.1 is loopback/,
    );
    const empty = new AddressRules({ exception, resolve: resolver([]) });
    await assert.rejects(look(empty, false), /has no address/);
    const named = new AddressRules({ exception, allow: ['NAME.example'], resolve: resolver(['127.0.0.1']) });
    assert.equal(await look(named, false), '127.0.0.1');
    const failing = new AddressRules({
      exception,
      resolve: (_host, _options, done) =>
        done(Object.assign(new Error('ENOTFOUND'), { code: 'ENOTFOUND' }), []),
    });
    await assert.rejects(look(failing, true), /ENOTFOUND/);
  });
});

suite('rebinding', { timeout: 300_000 }, () => {
  test('a name is resolved once for a connection, and that answer is checked and used', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    // Harmless for whoever asks first to check it, this machine for who asks again to connect.
    const resolve = resolver(['192.0.2.1'], ['127.0.0.1']);
    await using delivery = openQuick(directory.path, { allow: [], resolve, timeoutMs: 300 });
    assert.ok(delivery.enqueue(`http://rebind.example:${receiver.port}/`, 'a', '{}'));
    // The first try goes to the harmless address, later ones meet the refusal.
    await until(() => /127.0.0.1 is loopback/.test(delivery.callbacks()[0]?.lastError?.why ?? ''));
    await until(() => resolve.asked.length > 5);
    assert.equal(receiver.connections, 0);
    assert.equal(delivery.stats.depth, 1, 'it waits: the name may be put right');
  });

  test('connects only to the allowed ones of several addresses', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    const resolve = resolver(['127.0.0.2', '127.0.0.1']);
    await using delivery = openQuick(directory.path, { resolve });
    delivery.enqueue(`http://two.example:${receiver.port}/`, 'a', '{}');
    await until(() => delivery.stats.delivered === 1);
    assert.equal(receiver.received[0]?.headers.host, `two.example:${receiver.port}`);
  });
});
