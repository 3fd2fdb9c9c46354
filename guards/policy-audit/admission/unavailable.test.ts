// Writes that were refused stay refused when the module of a policy cannot be fetched after a restart, or
// after a change and a restart.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { configMaps, namespaces, type ResourceType } from '../../../lib/kube/object/object.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import {
  admissionPolicyType,
  type AnyKubewardenPolicy,
  clusterAdmissionPolicyGroupType,
  clusterAdmissionPolicyType,
} from '../api.ts';
import type { Modules } from '../modules/modules.ts';
import { policyActive } from '../policies/policy-status.ts';
import { AdmittingApi } from './admitting-api.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const labels = readFileSync(join(import.meta.dirname, '../../../test/policies/labels.wapc.wasm'));
const away: Modules['fetch'] = (url) =>
  Promise.reject(
    new RampartError(errorCodes.API_UNREACHABLE, { what: `cannot fetch ${url}`, why: 'it is away' }),
  );
/** Everything that it has is one module. */
const registry: Modules['fetch'] = () => Promise.resolve({ bytes: labels, digest: digestOf(labels) });

const rules = [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] }];
const spec = {
  ...{ module: 'registry://registry.example/labels:v1', settings: { required: ['team'] }, rules },
  ...{ mutating: false, timeoutSeconds: 10 },
};

suite('a policy in use whose module cannot be had', () => {
  let api: AdmittingApi;
  let directory: TemporaryDirectory;
  before(async () => {
    api = await AdmittingApi.start();
    for (const name of ['shop', 'other']) await api.client.create(namespaces, { metadata: { name } });
  });
  after(() => api[Symbol.asyncDispose]());
  afterEach(async () => {
    await api.restart();
    const types = [clusterAdmissionPolicyType, clusterAdmissionPolicyGroupType, admissionPolicyType];
    for (const type of types as readonly ResourceType[]) {
      for (const { metadata } of (await api.client.list(type)).items) {
        const { name = '', namespace } = metadata;
        await api.client.delete(type, { name, namespace });
      }
    }
    await until(() => api.policies.enforced.length === 0);
    directory?.[Symbol.dispose]();
  });

  const policy = async (name: string, more: object = {}): Promise<void> => {
    await api.client.create(clusterAdmissionPolicyType, {
      metadata: { name },
      spec: { ...spec, ...more },
    } as never);
    await until(`${name} is active`, async () => (await statusOf(name)) === 'active True PolicyActive');
  };
  const statusOf = async (
    name: string,
    type: ResourceType = clusterAdmissionPolicyType,
    namespace?: string,
  ): Promise<string> => {
    const { status } = (await api.client.get(type, { name, namespace })) as AnyKubewardenPolicy;
    const active = findCondition(status?.conditions, policyActive);
    return `${status?.policyStatus} ${active?.status} ${active?.reason}`;
  };
  const messageOf = async (name: string): Promise<string> => {
    const { status } = await api.client.get(clusterAdmissionPolicyType, { name });
    return findCondition(status?.conditions, policyActive)?.message ?? '';
  };
  const create = (name: string, more: object = {}) =>
    api.client.create(configMaps, { metadata: { namespace: 'shop', name, ...more } });
  const allowed = async (name: string, more: object = {}): Promise<void> => {
    await create(name, more);
    await api.client.delete(configMaps, { namespace: 'shop', name });
  };

  test('after a restart, failurePolicy decides, its status does not say active, and later it is evaluated again', async () => {
    await api.restart({ fetch: registry });
    await policy('strict', {
      matchConditions: [{ name: 'a', expression: "object.metadata.name != 'spared'" }],
    });
    await assert.rejects(create('x'), /denied the request: /);
    const clock = new ManualClock();
    let fetch = away;
    await api.restart({ fetch: (url, options) => fetch(url, options), clock });
    await assert.rejects(
      create('x'),
      /failed calling webhook "clusterwide-strict.kubewarden.admission": cannot fetch registry:.*it is away/,
    );
    await allowed('spared');
    await until(async () => (await statusOf('strict')) === 'pending False PolicyUnavailable');
    assert.match(await messageOf('strict'), /it is away\. Requests that it applies to are refused$/);
    // The status that was written is kept in mind by the next process.
    await api.restart({ fetch: (url, options) => fetch(url, options), clock });
    await assert.rejects(create('x'), /failed calling webhook/);
    fetch = registry;
    await until(async () => {
      clock.advanceSync(60_000);
      return (await statusOf('strict')) === 'active True PolicyActive';
    });
    await allowed('x', { labels: { team: 'a' } });
    await assert.rejects(create('x'), /denied the request: /);
  });

  deepTest(
    'Ignore and monitor let through, and say so; a member of a group counts as its group',
    async () => {
      await api.restart({ fetch: registry });
      await policy('lax', { failurePolicy: 'Ignore' });
      await policy('watching', { mode: 'monitor' });
      await api.restart({ fetch: away });
      await allowed('x');
      assert.deepEqual(
        [api.answers('clusterwide-lax').at(-1), api.answers('clusterwide-watching').at(-1)],
        ['CREATE error', 'CREATE error'],
      );
      assert.ok(
        api.lines.some((line) => line.includes('lax could not be evaluated') && line.includes('let through')),
      );
      await until(async () => (await statusOf('watching')) === 'pending False PolicyUnavailable');
      assert.match(await messageOf('watching'), /allowed unchecked$/);
      await api.restart({ fetch: registry });
      await api.client.create(clusterAdmissionPolicyGroupType, {
        metadata: { name: 'both' },
        spec: {
          ...{ rules, expression: 'named() || labelled()', message: 'neither' },
          policies: {
            named: { module: 'cel-policy', settings: { validations: [{ expression: 'false' }] } },
            labelled: { module: spec.module, settings: spec.settings },
          },
        },
      } as never);
      await until(async () => (await statusOf('both', clusterAdmissionPolicyGroupType)).startsWith('active'));
      await api.client.create(admissionPolicyType, {
        metadata: { name: 'own', namespace: 'shop' },
        spec,
      } as never);
      await until(async () => (await statusOf('own', admissionPolicyType, 'shop')).startsWith('active'));
      await api.restart({ fetch: away });
      await assert.rejects(
        create('x'),
        /failed calling webhook "clusterwide-group-both.kubewarden.admission"/,
      );
      await api.client.delete(clusterAdmissionPolicyGroupType, { name: 'both' });
      await assert.rejects(create('x'), /failed calling webhook "namespaced-shop-own.kubewarden.admission"/);
      await api.client.create(configMaps, { metadata: { namespace: 'other', name: 'x' } });
    },
  );

  test('one that was never evaluated refuses nothing, before and after a restart', async () => {
    await api.restart({ fetch: away });
    await api.client.create(clusterAdmissionPolicyType, { metadata: { name: 'new' }, spec } as never);
    await until(async () => (await statusOf('new')) === 'pending False PolicyCannotRun');
    await allowed('x');
    const asked = Promise.withResolvers<never>();
    await api.restart({ fetch: () => asked.promise });
    await allowed('x');
    asked.reject(new Error('stopped'));
  });

  test('while it is being fetched, what it applies to waits for it, and nothing else', async () => {
    await api.restart({ fetch: registry });
    await policy('slow');
    const asked = Promise.withResolvers<void>();
    const clock = new ManualClock();
    await api.restart({ clock, fetch: (url) => asked.promise.then(() => registry(url)) });
    const refused = assert.rejects(create('x'), /denied the request: /);
    await api.client.create(namespaces, { metadata: { name: 'third' } });
    await until(() => api.policies.opening.size > 0);
    clock.advanceSync(5000);
    await until(async () => (await statusOf('slow')) === 'pending False PolicyUnavailable');
    asked.resolve();
    await refused;
  });

  deepTest(
    'changed to one out of reach, its former version is evaluated, also after a restart, until the new one is open',
    async () => {
      directory = new TemporaryDirectory();
      const keptIn = directory.at('kept');
      const blobs = (): string[] => readdirSync(join(keptIn, 'blobs'));
      let mayFetch = /labels:v1/;
      const fetch: Modules['fetch'] = (url, options) => (mayFetch.test(url) ? registry : away)(url, options);
      const clock = new ManualClock();
      await api.restart({ fetch, keptIn, clock });
      await policy('changed');
      const body = {
        spec: { module: 'registry://registry.example/labels:v2', settings: { required: ['owner'] } },
      };
      await api.client.patch(clusterAdmissionPolicyType, { name: 'changed' }, { type: 'merge', body });
      await until(async () => (await statusOf('changed')) === 'active False FormerPolicyActive');
      const refusesAsBefore = async (): Promise<void> => {
        await assert.rejects(create('x', { labels: { owner: 'a' } }), /denied the request: .*team/);
        await allowed('x', { labels: { team: 'a' } });
      };
      await refusesAsBefore();
      mayFetch = /nothing/;
      await api.restart({ fetch, keptIn, clock });
      await refusesAsBefore();
      await until(async () => (await statusOf('changed')) === 'active False FormerPolicyActive');
      assert.equal(blobs().length, 1);
      mayFetch = /labels:v2/;
      await until(async () => {
        clock.advanceSync(60_000);
        return (await statusOf('changed')) === 'active True PolicyActive';
      });
      await assert.rejects(create('x', { labels: { team: 'a' } }), /denied the request: .*owner/);
      // Without it, failurePolicy decides.
      mayFetch = /nothing/;
      await api.stop();
      rmSync(keptIn, { recursive: true });
      await api.restart({ fetch, keptIn, clock });
      await assert.rejects(create('x', { labels: { owner: 'a' } }), /failed calling webhook/);
      await api.client.delete(clusterAdmissionPolicyType, { name: 'changed' });
      await until(() => api.policies.enforced.length === 0);
      await until(() => !existsSync(keptIn) || readdirSync(join(keptIn, 'policies')).length === 0);
    },
  );

  deepTest(
    'a policy that cannot be opened is retried when it is due, not with each write of its status',
    async () => {
      let fetched = 0;
      const clock = new ManualClock();
      const fetch: Modules['fetch'] = (url) => (fetched++, away(url));
      await api.restart({ fetch, clock });
      await api.client.create(clusterAdmissionPolicyType, { metadata: { name: 'retried' }, spec } as never);
      await until(async () => (await statusOf('retried')) === 'pending False PolicyCannotRun');
      const tried: string[] = [];
      using _listening = api.policies.onTried(({ metadata }) => void tried.push(metadata.name ?? ''));
      const body = { status: { policyStatus: 'unscheduled' } };
      const target = { name: 'retried', subresource: 'status' };
      await api.client.patch(clusterAdmissionPolicyType, target, { type: 'merge', body });
      await until(() => tried.length > 1);
      assert.equal(fetched, 1);
      clock.advanceSync(5000);
      await until(() => fetched === 2);
      // A change of what it says is tried at once.
      await api.client.patch(
        clusterAdmissionPolicyType,
        { name: 'retried' },
        { type: 'merge', body: { spec: { settings: { required: ['b'] } } } },
      );
      await until(() => fetched === 3);
    },
  );
});
