/**
 * Policies' requests to registries about images: of Debian's docker-registry, by modules that call the host.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { deepTest, sampled } from '../../../../lib/testing/depth.fixture.ts';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import { RegistryFixture, registryUser } from '../../../../lib/oci/registry.fixture.ts';
import type { CredentialsSource } from '../../../../lib/oci/registry.ts';
import { verifierOf } from '../../modules/image-signatures.ts';
import { openModules } from '../../modules/open-modules.ts';
import { signAs } from '../../../../lib/oci/signatures/signing.fixture.ts';
import { SigstoreFixture } from '../../../../lib/oci/signatures/sigstore.fixture.ts';
import { parseSources } from '../../modules/sources.ts';
import { parseTrustRoot, type TrustRoot } from '../../../../lib/oci/signatures/trust-root.ts';
import { openPolicy, podRequest } from '../wasm/policies.fixture.ts';
import { everyCapability } from './capabilities.ts';
import { policyHostCalls } from './host-calls.ts';
import { imagesOf } from './images.ts';

const logger = createLogger({ level: 'silent' });
const operations = ['v1/manifest_digest', 'v1/oci_manifest', 'v1/oci_manifest_config'] as const;

interface Asked {
  readonly image: string;
  readonly sources: unknown;
  readonly credentials?: CredentialsSource;
  readonly trustRoot?: TrustRoot;
  readonly runtime?: 'wapc' | 'wasi';
  /** Default: each of `operations`, about the image. */
  readonly calls?: readonly { readonly operation: string; readonly payload: unknown }[];
}

/** The answers to a policy, one for each operation: JSON, or an error. */
async function ask({
  image,
  sources,
  credentials,
  trustRoot,
  runtime = 'wapc',
  calls = operations.map((operation) => ({ operation, payload: image })),
}: Asked): Promise<readonly string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-images-'));
  try {
    await using modules = await openModules({
      cacheDirectory: directory,
      sources: parseSources(sources, 'test'),
      trustRoot,
      logger,
    });
    const hostCalls = policyHostCalls({
      policy: 'clusterwide-lookup',
      capabilities: everyCapability,
      resources: [],
      logger,
      images: imagesOf(() => modules.registry(), credentials && { credentials }),
      verifier: verifierOf(modules, credentials && { credentials }),
    });
    const settings = { calls: calls.map((call) => ({ namespace: 'oci', ...call })) };
    await using policy = await openPolicy('lookup', runtime, settings, { hostCalls });
    const { message = '' } = await policy.evaluate(podRequest(), { deadlineMs: 60_000 });
    return message.split(' | ');
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const config = { architecture: 'amd64', os: 'linux', config: { User: 'nobody' } };
const layers = [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', bytes: Buffer.from('layer') }];

suite('requests of a policy to a registry', () => {
  let plain: RegistryFixture;
  /** With TLS, and a password. */
  let secure: RegistryFixture;
  before(async () => {
    plain = await RegistryFixture.start();
    secure = await RegistryFixture.start({ tls: true, password: true });
  });
  after(async () => {
    await plain[Symbol.asyncDispose]();
    await secure[Symbol.asyncDispose]();
  });

  for (const runtime of sampled(['wapc', 'wasi'] as const, 1)) {
    test(`the digest, the manifest and the config of an image, by ${runtime}`, async () => {
      const registry = plain;
      const pushed = await registry.push('team/app', 'v1', { layers, config });
      const sources = { insecure_sources: [registry.host] };
      const [digest = '', manifest = '', all = ''] = await ask({ image: pushed.reference, sources, runtime });
      assert.deepEqual(JSON.parse(digest), { digest: pushed.digest });
      const { schemaVersion, layers: listed } = JSON.parse(manifest) as Record<string, unknown>;
      assert.deepEqual([schemaVersion, (listed as unknown[]).length], [2, 1]);
      assert.deepEqual(JSON.parse(all), { manifest: JSON.parse(manifest), digest: pushed.digest, config });
    });
  }

  deepTest(
    'an index has its own digest and manifest, and the config of the image for this machine',
    async () => {
      const registry = plain;
      const image = await registry.push('team/app', 'amd64', { layers, config });
      const platforms = { 'linux/amd64': image, 'linux/arm64': image };
      const index = await registry.pushIndex('team/app', 'v1', platforms);
      const sources = { insecure_sources: [registry.host] };
      const [digest = '', manifest = '', all = ''] = await ask({ image: index.reference, sources });
      assert.deepEqual(JSON.parse(digest), { digest: index.digest });
      assert.equal((JSON.parse(manifest) as { manifests: unknown[] }).manifests.length, 2);
      assert.equal((JSON.parse(all) as { digest: string }).digest, image.digest);
    },
  );

  test('with the authority and the password that it needs, and without them', async () => {
    const registry = secure;
    const { reference: image, digest } = await registry.push('team/app', 'v1', { layers, config });
    const sources = {
      source_authorities: { [registry.host]: [{ type: 'Data', data: registry.authority }] },
    };
    const [reported = ''] = await ask({ image, sources, credentials: () => registryUser });
    assert.deepEqual(JSON.parse(reported), { digest });
    for (const answer of await ask({ image, sources })) {
      assert.match(answer, /^error: Callback evaluation failure: .*it requires a username and a password/);
    }
    for (const answer of await ask({ image, sources: {}, credentials: () => registryUser })) {
      assert.match(
        answer,
        /^error: Callback evaluation failure: cannot fetch .* is loopback; to call it, .*certificate/,
      );
    }
  });

  const pair = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }).toString();

  test('whether an image is signed by all of some keys, with what the signer said', async () => {
    const registry = secure;
    const pushed = await registry.push('team/signed', 'v1', { layers, config });
    const unsigned = await registry.push('team/plain', 'v1', { layers, config: { ...config, os: 'plan9' } });
    const [alice, bob, eve] = [pair(), pair(), pair()];
    await signAs(registry, pushed, 'team/signed', [
      { by: alice.privateKey, optional: { env: 'prod' } },
      { by: bob.privateKey },
      { by: eve.privateKey, break: true },
    ]);
    const image = pushed.reference;
    const keys = (...of: readonly { readonly publicKey: KeyObject }[]) => ({
      image,
      pub_keys: of.map(({ publicKey }) => pem(publicKey)),
    });
    const [type, env] = ['SigstorePubKeyVerify', { env: 'prod' }];
    const v2 = (payload: object) => ({ operation: 'v2/verify', payload: { type, ...payload } });
    const v1 = (payload: object) => ({ operation: 'v1/verify', payload: { [type]: payload } });
    const trusted = [
      v1(keys(alice)),
      v2(keys(alice, bob)),
      v1({ ...keys(alice), annotations: env }),
      v2({ ...keys(alice), annotations: [{ key: 'env', value: 'prod' }] }),
      v2({ ...keys(alice), annotations: null, image: `${registry.host}/team/signed@${pushed.digest}` }),
    ];
    const refused = [
      [v2(keys(alice, eve)), /none of its 3 signatures matches: public key$/],
      [v2({ ...keys(bob), annotations: env }), /none of its 3 signatures matches: public key$/],
      [v1({ ...keys(alice), image: unsigned.reference }), /it has no signatures/],
      [v1(keys()), /it requires no signature/],
      [v1({ image, pub_keys: ['x'] }), /key is not a PEM public key/],
      [v1({ image }), /the payload is malformed: pub_keys must be a list/],
      [
        v1({ ...keys(alice), image: `${registry.host}/team/none:v1` }),
        /cannot fetch|does not exist|not found/i,
      ],
    ] as const;
    const calls = [...trusted, ...refused.map(([call]) => call)];
    const sources = {
      source_authorities: { [registry.host]: [{ type: 'Data', data: registry.authority }] },
    };
    const answers = await ask({ image, sources, calls, credentials: () => registryUser });
    assert.equal(answers.length, calls.length);
    for (const answer of answers.slice(0, trusted.length)) {
      assert.equal(answer, JSON.stringify({ is_trusted: true, digest: pushed.digest }));
    }
    refused.forEach(([, why], index) => {
      const answer = answers[trusted.length + index] ?? '';
      assert.match(answer, /^error: Callback evaluation failure: /);
      assert.match(answer, why);
    });
    // Without the password not even what is signed is trusted.
    for (const answer of await ask({ image, sources, calls: trusted })) {
      assert.match(answer, /^error: .*it requires a username and a password/);
    }
  });

  for (const runtime of sampled(['wapc', 'wasi'] as const, 1)) {
    test(`who signed an image without a key, by ${runtime}`, async () => {
      const registry = secure;
      const sigstore = new SigstoreFixture();
      const pushed = await registry.push('team/keyless', 'v1', { layers, config });
      const workflow = 'https://github.com/team/app/.github/workflows/release.yml@refs/heads/main';
      const github = 'https://token.actions.githubusercontent.com';
      await signAs(registry, pushed, 'team/keyless', [
        { by: (payload) => sigstore.sign(payload), optional: { env: 'prod' } },
        { by: (payload) => sigstore.sign(payload, { issuer: github, subject: workflow }) },
        { by: (payload) => new SigstoreFixture().sign(payload, { subject: 'eve@team.example' }) },
      ]);
      const image = pushed.reference;
      const issuer = 'https://issuer.example';
      const v2 = (type: string, payload: object) => ({
        operation: 'v2/verify',
        payload: { type, image, ...payload },
      });
      const keyless = (...subjects: readonly string[]) => ({
        keyless: subjects.map((subject) => ({ issuer, subject })),
      });
      const trusted = [
        v2('SigstoreKeylessVerify', keyless('dev@team.example')),
        v2('SigstoreKeylessVerify', { ...keyless('dev@team.example'), annotations: { env: 'prod' } }),
        v2('SigstoreKeylessPrefixVerify', {
          keyless_prefix: [{ issuer: github, url_prefix: 'https://github.com/team' }],
        }),
        v2('SigstoreGithubActionsVerify', { owner: 'team', repo: 'app' }),
        v2('SigstoreGithubActionsVerify', { owner: 'team', repo: null }),
        {
          operation: 'v1/verify',
          payload: { SigstoreKeylessVerify: { image, ...keyless('dev@team.example') } },
        },
      ];
      const refused = [
        [
          v2('SigstoreKeylessVerify', keyless('dev@team.example', 'eve@team.example')),
          /signatures matches: eve@team\.example by \S+ \(its subject is dev@team\.example, not eve@.*not issued by a certificate authority/,
        ],
        [
          v2('SigstoreGithubActionsVerify', { owner: 'team', repo: 'ap' }),
          /its subject is \S+, which does not start with https:\/\/github\.com\/team\/ap\//,
        ],
        [
          v2('SigstoreKeylessVerify', { keyless: [{ issuer: github, subject: 'dev@team.example' }] }),
          /its issuer is https:\/\/issuer\.example, not https:\/\/token\./,
        ],
        [
          v2('SigstoreGithubActionsVerify', { owner: 'team', annotations: { env: 'prod' } }),
          /its annotation env is not prod/,
        ],
      ] as const;
      const answers = await ask({
        image,
        sources: { source_authorities: { [registry.host]: [{ type: 'Data', data: registry.authority }] } },
        credentials: () => registryUser,
        trustRoot: parseTrustRoot(sigstore.trustRoot, 'trusted_root.json'),
        runtime,
        calls: [...trusted, ...refused.map(([call]) => call)],
      });
      assert.equal(answers.length, trusted.length + refused.length);
      for (const answer of answers.slice(0, trusted.length)) {
        assert.equal(answer, JSON.stringify({ is_trusted: true, digest: pushed.digest }));
      }
      refused.forEach(([, why], index) => assert.match(answers[trusted.length + index] ?? '', why));
    });
  }

  test('verification with a trust root or a certificate is refused, with an alternative', async () => {
    const registry = plain;
    const { reference: image } = await registry.push('team/app', 'v1', { layers, config });
    const issuer = 'https://issuer.example';
    const v2 = (type: string, more: object) => ({
      operation: 'v2/verify',
      payload: { type, image, ...more },
    });
    const cases = [
      [
        v2('SigstoreKeylessVerify', { keyless: [{ issuer, subject: 'a@b.example' }] }),
        /a@b\.example by https/,
      ],
      [
        v2('SigstoreKeylessPrefixVerify', {
          keyless_prefix: [{ issuer, url_prefix: 'https://c.example/d' }],
        }),
        /https:\/\/c\.example\/d\/\.\.\. by https/,
      ],
      [
        v2('SigstoreGithubActionsVerify', { owner: 'team', repo: 'app' }),
        /github\.com\/team\/app\/\.\.\. by /,
      ],
      [
        {
          operation: 'v1/verify',
          payload: { SigstoreKeylessVerify: { image, keyless: [{ issuer, subject: 'a' }] } },
        },
        /requires a trust root, and none is configured/,
      ],
      [
        v2('SigstoreCertificateVerify', { certificate: [1], require_rekor_bundle: true }),
        /SigstorePubKeyVerify/,
      ],
      [v2('SigstoreMoonVerify', {}), /"SigstoreMoonVerify" is not supported.*SigstorePubKeyVerify, /],
    ] as const;
    const calls = cases.map(([call]) => call);
    const answers = await ask({ image, sources: { insecure_sources: [registry.host] }, calls });
    assert.equal(answers.length, cases.length);
    cases.forEach(([, why], index) => assert.match(answers[index] ?? '', why));
    for (const answer of answers.slice(0, 4)) assert.match(answer, /trust root.*require that key/);
  });
});
