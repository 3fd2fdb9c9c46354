import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { inspect } from 'node:util';

import { issueAuthority } from '../../../lib/x509/certificate.ts';
import { KubeError, unreachable } from '../../../lib/kube/client/client-errors.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import type { KubeObject, Secret } from '../../../lib/kube/object/object.ts';
import { CallbackSecrets } from './callback-secrets.ts';
import type { CallbackDefault } from './callback-defaults.ts';
import type { Credentials } from './options.ts';

const { signal } = new AbortController();
const ca = issueAuthority('receivers', { now: new Date(), days: 2 }).cert;
const answer = (status: number): KubeError =>
  new KubeError({ what: 'get secrets', status, reason: '', message: 'the API says hush' });

/** An API with Secrets, whose answers a test decides. */
class Api {
  readonly clock = new ManualClock();
  readonly stored = new Map<string, Readonly<Record<string, string>>>();
  readonly said: unknown[] = [];
  readonly secrets: CallbackSecrets;
  reads = 0;
  failure: Error | undefined;
  hold: Promise<void> | undefined;

  constructor(defaults: readonly CallbackDefault[] = []) {
    const log = (...parts: unknown[]): void => void this.said.push(parts);
    this.secrets = new CallbackSecrets({
      client: {
        get: async <T extends KubeObject>(_type: unknown, { namespace = '', name = '' }) => {
          this.reads++;
          await this.hold;
          if (this.failure !== undefined) throw this.failure;
          const texts = this.stored.get(`${namespace}/${name}`);
          if (texts === undefined) throw answer(404);
          const data = Object.entries(texts).map(([key, text]) => [
            key,
            Buffer.from(text).toString('base64'),
          ]);
          const secret: Secret = { metadata: { namespace, name }, data: Object.fromEntries(data) };
          return secret as unknown as T;
        },
      },
      defaults,
      logger: { info: log, warn: log } as never,
      clock: this.clock,
    });
  }

  async get(secret: string, callback = 'https://receiver.example/'): Promise<Credentials | undefined> {
    return await this.secrets.credentialsFor(callback, secret, signal);
  }

  async token(secret: string): Promise<string | undefined> {
    return (await this.get(secret))?.bearerToken;
  }
}

suite('credentials from Secrets', () => {
  test('read once, and again after a minute; the same ones where nothing has changed', async () => {
    const api = new Api();
    api.stored.set('shop/hook', { token: 'one' });
    const first = await api.get('shop/hook');
    assert.equal(first?.bearerToken, 'one');
    assert.equal(await api.get('shop/hook'), first);
    api.clock.advanceSync(59_999);
    assert.equal(await api.get('shop/hook'), first);
    assert.equal(api.reads, 1);
    api.clock.advanceSync(1);
    assert.equal(await api.get('shop/hook'), first);
    assert.equal(api.reads, 2);
    api.stored.set('shop/hook', { token: 'two' });
    api.clock.advanceSync(60_000);
    assert.equal(await api.token('shop/hook'), 'two');
    assert.equal(api.said.length, 1);
  });

  test('many that ask at the same time make one call', async () => {
    const api = new Api();
    api.stored.set('shop/hook', { token: 'one' });
    await Promise.all(Array.from({ length: 50 }, () => api.get('shop/hook')));
    assert.equal(api.reads, 1);
  });

  test('refused ones are read again at once, and only while they are those in use', async () => {
    const api = new Api();
    api.stored.set('shop/hook', { token: 'one' });
    const first = await api.get('shop/hook');
    api.clock.advanceSync(5000);
    first?.onRefused?.();
    assert.equal(await api.get('shop/hook'), first, 'not rotated yet');
    assert.equal(api.reads, 2);
    first?.onRefused?.();
    assert.equal(await api.get('shop/hook'), first);
    assert.equal(api.reads, 2, 'at most once a second, whatever the receiver says');
    api.stored.set('shop/hook', { token: 'two' });
    api.clock.advanceSync(1000);
    const second = await api.get('shop/hook');
    assert.equal(second?.bearerToken, 'two');
    // By a request that was under way with the old ones.
    first?.onRefused?.();
    api.clock.advanceSync(2000);
    assert.equal(await api.get('shop/hook'), second);
    assert.equal(api.reads, 3);
  });

  test('missing, forbidden, unusable: an error until it is repaired, reported once', async () => {
    const api = new Api();
    for (const [spoil, why] of [
      [() => void api.stored.delete('shop/hook'), /^the Secret shop\/hook does not exist$/],
      [
        () => void (api.failure = answer(403)),
        /not allowed to read the Secret \S+\. Create a RoleBinding to the ClusterRole rampart-callback-secrets/,
      ],
      [() => void api.stored.set('shop/hook', { token: 'hush\nhush' }), /key token contains a line break/],
    ] as const) {
      api.stored.set('shop/hook', { token: 'good' });
      assert.equal(await api.token('shop/hook'), 'good');
      spoil();
      api.clock.advanceSync(60_000);
      api.said.length = 0;
      for (let tries = 0; tries < 3; tries++) {
        await assert.rejects(async () => await api.get('shop/hook'), { message: why });
        // At once, without another call.
        assert.throws(() => api.secrets.credentialsFor('https://a/', 'shop/hook', signal), { message: why });
        api.clock.advanceSync(1000);
      }
      assert.equal(api.said.length, 1);
      api.failure = undefined;
      api.stored.set('shop/hook', { token: 'mended' });
      assert.equal(await api.token('shop/hook'), 'mended');
      assert.equal(api.said.length, 2);
      assert.doesNotMatch(inspect(api.said, { depth: 9 }), /hush|good|mended/);
      api.clock.advanceSync(60_000);
    }
  });

  test('while the API is away the last that is known is used, and nothing where nothing is known', async () => {
    const api = new Api();
    api.stored.set('shop/hook', { token: 'one' });
    const first = await api.get('shop/hook');
    api.clock.advanceSync(60_000);
    for (const failure of [
      unreachable('get secrets', 'hush'),
      answer(500),
      answer(429),
      answer(401),
      new Error('hush'),
    ]) {
      api.failure = failure;
      assert.equal(await api.get('shop/hook'), first);
      await assert.rejects(async () => await api.get('shop/new'), {
        code: 'RAMPART_API_UNREACHABLE',
        message: 'cannot read the Secret shop/new: the Kubernetes API gave no usable response',
      });
      api.clock.advanceSync(15_000);
    }
    api.failure = undefined;
    api.stored.set('shop/new', { token: 'new' });
    assert.equal(await api.token('shop/new'), 'new');
    // It was deleted while the API was away: from now on it is not used.
    api.stored.delete('shop/hook');
    await assert.rejects(async () => await api.get('shop/hook'), { message: /does not exist/ });
    api.failure = answer(500);
    api.clock.advanceSync(60_000);
    await assert.rejects(async () => await api.get('shop/hook'), { message: /does not exist/ });
  });

  test('an aborted wait does not wait for the API', async () => {
    const api = new Api();
    const { promise, resolve } = Promise.withResolvers<void>();
    api.hold = promise;
    api.stored.set('shop/hook', { token: 'one' });
    const leave = new AbortController();
    const waiting = api.secrets.credentialsFor('https://a/', 'shop/hook', leave.signal);
    leave.abort();
    await assert.rejects(async () => await waiting, { name: 'AbortError' });
    const other = api.get('shop/hook');
    resolve();
    assert.equal((await other)?.bearerToken, 'one');
    assert.equal(api.reads, 1);
  });

  test('configured credentials are sent to their origin only; the authority is used for any', async () => {
    const api = new Api([
      { origin: 'https://alerts.example', secret: 'ops/alerts' },
      { origin: undefined, secret: 'ops/authority' },
    ]);
    api.stored.set('ops/alerts', { token: 'for-alerts', 'ca.crt': ca });
    api.stored.set('ops/authority', { token: 'hush', 'ca.crt': ca });
    assert.equal((await api.get('', 'https://alerts.example/in'))?.bearerToken, 'for-alerts');
    const { onRefused: _again, ...anywhere } = (await api.get('', 'https://evil.example/')) ?? {};
    assert.deepEqual(anywhere, { ca });
    assert.equal(await api.get('', 'http://alerts.example/'), undefined);
    // Whose trap names one gets that, and nothing of the configuration.
    api.stored.set('shop/hook', { token: 'of-the-trap' });
    const { onRefused: _too, ...own } = (await api.get('shop/hook', 'https://alerts.example/in')) ?? {};
    assert.deepEqual(own, { bearerToken: 'of-the-trap' });
    // A Secret of the configuration is no way around that either.
    api.stored.set('ops/authority', { token: 'hush' });
    api.clock.advanceSync(60_000);
    await assert.rejects(async () => await api.get('', 'https://evil.example/'), {
      message: /has no key ca\.crt/,
    });
    assert.equal((await api.get('', 'https://alerts.example/'))?.bearerToken, 'for-alerts');
  });

  test('as many are kept as fit, and reading them is paced', async () => {
    const api = new Api();
    for (let number = 0; number < 1200; number++) {
      const secret = `shop/hook-${number}`;
      api.stored.set(secret, { token: `token-${number}` });
      const found = api.token(secret);
      await turn();
      await api.clock.advance(50);
      assert.equal(await found, `token-${number}`);
    }
    assert.equal(api.secrets.size, 1000);
    assert.equal(api.reads, 1200);
    // As large as Secrets may be: these take 16 MiB at most.
    for (let number = 0; number < 100; number++) {
      const secret = `shop/large-${number}`;
      api.stored.set(secret, { 'ca.crt': `${ca}${'#'.repeat(255 * 1024)}` });
      const found = api.get(secret);
      await api.clock.advance(50);
      await found;
    }
    assert.ok(api.secrets.size < 70, String(api.secrets.size));
    const before = api.reads;
    const together = Promise.all(Array.from({ length: 60 }, (_, number) => api.get(`shop/hook-${number}`)));
    await turn();
    assert.ok(api.reads - before <= 20);
    await api.clock.advance(3000);
    assert.equal((await together).length, 60);
  });
});
