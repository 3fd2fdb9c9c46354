/** A PolicyServer's settings for its policies also hold when this process runs them. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { configMaps, secrets } from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { RegistryFixture, registryUser } from '../../../lib/oci/registry.fixture.ts';
import { type AnyKubewardenPolicy, policyServerType } from '../api.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import { podRequest } from '../engine/wasm/policies.fixture.ts';
import { ModulesByTerms } from '../modules/lazy-modules.ts';
import { openModules } from '../modules/open-modules.ts';
import { signAs } from '../../../lib/oci/signatures/signing.fixture.ts';
import { SigstoreFixture } from '../../../lib/oci/signatures/sigstore.fixture.ts';
import { policyAudit } from '../guard.ts';
import { parseSources } from '../modules/sources.ts';
import { AskedCluster } from './asked-cluster.ts';
import { OpenPolicy } from './open-policy.ts';
import { readKubewardenPolicy } from './read-policy.ts';
import { runtimesOf } from './runtimes.ts';

const system = 'rampart-system';
const logger = createLogger({ level: 'silent' });
const { signal } = new AbortController();
const lookup = readFileSync(join(import.meta.dirname, '../../../test/policies/lookup.wapc.wasm'));

suite('policies of a PolicyServer', () => {
  test('its pull secret is for their modules and images, its capabilities are for those of namespaces', async () => {
    await using api = new TestApi(await startTestApi({ name: 'runtimes', memory: true }));
    await api.createDefinitions(policyAudit.resources);
    await api.createNamespace(system);
    await using registry = await RegistryFixture.start({ password: true });
    const { reference, digest } = await registry.pushWasm('policies/lookup', 'v1', lookup);
    const directory = mkdtempSync(join(tmpdir(), 'rampart-runtimes-'));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const sources = parseSources({ insecure_sources: [registry.host] }, 'test');
    const modules = stack.use(await openModules({ cacheDirectory: directory, sources, logger }));
    const { client } = api;
    const asked = new AskedCluster(new KubeClusterReader(client));
    const runtimes = runtimesOf({ modules: () => modules, client, logger, asked });
    const policyOf = (kind: string, policyServer: string) =>
      readKubewardenPolicy({
        apiVersion: 'policies.kubewarden.io/v1',
        kind,
        metadata: { name: 'lookup', ...(kind === 'AdmissionPolicy' && { namespace: 'shop' }) },
        spec: {
          ...{ module: reference, policyServer, mode: 'protect', mutating: false, backgroundAudit: true },
          ...{ timeoutSeconds: 30, rules: [] },
          settings: { calls: [{ namespace: 'oci', operation: 'v1/manifest_digest', payload: reference }] },
        },
      } as unknown as AnyKubewardenPolicy);
    const answer = async (kind: string, policyServer: string): Promise<string> => {
      await using policy = await OpenPolicy.open(policyOf(kind, policyServer), runtimes, signal);
      const judgement = await policy.ask(podRequest());
      return (judgement.type === 'verdict' && judgement.verdict.message) || JSON.stringify(judgement);
    };

    await assert.rejects(
      answer('ClusterAdmissionPolicy', 'default'),
      /it requires a username and a password/,
    );
    await client.create(policyServerType, {
      metadata: { name: 'default' },
      spec: {
        ...{ image: 'registry.example/policy-server:v1', replicas: 1, imagePullSecret: 'pull' },
        namespacedPoliciesCapabilities: ['net/*'],
      },
    });
    await assert.rejects(
      answer('ClusterAdmissionPolicy', 'default'),
      /PolicyServer default cannot be used: its imagePullSecret pull is not in the namespace rampart-system/,
    );
    const auth = Buffer.from(`${registryUser.username}:${registryUser.password}`).toString('base64');
    const config = JSON.stringify({ auths: { [registry.host]: { auth } } });
    await client.create(secrets, {
      metadata: { name: 'pull', namespace: system },
      type: 'kubernetes.io/dockerconfigjson',
      data: { '.dockerconfigjson': Buffer.from(config).toString('base64') },
    });
    assert.equal(await answer('ClusterAdmissionPolicy', 'default'), JSON.stringify({ digest }));
    assert.match(await answer('AdmissionPolicy', 'default'), /^error: /);
    assert.doesNotMatch(await answer('AdmissionPolicy', 'default'), /sha256/);
    // A policy of another server, which has no settings.
    await assert.rejects(answer('ClusterAdmissionPolicy', 'other'), /it requires a username and a password/);
  });

  test('its sources and what it asks of signatures are for their modules, and for those of no other', async () => {
    await using api = new TestApi(await startTestApi({ name: 'runtimes', memory: true }));
    await api.createDefinitions(policyAudit.resources);
    await api.createNamespace(system);
    await using registry = await RegistryFixture.start({ tls: true });
    const pushed = await registry.pushWasm('policies/lookup', 'v1', lookup);
    const { reference } = pushed;
    const directory = mkdtempSync(join(tmpdir(), 'rampart-runtimes-'));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const modules = stack.use(
      new ModulesByTerms((terms, part) =>
        openModules({ cacheDirectory: join(directory, part), ...terms, logger }),
      ),
    );
    const { client } = api;
    const asked = new AskedCluster(new KubeClusterReader(client));
    const runtimes = runtimesOf({ modules: (terms) => modules.of(terms), client, logger, asked });
    const open = async (policyServer: string): Promise<void> => {
      const spec = { module: reference, policyServer, mode: 'protect', mutating: false, rules: [] };
      const policy = readKubewardenPolicy({
        apiVersion: 'policies.kubewarden.io/v1',
        kind: 'ClusterAdmissionPolicy',
        metadata: { name: 'lookup' },
        spec: { ...spec, timeoutSeconds: 30, backgroundAudit: true, settings: { calls: [] } },
      } as unknown as AnyKubewardenPolicy);
      await using _policy = await OpenPolicy.open(policy, runtimes, signal);
    };
    const server = async (name: string, more: object): Promise<unknown> =>
      client.create(policyServerType, {
        metadata: { name },
        spec: { image: 'registry.example/policy-server:v1', replicas: 1, ...more },
      });

    await server('trusting', { sourceAuthorities: { [registry.host]: [registry.authority] } });
    await open('trusting');
    await server('careless', { insecureSources: [registry.host] });
    await open('careless');
    await server('careful', {});
    await assert.rejects(open('careful'), /certificate/);
    await server('broken', { sourceAuthorities: { [registry.host]: ['no PEM'] } });
    await assert.rejects(open('broken'), /the PolicyServer broken cannot be used: an authority of/);

    await server('strict', { insecureSources: [registry.host], verificationConfig: 'signatures' });
    await assert.rejects(open('strict'), /its verificationConfig signatures is not in the namespace/);
    const key = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      .publicKey.export({ type: 'spki', format: 'pem' })
      .toString();
    const config = JSON.stringify({ apiVersion: 'v1', allOf: [{ kind: 'pubKey', key }] });
    await client.create(configMaps, {
      metadata: { name: 'signatures', namespace: system },
      data: { 'verification-config': config },
    });
    await assert.rejects(open('strict'), /it has no signatures/);

    const sigstore = new SigstoreFixture();
    const keyless = {
      insecureSources: [registry.host],
      verificationConfig: 'signers',
      sigstoreTrustConfig: 'trust',
    };
    await signAs(registry, pushed, 'policies/lookup', [{ by: (payload) => sigstore.sign(payload) }]);
    await client.create(configMaps, {
      metadata: { name: 'signers', namespace: system },
      data: {
        'verification-config': `apiVersion: v1
allOf: [{kind: genericIssuer, issuer: "https://issuer.example", subject: {equal: dev@team.example}}]`,
      },
    });
    await server('rootless', { ...keyless, sigstoreTrustConfig: undefined });
    await assert.rejects(open('rootless'), /requires a trust root/);
    await server('rooted', keyless);
    await assert.rejects(open('rooted'), /its sigstoreTrustConfig trust is not in the namespace/);
    await client.create(configMaps, {
      metadata: { name: 'trust', namespace: system },
      data: { 'sigstore-trust-config': JSON.stringify(sigstore.trustRoot) },
    });
    await open('rooted');
    await client.create(configMaps, {
      metadata: { name: 'other-trust', namespace: system },
      data: { 'sigstore-trust-config': JSON.stringify(new SigstoreFixture().trustRoot) },
    });
    await server('misled', { ...keyless, sigstoreTrustConfig: 'other-trust' });
    await assert.rejects(
      open('misled'),
      /of the trust root sigstore-trust-config of the ConfigMap other-trust/,
    );
  });
});
