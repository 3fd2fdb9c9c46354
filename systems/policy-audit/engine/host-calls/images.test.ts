/** What policies ask registries about images: of Debian's docker-registry, by modules that call the host. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { createLogger } from '../../../../shared/observe/log.ts';
import { RegistryFixture, registryUser } from '../../../../shared/oci/registry.fixture.ts';
import type { CredentialsSource } from '../../../../shared/oci/registry.ts';
import { openModules } from '../../modules/open-modules.ts';
import { parseSources } from '../../modules/sources.ts';
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
  readonly runtime?: 'wapc' | 'wasi';
}

/** What a policy is answered, an operation each: JSON, or an error. */
async function ask({ image, sources, credentials, runtime = 'wapc' }: Asked): Promise<readonly string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-images-'));
  try {
    await using modules = await openModules({
      cacheDirectory: directory,
      sources: parseSources(sources, 'test'),
      logger,
    });
    const hostCalls = policyHostCalls({
      policy: 'clusterwide-lookup',
      capabilities: everyCapability,
      resources: [],
      logger,
      images: imagesOf(() => modules.registry(), credentials && { credentials }),
    });
    const calls = operations.map((operation) => ({ namespace: 'oci', operation, payload: image }));
    await using policy = await openPolicy('lookup', runtime, { calls }, { hostCalls });
    const { message = '' } = await policy.evaluate(podRequest(), { deadlineMs: 60_000 });
    return message.split(' | ');
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const config = { architecture: 'amd64', os: 'linux', config: { User: 'nobody' } };
const layers = [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', bytes: Buffer.from('layer') }];

suite('what a policy asks a registry', () => {
  for (const runtime of ['wapc', 'wasi'] as const) {
    test(`the digest, the manifest and the config of an image, by ${runtime}`, async () => {
      await using registry = await RegistryFixture.start();
      const pushed = await registry.push('team/app', 'v1', { layers, config });
      const sources = { insecure_sources: [registry.host] };
      const [digest = '', manifest = '', all = ''] = await ask({ image: pushed.reference, sources, runtime });
      assert.deepEqual(JSON.parse(digest), { digest: pushed.digest });
      const { schemaVersion, layers: listed } = JSON.parse(manifest) as Record<string, unknown>;
      assert.deepEqual([schemaVersion, (listed as unknown[]).length], [2, 1]);
      assert.deepEqual(JSON.parse(all), { manifest: JSON.parse(manifest), digest: pushed.digest, config });
    });
  }

  test('of an index its own digest and manifest, and the config of the image for this machine', async () => {
    await using registry = await RegistryFixture.start();
    const image = await registry.push('team/app', 'amd64', { layers, config });
    const platforms = { 'linux/amd64': image, 'linux/arm64': image };
    const index = await registry.pushIndex('team/app', 'v1', platforms);
    const sources = { insecure_sources: [registry.host] };
    const [digest = '', manifest = '', all = ''] = await ask({ image: index.reference, sources });
    assert.deepEqual(JSON.parse(digest), { digest: index.digest });
    assert.equal((JSON.parse(manifest) as { manifests: unknown[] }).manifests.length, 2);
    assert.equal((JSON.parse(all) as { digest: string }).digest, image.digest);
  });

  test('with the authority and the password that it needs, and without them', async () => {
    await using registry = await RegistryFixture.start({ tls: true, password: true });
    const { reference: image, digest } = await registry.push('team/app', 'v1', { layers, config });
    const sources = {
      source_authorities: { [registry.host]: [{ type: 'Data', data: registry.authority }] },
    };
    const [told = ''] = await ask({ image, sources, credentials: () => registryUser });
    assert.deepEqual(JSON.parse(told), { digest });
    for (const answer of await ask({ image, sources })) {
      assert.match(answer, /^error: Callback evaluation failure: .*it requires a username and a password/);
    }
    for (const answer of await ask({ image, sources: {}, credentials: () => registryUser })) {
      assert.match(answer, /^error: Callback evaluation failure: cannot fetch .*certificate/);
    }
  });
});
