/** Calls of the host by policies that run, against an API server. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { pino } from 'pino';

import { startTestApi, TestApi } from '../../../../lib/apiserver/test-api.fixture.ts';
import { configMaps } from '../../../../lib/kube/object/object.ts';
import { errorCodes, messageOf, RampartError } from '../../../../lib/errors/errors.ts';
import { ExchangeError } from '../../../../lib/oci/exchange.ts';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import type { JsonObject, Verdict } from '../evaluator.ts';
import { openPolicy, podRequest } from '../wasm/policies.fixture.ts';
import { PolicyPool } from '../wasm/pool.ts';
import { capabilities, everyCapability, HostCapabilities } from './capabilities.ts';
import { signer } from './certificates.fixture.ts';
import { policyHostCalls, type PolicyHostCallsOptions } from './host-calls.ts';
import type { ImageSource } from './images.ts';
import { KubeClusterReader } from './kube-reader.ts';

const pool = new PolicyPool({ threads: 1 });
let api: TestApi;

suite('calls of the host', () => {
  before(async () => {
    api = new TestApi(await startTestApi({ name: 'host-calls', memory: true }));
    await api.createNamespace('shop');
    for (const [name, app] of [
      ['one', 'web'],
      ['two', 'db'],
    ] as const) {
      const metadata = { name, namespace: 'shop', labels: { app } };
      await api.client.create(configMaps, { metadata, data: { app } });
    }
  });
  after(async () => {
    await pool[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
  });

  const namespaceKind = { apiVersion: 'v1', kind: 'Namespace' };
  const configMapKind = { apiVersion: 'v1', kind: 'ConfigMap' };
  const ofConfigMaps = { api_version: 'v1', kind: 'ConfigMap' };

  interface Call {
    readonly namespace: string;
    readonly operation: string;
    readonly payload: unknown;
  }

  /** The answer to a policy, and the requests listed in its verdict. */
  async function asking(
    calls: readonly Call[],
    options: Partial<PolicyHostCallsOptions> = {},
    runtime: 'wapc' | 'wasi' = 'wapc',
  ): Promise<Verdict> {
    const hostCalls = policyHostCalls({
      policy: 'clusterwide-lookup',
      capabilities: everyCapability,
      resources: [namespaceKind, configMapKind],
      logger: createLogger({ level: 'silent' }),
      cluster: new KubeClusterReader(api.client),
      ...options,
    });
    await using policy = await openPolicy('lookup', runtime, { calls }, { pool, hostCalls });
    return await policy.evaluate(podRequest(), { deadlineMs: 60_000 });
  }

  const kubernetes = (operation: string, payload: JsonObject): Call => ({
    namespace: 'kubernetes',
    operation,
    payload,
  });

  for (const runtime of ['wapc', 'wasi'] as const) {
    suite(`host calls of ${runtime}`, () => {
      test('an object that is there', async () => {
        const get = kubernetes('get_resource', {
          ...ofConfigMaps,
          name: 'one',
          namespace: 'shop',
          disable_cache: true,
          field_masks: ['apiVersion', 'metadata.name', 'data'],
        });
        const { allowed, message = '', asked } = await asking([get], {}, runtime);
        assert.equal(allowed, true, message);
        assert.deepEqual(JSON.parse(message), {
          apiVersion: 'v1',
          metadata: { name: 'one' },
          data: { app: 'web' },
        });
        assert.deepEqual(asked, [{ ...configMapKind, namespace: 'shop', name: 'one' }]);
      });

      test('a call without a grant is denied in the words of upstream', async () => {
        const get = kubernetes('get_resource', {
          ...ofConfigMaps,
          kind: 'Secret',
          name: 'a',
          namespace: 'shop',
        });
        const { allowed, message } = await asking([get], {}, runtime);
        assert.equal(allowed, false);
        assert.equal(
          message,
          'error: Policy has not been granted access to Kubernetes v1/Secret resources. The violation has been reported.',
        );
      });
    });
  }

  test('an object that is not there, and one without its namespace', async () => {
    const missing = await asking([
      kubernetes('get_resource', { ...ofConfigMaps, name: 'none', namespace: 'shop' }),
      kubernetes('get_resource', { api_version: 'v1', kind: 'Namespace', name: 'none', namespace: null }),
      kubernetes('get_resource', { ...ofConfigMaps, name: 'one' }),
    ]);
    assert.deepEqual(missing.message?.split(' | '), [
      `error: Callback evaluation failure: Cannot find v1/ConfigMap named 'none' inside of namespace 'Some("shop")'`,
      `error: Callback evaluation failure: Cannot find v1/Namespace named 'none' inside of namespace 'None'`,
      'error: Callback evaluation failure: Resource v1/ConfigMap is namespaced, but no namespace was provided',
    ]);
    assert.deepEqual(missing.asked, [
      { ...configMapKind, namespace: 'shop', name: 'none' },
      { ...namespaceKind, name: 'none' },
      { ...configMapKind, name: 'one' },
    ]);
  });

  test('lists: of a namespace, of all, by labels, and in what is of no namespace', async () => {
    const names = { field_masks: ['metadata.name'] };
    const { message = '', asked } = await asking([
      kubernetes('list_resources_by_namespace', {
        ...ofConfigMaps,
        ...names,
        namespace: 'shop',
        label_selector: 'app=db',
      }),
      kubernetes('list_resources_all', {
        ...ofConfigMaps,
        ...names,
        field_selector: 'metadata.namespace=shop',
      }),
      kubernetes('list_resources_by_namespace', { api_version: 'v1', kind: 'Namespace', namespace: 'shop' }),
    ]);
    const [byLabel = '', all = '', wrong] = message.split(' | ');
    const listOf = (...found: string[]) => ({
      apiVersion: 'v1',
      kind: 'ConfigMapList',
      metadata: {},
      items: found.map((name) => ({ metadata: { name } })),
    });
    assert.deepEqual(JSON.parse(byLabel), listOf('two'));
    assert.deepEqual(JSON.parse(all), listOf('one', 'two'));
    assert.equal(
      wrong,
      'error: Callback evaluation failure: resource v1/Namespace is cluster wide. Cannot search for it inside of a namespace',
    );
    assert.deepEqual(asked, [
      { ...configMapKind, namespace: 'shop' },
      configMapKind,
      { ...namespaceKind, namespace: 'shop' },
    ]);
  });

  test('a policy of a namespace may what its policy server grants', async () => {
    const calls = [
      { namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'web.example' },
      { namespace: 'crypto', operation: 'v1/is_certificate_trusted', payload: {} },
      kubernetes('get_resource', { ...ofConfigMaps, name: 'one', namespace: 'shop' }),
    ];
    const { message } = await asking(calls, {
      capabilities: new HostCapabilities(['net/*', 'kubernetes/*']),
      resources: [],
      lookupHost: (host) => Promise.resolve([`of ${host}`]),
    });
    assert.deepEqual(message?.split(' | '), [
      '{"ips":["of web.example"]}',
      "error: Policy has not been granted access to the 'crypto/v1/is_certificate_trusted' host capability. The violation has been reported.",
      'error: Policy has not been granted access to Kubernetes v1/ConfigMap resources. The violation has been reported.',
    ]);
  });

  for (const [namespace, operations] of Object.entries(capabilities)) {
    for (const operation of operations) {
      test(`${namespace}/${operation} is denied in the words of upstream where it is not granted`, async () => {
        const others = Object.keys(capabilities).filter((one) => one !== namespace);
        const { allowed, message } = await asking([{ namespace, operation, payload: {} }], {
          capabilities: new HostCapabilities(others.map((one) => `${one}/*`)),
        });
        assert.equal(allowed, false);
        assert.equal(
          message,
          `error: Policy has not been granted access to the '${namespace}/${operation}' host capability. The violation has been reported.`,
        );
      });
    }
  }

  test('certificates, names and images', async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    const cert = { encoding: 'Pem', data: [...Buffer.from(signer)] };
    const image = 'registry.example/web:1';
    const { message } = await asking(
      [
        { namespace: 'crypto', operation: 'v1/is_certificate_trusted', payload: { cert, cert_chain: [] } },
        { namespace: 'net', operation: 'v1/dns_lookup_host', payload: 'localhost' },
        { namespace: 'oci', operation: 'v1/manifest_digest', payload: image },
        { namespace: 'oci', operation: 'v1/oci_manifest', payload: image },
        { namespace: 'oci', operation: 'v1/oci_manifest_config', payload: image },
        {
          namespace: 'oci',
          operation: 'v2/verify',
          payload: { type: 'SigstorePubKeyVerify', image, pub_keys: [] },
        },
      ],
      {
        images: {
          digest: (asked) => Promise.resolve(asked === image ? digest : ''),
          manifest: () => Promise.resolve({ schemaVersion: 2 }),
          manifestAndConfig: () => Promise.resolve({ manifest: {}, digest, config: { os: 'linux' } }),
        },
      },
    );
    const [certificate, host = '', ...oci] = message?.split(' | ') ?? [];
    assert.equal(certificate, '{"trusted":false,"reason":"Certificate not trusted: UnknownIssuer"}');
    assert.match(host, /^\{"ips":\[.*"(?:127\.0\.0\.1|::1)".*\]\}$/);
    assert.deepEqual(oci, [
      `{"digest":"${digest}"}`,
      '{"schemaVersion":2}',
      `{"manifest":{},"digest":"${digest}","config":{"os":"linux"}}`,
      'error: Callback evaluation failure: image signatures cannot be verified',
    ]);
  });

  test('calls that are not known, and payloads that are not understood', async () => {
    const { message } = await asking(
      [
        { namespace: 'oci', operation: 'v9/verify', payload: 1 },
        { namespace: 'files', operation: 'read', payload: 1 },
        { namespace: 'tracing', operation: 'metrics', payload: 1 },
        { namespace: 'cache', operation: 'get', payload: 1 },
        { namespace: 'toString', operation: 'call', payload: 1 },
        { namespace: 'kubernetes', operation: 'get_resource', payload: 1 },
        kubernetes('get_resource', { api_version: 'v1' }),
        kubernetes('list_resources_all', { api_version: 'none.example/v1', kind: 'ConfigMap' }),
      ],
      { resources: [{ apiVersion: 'none.example/v1', kind: 'ConfigMap' }] },
    );
    assert.deepEqual(message?.split(' | '), [
      'error: unknown operation: v9/verify',
      'error: unknown namespace: files',
      'error: unknown operation: metrics',
      'error: unknown operation: get',
      'error: unknown namespace: toString',
      'error: Callback evaluation failure: the payload is malformed: an object is required',
      'error: Callback evaluation failure: the payload is malformed: kind must be a string',
      'error: Callback evaluation failure: Cannot find resource none.example/v1/ConfigMap',
    ]);
  });

  test('a policy logs; what it was refused is logged once', async () => {
    const lines: string[] = [];
    const formatters = { level: (level: string) => ({ level }) };
    const logger = pino(
      { level: 'trace', base: null, formatters },
      { write: (line: string) => void lines.push(line) },
    );
    const log = {
      namespace: 'tracing',
      operation: 'log',
      payload: { level: 'Warning', message: 'mind', extra: 1 },
    };
    const secret = kubernetes('get_resource', { api_version: 'v1', kind: 'Secret', name: 'a' });
    const { allowed } = await asking([log, secret, secret, log], { logger, capabilities: everyCapability });
    assert.equal(allowed, false);
    const said = lines.map((line) => JSON.parse(line) as JsonObject);
    assert.deepEqual(
      said.map(({ level, msg, policy, data }) => ({ level, msg, policy, data })),
      [
        { level: 'warn', msg: 'mind', policy: 'clusterwide-lookup', data: { extra: 1 } },
        {
          level: 'warn',
          msg: 'the policy requested a Kubernetes resource v1/Secret without permission',
          policy: 'clusterwide-lookup',
          data: undefined,
        },
        { level: 'warn', msg: 'mind', policy: 'clusterwide-lookup', data: { extra: 1 } },
      ],
    );
  });

  test('the services of a host that a namespaced policy names are in the log, and not in the answer', async () => {
    const cause = new ExchangeError(new Error('connect ECONNREFUSED 10.0.0.7:5432'), '10.0.0.7:5432');
    const away = new RampartError(errorCodes.API_UNREACHABLE, { what: cause.message, cause });
    const lines: string[] = [];
    const ask = async (isTenant: boolean): Promise<string> => {
      const { call } = policyHostCalls({
        ...{ policy: 'p', capabilities: everyCapability, resources: [], isTenant },
        logger: pino({ level: 'warn' }, { write: (line) => void lines.push(line) }),
        images: { digest: () => Promise.reject(away) } as unknown as ImageSource,
      });
      const operation = { binding: 'kubewarden', namespace: 'oci', operation: 'v1/manifest_digest' };
      return call(operation, Buffer.from('"10.0.0.7:5432/a:v1"')).then(String, messageOf);
    };
    assert.match(await ask(false), /ECONNREFUSED/);
    assert.deepEqual(lines, []);
    assert.match(
      await ask(true),
      /^Callback evaluation failure: cannot fetch from 10\.0\.0\.7:5432: there is no/,
    );
    assert.match(lines.join(''), /ECONNREFUSED/);
  });
});
