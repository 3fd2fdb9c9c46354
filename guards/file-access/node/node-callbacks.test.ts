// Credentials of callbacks from the Secret to the receiver: the embedded API, the real sensor, receivers with real TLS.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';

import { pino } from 'pino';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { makeCertificates, type TestCertificates } from '../../../lib/kube/client/api-server.fixture.ts';
import { isAlreadyExists } from '../../../lib/kube/client/client-errors.ts';
import { createLogger, type Logger } from '../../../lib/telemetry/log.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../alert/alert.ts';
import { type KivePolicy, kivePolicyType, type KiveTrap } from '../api.ts';
import { type CallbackDefault, parseCallbackDefaults } from '../delivery/callback-defaults.ts';
import { CallbackSecrets } from '../delivery/callback-secrets.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { openQuick, Receiver } from '../delivery/receiver.fixture.ts';
import { callbackSecretOf } from '../kive-data.ts';
import { unlimitedScope } from '../policy/policy-scope.ts';
import { clusterStatus } from '../cluster/policy-status.ts';
import { readByCat, TestCluster, type TestContainer, type TestNode } from './node.fixture.ts';
import { type Secret, secrets as secretType } from '../../../lib/kube/object/object.ts';
import type { CallbackProblem } from '../policy-status-schema.ts';

const namespace = 'kivebpf-system';

/** A cluster with a node whose alerts go to receivers, and a pod with files. */
class Scene implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly certificates: TestCertificates;
  readonly receiver: Receiver;
  readonly log: string[] = [];
  readonly #logger: Logger;
  readonly #stack: AsyncDisposableStack;
  #container: TestContainer | undefined;
  #node: TestNode | undefined;
  #delivery: Delivery | undefined;
  #stop: (() => Promise<void>) | undefined;

  private constructor(
    cluster: TestCluster,
    receiver: Receiver,
    certificates: TestCertificates,
    stack: AsyncDisposableStack,
  ) {
    [this.cluster, this.receiver, this.certificates, this.#stack] = [cluster, receiver, certificates, stack];
    const write = (text: string): void => void this.log.push(text);
    this.#logger = pino({ level: 'debug' }, { write });
  }

  static async start({ requestCert = false, memory = true } = {}): Promise<Scene> {
    const stack = new AsyncDisposableStack();
    const cluster = stack.use(await TestCluster.start({ memory }));
    const directory = join(cluster.directory, 'certificates');
    mkdirSync(directory);
    const certificates = makeCertificates(directory);
    const { ca, serverCert: cert, serverKey: key } = certificates;
    const receiver = stack.use(await Receiver.start({ tls: { ca, cert, key, requestCert } }));
    return new Scene(cluster, receiver, certificates, stack);
  }

  get node(): TestNode {
    assert.ok(this.#node);
    return this.#node;
  }

  get delivery(): Delivery {
    assert.ok(this.#delivery);
    return this.#delivery;
  }

  /** As guards.ts starts it, with shorter times. */
  async startAgent(
    options: { readonly defaults?: readonly CallbackDefault[]; readonly failingMs?: number } = {},
  ): Promise<void> {
    const secrets = new CallbackSecrets({
      client: this.cluster.newClient(),
      defaults: options.defaults ?? [],
      logger: this.#logger,
      paceMs: 20,
    });
    this.#delivery = openQuick(join(this.cluster.directory, 'callbacks'), {
      credentialsFor: secrets.credentialsFor,
      log: this.#logger,
      ...(options.failingMs !== undefined && { failingMs: options.failingMs }),
    });
    const delivery = this.#delivery;
    const containers = this.#node?.containers;
    this.#node = await this.cluster.startNode('n1', {
      delivery,
      logger: this.#logger,
      // Its policies of several namespaces have one pod in common.
      policyScope: unlimitedScope,
      ...(containers && { containers }),
    });
    const node = this.#node;
    this.#stop = async () => {
      await node.stop();
      await delivery[Symbol.asyncDispose]();
      secrets[Symbol.dispose]();
    };
    if (this.#container !== undefined) return;
    const files = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, name]));
    [this.#container] = await this.cluster.createPod(node, { name: 'web', files });
  }

  async stopAgent(): Promise<void> {
    await this.#stop?.();
    this.#stop = undefined;
  }

  get url(): string {
    return this.receiver.url('/in').replace('http:', 'https:');
  }

  async putSecret(name: string, texts: Readonly<Record<string, string>>, where = namespace): Promise<void> {
    const data = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
    const body: Secret = { metadata: { namespace: where, name }, data: Object.fromEntries(data) };
    const { client } = this.cluster;
    try {
      await client.create(secretType, body);
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await client.update(secretType, body);
    }
  }

  putPolicy(name: string, file: string, more: Partial<KiveTrap>, where = namespace): Promise<KivePolicy> {
    const trap: KiveTrap = { path: `/${file}`, callback: this.url, matchAny: [{ pod: 'web' }], ...more };
    return this.cluster.client.create(kivePolicyType, {
      metadata: { namespace: where, name },
      spec: { traps: [trap] },
    });
  }

  /** Reads the file until the policy has an alert of it. */
  async read(file: string, policy: string): Promise<void> {
    const before = this.node.lines.length;
    const path = join(this.#container?.root ?? '', file);
    await until(`an alert of ${policy}`, async () => {
      readByCat(path);
      await delay(30);
      return this.node.lines.slice(before).some((line) => policyOf(line) === policy);
    });
  }

  /** The tokens that the receiver has taken alerts of this policy with. */
  tokensOf(policy: string): Set<string | undefined> {
    const own = this.receiver.received.filter(
      ({ id, line }) => this.receiver.taken.includes(id) && policyOf(line) === policy,
    );
    return new Set(own.map(({ headers }) => headers.authorization));
  }

  /** Waits until all alerts of this policy have arrived. */
  async arrived(policy: string): Promise<void> {
    await until(`the alerts of ${policy}`, () => {
      const made = this.node.lines.filter((line) => policyOf(line) === policy);
      const taken = this.receiver.received.filter(({ id }) => this.receiver.taken.includes(id));
      const there = new Set(taken.map(({ line }) => line));
      return made.length > 0 && made.every((line) => there.has(line));
    });
  }

  async event(policy: string, pattern: RegExp): Promise<string> {
    return await until(`an event of ${policy}: ${pattern}`, async () => {
      const all = await this.cluster.events();
      return all.find(
        ({ reason, regarding, note }) =>
          reason === 'CallbackFailing' && regarding?.name === policy && pattern.test(note ?? ''),
      )?.note;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopAgent();
    await this.#stack.disposeAsync();
  }
}

const policyOf = (line: string): string => (JSON.parse(line) as KiveAlert)['kive-policy-name'];

suite('credentials of callbacks', { skip: sensorSkip, timeout: 300_000 }, () => {
  test('a client certificate that the receiver checks, its authority and a token, all from one Secret', async () => {
    await using scene = await Scene.start({ requestCert: true });
    const { ca, clientCert, clientKey } = scene.certificates;
    const shown = new Set<string | undefined>();
    scene.receiver.manners = (_received, response, request) => {
      shown.add((request.socket as TLSSocket).getPeerX509Certificate()?.subject);
      response.writeHead(202).end();
    };
    const secret = { token: 'hush-token\n', 'tls.crt': clientCert, 'tls.key': clientKey, 'ca.crt': ca };
    await scene.putSecret('receiver', secret);
    await scene.startAgent();
    await scene.putPolicy('p', 'a', { callbackSecret: 'receiver' });
    await scene.read('a', 'p');
    await scene.arrived('p');
    assert.deepEqual([...shown], ['O=people\nCN=alice']);
    assert.deepEqual([...scene.tokensOf('p')], ['Bearer hush-token']);
    const [data] = await scene.cluster.data();
    assert.equal(data && callbackSecretOf(data), 'kivebpf-system/receiver');

    // Without the certificate the same receiver does not even read the request.
    const before = scene.receiver.received.length;
    await scene.putPolicy('q', 'b', { callbackSecret: 'half' });
    await scene.putSecret('half', { token: 'hush-token', 'ca.crt': ca });
    await scene.read('b', 'q');
    await until('a failure', () =>
      scene.delivery.callbacks().some(({ secret: of, failures }) => of.endsWith('/half') && failures > 1),
    );
    assert.equal(scene.receiver.received.length, before);

    // Nothing of it is anywhere on disk or in the log.
    const spool = join(scene.cluster.directory, 'callbacks');
    const written = readdirSync(spool).map((name) => readFileSync(join(spool, name), 'latin1'));
    assert.ok(written.length > 0 && scene.log.length > 0);
    const key = clientKey.split('\n')[1] ?? '';
    for (const text of [...written, ...scene.log]) {
      assert.ok(!text.includes('hush-token') && !text.includes(key) && !text.includes('BEGIN'), text);
    }
  });

  test('a token that the receiver refuses, then rotated; a Secret that is not there, unusable, then right', async () => {
    await using scene = await Scene.start();
    const { ca } = scene.certificates;
    scene.receiver.manners = ({ headers }, response) =>
      void response.writeHead(headers.authorization === 'Bearer right' ? 202 : 401).end();
    await scene.startAgent();
    await scene.putSecret('rotated', { token: 'wrong', 'ca.crt': ca });
    await scene.putPolicy('refused', 'a', { callbackSecret: 'rotated' });
    await scene.putPolicy('missing', 'b', { callbackSecret: 'created-later' });
    await scene.read('a', 'refused');
    await scene.read('b', 'missing');
    assert.match(
      await scene.event('refused', /401/),
      /^alerts for https:\/\/127\.0\.0\.1:\d+#[0-9a-f]{8} are waiting on n1: HTTP 401$/,
    );
    await scene.event('missing', /the Secret kivebpf-system\/created-later does not exist/);
    assert.deepEqual(scene.receiver.taken, []);
    const stats = scene.delivery.callbacks().find(({ secret }) => secret.endsWith('/created-later'));
    assert.match(stats?.lastError?.why ?? '', /does not exist/);
    assert.equal(stats?.lastError?.aboutCredentials, true);

    await scene.putSecret('rotated', { token: 'right', 'ca.crt': ca });
    await scene.arrived('refused');
    await scene.putSecret('created-later', { token: 'right\nor hush', 'ca.crt': ca });
    assert.doesNotMatch(await scene.event('missing', /its key token contains a line break/), /hush/);
    await scene.putSecret('created-later', { token: 'right', 'ca.crt': ca });
    await scene.arrived('missing');
    assert.deepEqual([...scene.tokensOf('missing')], ['Bearer right']);
    assert.equal(scene.receiver.taken.length, new Set(scene.receiver.taken).size);
    assert.ok(!scene.log.join('').includes('hush'));
  });

  deepTest(
    'one URL, policies with different Secrets, in different namespaces, and without: never mixed',
    async () => {
      await using scene = await Scene.start();
      const { ca } = scene.certificates;
      const { client } = scene.cluster;
      const namespaces = {
        group: '',
        version: 'v1',
        plural: 'namespaces',
        kind: 'Namespace',
        namespaced: false,
      };
      for (const name of ['shop', 'bank']) await client.create(namespaces, { metadata: { name } });
      await scene.putSecret('hook', { token: 'of-shop', 'ca.crt': ca }, 'shop');
      await scene.putSecret('hook', { token: 'of-bank', 'ca.crt': ca }, 'bank');
      await scene.putSecret('only-in-shop', { token: 'hush', 'ca.crt': ca }, 'shop');
      await scene.putSecret('authority', { token: 'hush', 'ca.crt': ca });
      await scene.startAgent({ defaults: parseCallbackDefaults(['kivebpf-system/authority']) });
      await scene.putPolicy('shop', 'a', { callbackSecret: 'hook' }, 'shop');
      await scene.putPolicy('bank', 'a', { callbackSecret: 'hook' }, 'bank');
      await scene.putPolicy('none', 'a', {}, 'bank');
      await scene.putPolicy('thief', 'b', { callbackSecret: 'only-in-shop' }, 'bank');
      for (let round = 0; round < 3; round++) {
        for (const name of ['shop', 'bank', 'none']) await scene.read('a', name);
      }
      await scene.read('b', 'thief');
      for (const name of ['shop', 'bank', 'none']) await scene.arrived(name);
      assert.deepEqual([...scene.tokensOf('shop')], ['Bearer of-shop']);
      assert.deepEqual([...scene.tokensOf('bank')], ['Bearer of-bank']);
      // By the authority of the configuration, whose token was given for no origin.
      assert.deepEqual([...scene.tokensOf('none')], [undefined]);
      await until('the thief to be told', () =>
        scene.delivery
          .callbacks()
          .some(({ secret, failures }) => secret === 'bank/only-in-shop' && failures > 2),
      );
      assert.deepEqual([...scene.tokensOf('thief')], []);
      assert.ok(scene.receiver.received.every(({ headers }) => !headers.authorization?.includes('hush')));

      // The Secret goes from the trap: what comes from then on has none, and nothing is alerted twice.
      const trap: KiveTrap = { path: '/a', callback: scene.url, matchAny: [{ pod: 'web' }] };
      await client.patch(
        kivePolicyType,
        { namespace: 'shop', name: 'shop' },
        { type: 'merge', body: { spec: { traps: [trap] } } },
      );
      await until('the KiveData without a Secret', async () =>
        (await scene.cluster.data()).every(
          (data) =>
            data.metadata.annotations?.['kive-policy-name'] !== 'shop' || callbackSecretOf(data) === '',
        ),
      );
      await until('an alert without a token', async () => {
        await scene.read('a', 'shop');
        return scene.tokensOf('shop').has(undefined);
      });
      await scene.arrived('shop');
    },
  );

  deepTest(
    'without the API the last that was known is used; after a restart without it, alerts wait',
    async () => {
      await using scene = await Scene.start({ memory: false });
      const { ca } = scene.certificates;
      const origin = new URL(scene.url).origin;
      const defaults = parseCallbackDefaults([`${origin}=kivebpf-system/receiver`]);
      await scene.putSecret('receiver', { token: 'configured', 'ca.crt': ca });
      await scene.startAgent({ defaults });
      await scene.putPolicy('p', 'a', {});
      await scene.read('a', 'p');
      await scene.arrived('p');
      assert.deepEqual([...scene.tokensOf('p')], ['Bearer configured']);

      await scene.cluster.stopApi();
      await scene.read('a', 'p');
      await scene.arrived('p');
      scene.receiver.manners = (_received, response) => void response.writeHead(503).end();
      await scene.read('a', 'p');
      await scene.stopAgent();

      scene.receiver.manners = (_received, response) => void response.writeHead(202).end();
      const before = scene.receiver.received.length;
      {
        using secrets = new CallbackSecrets({
          client: scene.cluster.newClient(),
          defaults,
          logger: createLogger({ level: 'silent' }),
        });
        await using delivery = openQuick(join(scene.cluster.directory, 'callbacks'), {
          credentialsFor: secrets.credentialsFor,
        });
        const waiting = delivery.stats.recovered;
        assert.ok(waiting > 0);
        await until('a failure', () => delivery.stats.retried > 0);
        assert.match(
          delivery.callbacks()[0]?.lastError?.why ?? '',
          /cannot read the Secret \S+receiver: the Kubernetes API gave no usable response/,
        );
        assert.equal(delivery.stats.depth, waiting);
        assert.equal(scene.receiver.received.length, before);
      }
      await scene.cluster.startApi();
      await scene.startAgent({ defaults });
      await until('what was left', () => scene.delivery.stats.depth === 0);
      assert.ok(scene.delivery.stats.delivered > 0);
      assert.deepEqual([...scene.tokensOf('p')], ['Bearer configured']);
    },
  );

  test('a callback that is refused by default: in the status and an event before there is any alert', async () => {
    await using scene = await Scene.start();
    await scene.startAgent();
    await scene.putPolicy('refused', 'a', { callback: 'http://127.0.0.2:9/hush' });
    await scene.event('refused', /127.0.0.2 is loopback.*--allow-callback 127.0.0.2$/);
    const policy = await scene.cluster.client.get(kivePolicyType, { namespace, name: 'refused' });
    const parts = await scene.cluster.parts('refused');
    const delivering = clusterStatus(policy, parts).conditions?.find(({ type }) => type === 'Delivering');
    assert.equal(delivering?.status, 'False');
    assert.match(delivering.message, /is loopback.*--allow-callback 127.0.0.2\./);
    assert.doesNotMatch(delivering.message, /hush/);
  });

  deepTest(
    'a receiver that does not know the path: in the status of the policy until it does, also after a restart',
    async () => {
      await using scene = await Scene.start();
      const { ca } = scene.certificates;
      const defaults = parseCallbackDefaults(['kivebpf-system/authority']);
      scene.receiver.manners = (_received, response) => void response.writeHead(404).end();
      await scene.putSecret('authority', { 'ca.crt': ca });
      await scene.startAgent({ defaults, failingMs: 100 });
      await scene.putPolicy('p', 'a', {});
      const troubles = async (): Promise<readonly CallbackProblem[]> => {
        const [part] = await scene.cluster.parts('p');
        return part?.callbackProblems ?? [];
      };
      await scene.read('a', 'p');
      const note = await scene.event('p', /404/);
      assert.match(
        note,
        /^alerts for https:\/\/127\.0\.0\.1:\d+#[0-9a-f]{8} are not delivered by n1: HTTP 404$/,
      );
      const [reported] = await until('the trouble in the status', async () => {
        const found = await troubles();
        return found.length > 0 && found;
      });
      assert.equal(reported?.message, 'HTTP 404');
      assert.doesNotMatch(JSON.stringify(reported), /\/in/);

      // A restarted agent does not know before it has tried for as long: the reported state stays.
      await scene.stopAgent();
      await scene.startAgent({ defaults, failingMs: 600_000 });
      await scene.read('a', 'p');
      await until('its word on the policy', () => scene.delivery.stats.retried > 3);
      assert.deepEqual(await troubles(), [reported]);

      scene.receiver.manners = (_received, response) => void response.writeHead(202).end();
      await scene.arrived('p');
      await until('nothing of it in the status', async () => {
        await scene.read('a', 'p');
        return (await troubles()).length === 0;
      });
    },
  );
});
