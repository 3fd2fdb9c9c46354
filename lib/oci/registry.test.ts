import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { createLogger } from '../telemetry/log.ts';
import { openRegistry, type RegistryOptions } from './open-registry.ts';
import { credentialsOfSecrets } from './pull-secrets.ts';
import { parseRegistriesConf } from './registries-conf.ts';
import { RegistryFixture, registryUser } from './registry.fixture.ts';
import type { Artifact, PullOptions, Registry } from './registry.ts';

const logger = createLogger({ level: 'silent' });

class Client implements AsyncDisposable {
  readonly directory: string;
  readonly registry: Registry;

  private constructor(directory: string, registry: Registry) {
    this.directory = directory;
    this.registry = registry;
  }

  static async open(options: Partial<RegistryOptions> = {}): Promise<Client> {
    const directory = options.cacheDirectory ?? mkdtempSync(join(tmpdir(), 'rampart-oci-'));
    return new Client(directory, await openRegistry({ cacheDirectory: directory, logger, ...options }));
  }

  async bytes(reference: string, options?: PullOptions): Promise<string> {
    const artifact = await this.registry.pull(reference, options);
    return this.bytesOf(artifact, options);
  }

  async bytesOf(artifact: Artifact, options?: PullOptions): Promise<string> {
    const [layer] = artifact.layers;
    assert.ok(layer);
    return Buffer.from(await this.registry.layer(artifact, layer, options)).toString();
  }

  get blobs(): string[] {
    return readdirSync(join(this.directory, 'blobs'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.registry[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const failsWith =
  (code: string, message?: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.match(error.message, message);
    return true;
  };

const wasm = (text: string): Uint8Array => Buffer.from(text);

suite('registries without TLS', () => {
  let server: RegistryFixture;
  before(async () => void (server = await RegistryFixture.start()));
  after(() => server[Symbol.asyncDispose]());
  const insecure = (): Partial<RegistryOptions> => ({ insecureSources: [server.host] });

  test('an artifact by its tag, with its layers, their annotations and its config', async () => {
    const pushed = await server.push('team/policy', 'v1', {
      config: { config: { Labels: { 'io.ebpf.programs': '{"pass":"xdp"}' } } },
      layers: [{ mediaType: 'application/x', bytes: wasm('one'), annotations: { a: 'b' } }],
    });
    await using client = await Client.open(insecure());
    const artifact = await client.registry.pull(pushed.reference);
    assert.equal(artifact.digest, pushed.digest);
    assert.equal(artifact.referenceDigest, pushed.digest);
    assert.deepEqual(artifact.config, { config: { Labels: { 'io.ebpf.programs': '{"pass":"xdp"}' } } });
    assert.deepEqual(artifact.layers[0]?.annotations, { a: 'b' });
    assert.equal(await client.bytesOf(artifact), 'one');
    assert.equal(await client.registry.digestOf(pushed.reference), pushed.digest);
  });

  test('registries are only called without TLS if they are named as insecure', async () => {
    const pushed = await server.pushWasm('team/insecure', 'v1', wasm('x'));
    await using client = await Client.open();
    await assert.rejects(
      client.registry.pull(pushed.reference),
      failsWith(errorCodes.API_UNREACHABLE, /mark .* as insecure/),
    );
    await using other = await Client.open({
      registriesConf: parseRegistriesConf(
        `[[registry]]\nlocation = "${server.host}"\ninsecure = true`,
        'test',
      ),
    });
    assert.equal(await other.bytes(pushed.reference), 'x');
  });

  test('a tag that moves is seen by Always, and by IfNotPresent once it is asked for again', async () => {
    const first = await server.pushWasm('team/moving', 'v1', wasm('first'));
    await using client = await Client.open(insecure());
    assert.equal(await client.bytes(first.reference), 'first');
    const second = await server.pushWasm('team/moving', 'v1', wasm('second'));
    assert.equal(await client.bytes(first.reference), 'first');
    assert.equal(await client.bytes(first.reference, { policy: 'Never' }), 'first');
    assert.equal(await client.registry.digestOf(first.reference), second.digest);
    assert.equal(await client.bytes(first.reference, { policy: 'Always' }), 'second');
    assert.equal(await client.bytes(`${first.reference}@${first.digest}`), 'first');
  });

  test('takes the entry of an index for the platform', async () => {
    const amd64 = await server.pushWasm('team/multi', 'amd64', wasm('for amd64'));
    const s390x = await server.pushWasm('team/multi', 's390x', wasm('for s390x'));
    const index = await server.pushIndex('team/multi', 'v1', { 'linux/amd64': amd64, 'linux/s390x': s390x });
    await using client = await Client.open(insecure());
    const big = { os: 'linux', architecture: 's390x' };
    assert.equal(await client.bytes(index.reference, { platform: big }), 'for s390x');
    const artifact = await client.registry.pull(index.reference, {
      platform: { ...big, architecture: 'amd64' },
    });
    assert.equal(artifact.digest, amd64.digest);
    assert.equal(artifact.referenceDigest, index.digest);
    assert.equal(await client.registry.digestOf(index.reference), index.digest);
    const whole = await client.registry.manifest(index.reference);
    assert.deepEqual(
      (whole['manifests'] as { digest: string }[]).map(({ digest }) => digest),
      [amd64.digest, s390x.digest],
    );
    await assert.rejects(
      client.registry.pull(index.reference, { platform: { ...big, architecture: 'riscv64' } }),
      failsWith(errorCodes.NOT_FOUND, /no image for linux\/riscv64: it has linux\/amd64, linux\/s390x/),
    );
  });

  test('a registry that is away: what was fetched is there, what was not is said', async () => {
    await using own = await RegistryFixture.start();
    const kept = await own.pushWasm('a', 'v1', wasm('kept'));
    const never = await own.pushWasm('b', 'v1', wasm('never asked for'));
    await using client = await Client.open({ insecureSources: [own.host] });
    assert.equal(await client.bytes(kept.reference), 'kept');
    await own.pause();
    for (const policy of ['Always', 'IfNotPresent', 'Never'] as const) {
      assert.equal(await client.bytes(kept.reference, { policy }), 'kept');
    }
    const { stale } = await client.registry.pull(kept.reference, { policy: 'Always' });
    assert.match(stale?.message ?? '', /cannot fetch/);
    await assert.rejects(client.registry.pull(never.reference), failsWith(errorCodes.API_UNREACHABLE));
    await own.resume();
    assert.equal(await client.bytes(never.reference), 'never asked for');
    assert.equal((await client.registry.pull(kept.reference, { policy: 'Always' })).stale, undefined);
  });

  test('missing and removed artifacts', async () => {
    const pushed = await server.pushWasm('team/gone', 'v1', wasm('gone'));
    await using client = await Client.open(insecure());
    await assert.rejects(
      client.registry.pull(`${server.host}/team/gone:v2`),
      failsWith(errorCodes.NOT_FOUND),
    );
    await assert.rejects(
      client.registry.pull(pushed.reference, { policy: 'Never' }),
      failsWith(errorCodes.NOT_FOUND, /pull policy is Never/),
    );
    await client.bytes(pushed.reference);
    await server.remove('team/gone', pushed.digest);
    await assert.rejects(
      client.registry.pull(pushed.reference, { policy: 'Always' }),
      failsWith(errorCodes.NOT_FOUND),
    );
    await assert.rejects(client.registry.pull(pushed.reference), failsWith(errorCodes.NOT_FOUND));
  });

  test('bytes that are not those of the digest, of the registry and of the cache', async () => {
    const pushed = await server.pushWasm('team/changed', 'v1', wasm('as it was meant'));
    await using client = await Client.open(insecure());
    const artifact = await client.registry.pull(pushed.reference);
    const digest = artifact.layers[0]?.digest ?? '';
    writeFileSync(server.blobPath(digest), 'as it was taken');
    await assert.rejects(client.bytesOf(artifact), failsWith(errorCodes.CORRUPT, /its digest is sha256:/));
    writeFileSync(server.blobPath(digest), 'as it was meant');
    assert.equal(await client.bytesOf(artifact), 'as it was meant');
    writeFileSync(join(client.directory, 'blobs', digest.replace(':', '-')), 'as it was rotten');
    assert.equal(await client.bytesOf(artifact), 'as it was meant');
    writeFileSync(server.blobPath(pushed.digest), '{"schemaVersion": 2}');
    await using other = await Client.open(insecure());
    await assert.rejects(
      other.registry.pull(`${server.host}/team/changed@${pushed.digest}`),
      failsWith(errorCodes.CORRUPT),
    );
  });

  test('limits: of a layer, of a lie about its size, and of the cache', async () => {
    const large = await server.pushWasm('team/large', 'v1', Buffer.alloc(3000, 'x'));
    await using client = await Client.open({ ...insecure(), limits: { layerBytes: 2999, cacheBytes: 5000 } });
    const artifact = await client.registry.pull(large.reference);
    await assert.rejects(client.bytesOf(artifact), failsWith(errorCodes.LIMIT, /3000 bytes/));
    const layer = artifact.layers[0];
    assert.ok(layer);
    await assert.rejects(
      client.registry.layer(artifact, { ...layer, sizeBytes: 100 }),
      failsWith(errorCodes.LIMIT, /more than 100 bytes/),
    );
    await using roomy = await Client.open({ ...insecure(), limits: { cacheBytes: 5000 } });
    const first = await roomy.registry.pull(large.reference);
    await roomy.bytesOf(first);
    const long = new Date(Date.now() - 3600_000);
    for (const name of roomy.blobs) utimesSync(join(roomy.directory, 'blobs', name), long, long);
    const next = await server.pushWasm('team/large', 'v2', Buffer.alloc(2900, 'y'));
    await roomy.bytes(next.reference);
    assert.ok(!roomy.blobs.includes(layer.digest.replace(':', '-')), 'what was used longest ago is gone');
    const kept = roomy.blobs.reduce(
      (sum, name) => sum + statSync(join(roomy.directory, 'blobs', name)).size,
      0,
    );
    assert.ok(kept <= 5000);
    assert.equal((await roomy.bytesOf(first)).length, 3000);
  });

  test('a mirror is asked first, and the registry itself where the mirror has nothing', async () => {
    await using mirror = await RegistryFixture.start();
    await mirror.pushWasm('mirrored/policy', 'v1', wasm('of the mirror'));
    const own = await server.pushWasm('original/other', 'v1', wasm('of the registry'));
    const conf = (mirrorOptions: string): string => `
      [[registry]]
      prefix = "registry.example/team"
      location = "${server.host}/original"
      insecure = true
      [[registry.mirror]]
      location = "${mirror.host}/mirrored"
      insecure = true
      ${mirrorOptions}
    `;
    await using client = await Client.open({ registriesConf: parseRegistriesConf(conf(''), 'test') });
    assert.equal(await client.bytes('registry.example/team/policy:v1'), 'of the mirror');
    assert.equal(await client.bytes('registry.example/team/other:v1'), 'of the registry');
    await assert.rejects(
      client.registry.pull('registry.example/team/none:v1'),
      failsWith(errorCodes.NOT_FOUND, /Mirror: /),
    );
    await using strict = await Client.open({
      registriesConf: parseRegistriesConf(conf('pull-from-mirror = "digest-only"'), 'test'),
    });
    await assert.rejects(
      strict.registry.pull('registry.example/team/policy:v1'),
      failsWith(errorCodes.NOT_FOUND),
    );
    assert.equal(await strict.bytes(`registry.example/team/other@${own.digest}`), 'of the registry');
  });

  test('many at once fetch once', async () => {
    const pushed = await server.pushWasm('team/many', 'v1', Buffer.alloc(100_000, 'm'));
    await using client = await Client.open(insecure());
    const all = await Promise.all(Array.from({ length: 20 }, () => client.bytes(pushed.reference)));
    assert.ok(all.every((text) => text.length === 100_000));
    assert.deepEqual(
      client.blobs.filter((name) => name.endsWith('.tmp')),
      [],
    );
  });

  test('a fetch ends with its signal, and with the client', async () => {
    await using client = await Client.open(insecure());
    const reason = new Error('enough');
    await assert.rejects(
      client.registry.pull(`${server.host}/team/many:v1`, { signal: AbortSignal.abort(reason) }),
      reason,
    );
    await client.registry[Symbol.asyncDispose]();
    await assert.rejects(client.registry.pull(`${server.host}/team/many:v1`), failsWith(errorCodes.DISPOSED));
  });
});

suite('registries with TLS and with a password', () => {
  let server: RegistryFixture;
  before(async () => void (server = await RegistryFixture.start({ tls: true, password: true })));
  after(() => server[Symbol.asyncDispose]());
  const authorities = (): Partial<RegistryOptions> => ({
    authorities: { [server.host]: [server.authority] },
  });
  const secretOf = (auth: string) => ({
    name: 'pull',
    secret: {
      type: 'kubernetes.io/dockerconfigjson',
      data: {
        '.dockerconfigjson': Buffer.from(
          JSON.stringify({ auths: { [server.host]: { auth: Buffer.from(auth).toString('base64') } } }),
        ).toString('base64'),
      },
    },
  });
  const credentials = (): PullOptions => ({
    credentials: credentialsOfSecrets([secretOf(`${registryUser.username}:${registryUser.password}`)]),
  });

  test('its authority is needed, or leave to go without', async () => {
    const pushed = await server.pushWasm('team/policy', 'v1', wasm('secret'));
    await using stranger = await Client.open();
    await assert.rejects(
      stranger.registry.pull(pushed.reference, credentials()),
      failsWith(
        errorCodes.API_UNREACHABLE,
        /127\.0\.0\.1 is loopback; to call it, configure the certificate authority of/,
      ),
    );
    await using client = await Client.open(authorities());
    assert.equal(await client.bytes(pushed.reference, credentials()), 'secret');
    await using insecure = await Client.open({ insecureSources: ['127.0.0.1'] });
    assert.equal(await insecure.bytes(pushed.reference, credentials()), 'secret');
  });

  test('without the password, and with a wrong one', async () => {
    const pushed = await server.pushWasm('team/policy', 'v1', wasm('secret'));
    await using client = await Client.open(authorities());
    await assert.rejects(
      client.registry.pull(pushed.reference),
      failsWith(errorCodes.PRIVILEGE, /requires a username and a password/),
    );
    const wrong = { credentials: credentialsOfSecrets([secretOf('alice:rabbit-hole')]) };
    await assert.rejects(client.registry.pull(pushed.reference, wrong), (error: unknown) => {
      failsWith(errorCodes.PRIVILEGE, /denies access to team\/policy to alice/)(error);
      assert.doesNotMatch((error as Error).message, /rabbit/);
      return true;
    });
  });

  test('content fetched with a password is not returned from the cache without it', async () => {
    const pushed = await server.pushWasm('team/tenant', 'v1', wasm('of one tenant'));
    await using client = await Client.open(authorities());
    assert.equal(await client.bytes(pushed.reference, credentials()), 'of one tenant');
    for (const policy of ['Always', 'IfNotPresent'] as const) {
      for (const reference of [pushed.reference, `${server.host}/team/tenant@${pushed.digest}`]) {
        await assert.rejects(client.registry.pull(reference, { policy }), failsWith(errorCodes.PRIVILEGE));
      }
    }
    await assert.rejects(
      client.registry.pull(pushed.reference, { policy: 'Never' }),
      failsWith(errorCodes.NOT_FOUND),
    );
    await server.pause();
    await assert.rejects(client.registry.pull(pushed.reference), failsWith(errorCodes.API_UNREACHABLE));
    assert.equal(await client.bytes(pushed.reference, credentials()), 'of one tenant');
    await server.resume();
  });
});
