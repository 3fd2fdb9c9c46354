import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startTestApi, TestApi } from '../../../../lib/apiserver/test-api.fixture.ts';
import type { KubeClient } from '../../../../lib/kube/client/client.ts';
import { configMaps } from '../../../../lib/kube/object/object.ts';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { aborted } from '../../../../lib/time/abort.ts';
import type { JsonObject, Verdict } from '../evaluator.ts';
import { openPolicy, podRequest } from '../wasm/policies.fixture.ts';
import { PolicyPool } from '../wasm/pool.ts';
import { everyCapability, HostCapabilities } from './capabilities.ts';
import { policyHostCalls } from './host-calls.ts';
import { KubeClusterReader } from './kube-reader.ts';

let api: TestApi;

before(async () => {
  api = new TestApi(await startTestApi({ name: 'kube-reader', memory: true }));
  await api.createNamespace('shop');
  await api.client.create(configMaps, { metadata: { name: 'one', namespace: 'shop' }, data: { app: 'web' } });
});
after(() => api[Symbol.asyncDispose]());

const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
const one = { name: 'one', namespace: 'shop' };

/** The client, and how often it was asked for objects. */
function counting() {
  const asked = { count: 0 };
  const counted = (name: unknown) => name === 'get' || name === 'list' || name === 'create';
  const client = new Proxy(api.client, {
    get(of, name: keyof KubeClient) {
      if (counted(name)) asked.count++;
      const value: unknown = of[name];
      return typeof value === 'function' ? (value as () => unknown).bind(of) : value;
    },
  });
  return { asked, client };
}

test('the same request is sent once in five seconds, unless it has to be fresh', async () => {
  const { asked, client } = counting();
  let nowMs = 0;
  const reader = new KubeClusterReader(client, { monotonicMs: () => nowMs });
  const read = async (options = {}) => (await reader.get(kind, one, options))?.['data'];
  assert.deepEqual(await Promise.all([read(), read(), read()]), [
    { app: 'web' },
    { app: 'web' },
    { app: 'web' },
  ]);
  assert.equal(asked.count, 1);
  nowMs = 4999;
  await read();
  assert.equal(asked.count, 1);
  await read({ fresh: true });
  assert.equal(asked.count, 2);
  nowMs = 12_000;
  await read();
  assert.equal(asked.count, 3);
  await reader.list(kind, { namespace: 'shop' });
  await reader.list(kind, { namespace: 'shop' });
  await reader.list(kind, { namespace: 'shop', labelSelector: 'a=b' });
  assert.equal(asked.count, 5);
});

test('a missing object is an answer too; a failure is not kept', async () => {
  const { asked, client } = counting();
  const reader = new KubeClusterReader(client);
  assert.equal(await reader.get(kind, { ...one, name: 'none' }), undefined);
  assert.equal(await reader.get(kind, { ...one, name: 'none' }), undefined);
  assert.equal(asked.count, 1);
  // There is no such resource in the API server of the tests.
  const spec: JsonObject = { user: 'anna', resourceAttributes: { verb: 'get', resource: 'pods' } };
  await assert.rejects(reader.canI(spec));
  await assert.rejects(reader.canI(spec));
  assert.equal(asked.count, 3);
});

test('no more than 256 answers are kept', async () => {
  const { asked, client } = counting();
  const reader = new KubeClusterReader(client, { monotonicMs: () => 0 });
  const names = Array.from({ length: 257 }, (_, at) => `none-${at}`);
  for (const name of names) await reader.get(kind, { ...one, name });
  await reader.get(kind, { ...one, name: 'none-256' });
  assert.equal(asked.count, 257);
  await reader.get(kind, { ...one, name: 'none-0' });
  assert.equal(asked.count, 258);
});

test('a request ends when no policy waits for it any more', async () => {
  let ended: AbortSignal | undefined;
  const client = new Proxy(api.client, {
    get(of, name: keyof KubeClient) {
      if (name === 'get')
        return (_type: unknown, _target: unknown, { signal }: { signal?: AbortSignal }) => {
          ended = signal;
          return aborted(signal ?? AbortSignal.abort());
        };
      const value: unknown = of[name];
      return typeof value === 'function' ? (value as () => unknown).bind(of) : value;
    },
  });
  const reader = new KubeClusterReader(client);
  // Else each looks it up first.
  await reader.plural(kind);
  const deadlines = [new AbortController(), new AbortController()];
  const reads = deadlines.map(({ signal }) => reader.get(kind, one, { signal }));
  await until('it is asked', () => ended);
  deadlines[0]?.abort(new Error('too late'));
  await assert.rejects(reads[0] ?? Promise.resolve(), { message: 'too late' });
  assert.equal(ended?.aborted, false);
  deadlines[1]?.abort(new Error('too late'));
  await assert.rejects(reads[1] ?? Promise.resolve(), { message: 'too late' });
  assert.equal(ended?.aborted, true);
});

test('creates a SubjectAccessReview, and returns its status', async () => {
  const made: unknown[] = [];
  const reader = new KubeClusterReader({
    create: (type: { plural: string }, object: unknown) => {
      made.push([type.plural, object]);
      return Promise.resolve({ metadata: {}, status: { allowed: true } });
    },
  } as unknown as KubeClient);
  await using pool = new PolicyPool({ threads: 1 });
  const hostCalls = policyHostCalls({
    policy: 'namespaced-shop-can',
    capabilities: new HostCapabilities(['kubernetes/can_i']),
    resources: [],
    logger: createLogger({ level: 'silent' }),
    cluster: reader,
  });
  const subject = {
    user: 'anna',
    groups: ['a'],
    resource_attributes: { verb: 'get', resource: 'pods', name: null },
  };
  const payload = { subject_access_review: subject, disable_cache: false };
  const calls = [{ namespace: 'kubernetes', operation: 'can_i', payload }];
  await using policy = await openPolicy('lookup', 'wapc', { calls }, { pool, hostCalls });
  const { message, asked } = await policy.evaluate(podRequest());
  assert.equal(message, '{"allowed":true}');
  assert.deepEqual(asked, [{ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview' }]);
  const spec = { user: 'anna', groups: ['a'], resourceAttributes: { verb: 'get', resource: 'pods' } };
  assert.deepEqual(made, [['subjectaccessreviews', { metadata: {}, spec }]]);
});

test('policies in Rego see all present objects of the kinds that they were granted', async () => {
  await using pool = new PolicyPool({ threads: 1 });
  const resources = [{ apiVersion: 'v1', kind: 'Namespace' }, kind];
  let nowMs = 0;
  const hostCalls = policyHostCalls({
    policy: 'clusterwide-inventory',
    capabilities: everyCapability,
    resources,
    logger: createLogger({ level: 'silent' }),
    cluster: new KubeClusterReader(api.client, { monotonicMs: () => (nowMs += 10_000) }),
  });
  const shown = async (runtime: 'gatekeeper' | 'opa', show: string): Promise<Verdict> => {
    await using policy = await openPolicy('inventory', runtime, { show }, { pool, hostCalls, resources });
    return await policy.evaluate(podRequest());
  };
  const gatekeeper = 'inventory.namespace.shop.v1.ConfigMap.one.data.app';
  const opa = 'kubernetes.configmaps.shop.one.data.app';
  assert.deepEqual(await shown('gatekeeper', gatekeeper), {
    allowed: false,
    message: 'web',
    asked: resources,
  });
  assert.equal((await shown('gatekeeper', 'inventory.cluster.v1.Namespace.shop.kind')).message, 'Namespace');
  assert.equal((await shown('opa', opa)).message, 'web');
  assert.equal((await shown('opa', 'kubernetes.namespaces.shop.kind')).message, 'Namespace');
  assert.equal((await shown('opa', 'show')).message, 'show', 'settings are data too');

  // One that stays open sees what changes.
  await using policy = await openPolicy(
    'inventory',
    'gatekeeper',
    { show: gatekeeper },
    { pool, hostCalls, resources },
  );
  const message = async () => (await policy.evaluate(podRequest())).message;
  assert.deepEqual([await message(), await message()], ['web', 'web']);
  await api.client.patch(configMaps, one, { type: 'merge', body: { data: { app: 'shop' } } });
  assert.deepEqual([await message(), await message()], ['shop', 'shop']);

  // Kinds without a grant are invisible, and a policy without grants makes no requests.
  await using alone = await openPolicy('inventory', 'opa', { show: 'kubernetes' }, { pool, hostCalls });
  assert.deepEqual(await alone.evaluate(podRequest()), { allowed: false, message: 'nothing' });
  const secrets = [{ apiVersion: 'v1', kind: 'Secret' }];
  await using greedy = await openPolicy(
    'inventory',
    'opa',
    { show: 'a' },
    { pool, hostCalls, resources: secrets },
  );
  await assert.rejects(greedy.evaluate(podRequest()), {
    why: 'answer',
    message: /not been granted|needs all objects/,
  });
});
