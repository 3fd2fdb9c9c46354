// How CustomResourceDefinitions are served, through the real store and the real verbs.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { kinds, refusal, startServer, type TestServer } from '../upkeep/server.fixture.ts';
import { crd, cronTab, cronTabSchema, version } from './crds.fixture.ts';

const name = 'crontabs.stable.example.com';

type Conditions = Record<string, { status: string; reason: string; message: string }>;

async function statusOf(server: TestServer, crdName = name) {
  const object = await server.get(kinds.crds, crdName);
  const status = object?.['status'] as JsonObject & { conditions: (JsonObject & { type: string })[] };
  const conditions = Object.fromEntries(
    status.conditions.map(({ type, status: value, reason, message }) => [
      type,
      { status: value, reason, message },
    ]),
  ) as Conditions;
  return { acceptedNames: status['acceptedNames'], storedVersions: status['storedVersions'], conditions };
}

function settled(server: TestServer, crdName = name) {
  return server.until(`${crdName} has conditions`, async () => {
    const status = await statusOf(server, crdName);
    return status.conditions['Established'] === undefined ? undefined : status;
  });
}

suite('CustomResources', { timeout: 300_000 }, () => {
  test('a definition is established, its names accepted, and its kind served', async () => {
    await using server = await startServer();
    const created = await server.create(kinds.crds, crd([version('v1')], { names: { shortNames: ['ct'] } }));
    assert.deepEqual(created.object['status'], {
      acceptedNames: { kind: '', plural: '' },
      conditions: [],
      storedVersions: ['v1'],
    });
    const spec = created.object['spec'] as { names: unknown; conversion: unknown };
    assert.deepEqual(spec.names, {
      plural: 'crontabs',
      kind: 'CronTab',
      shortNames: ['ct'],
      singular: 'crontab',
      listKind: 'CronTabList',
    });
    assert.deepEqual(spec.conversion, { strategy: 'None' });
    const status = await settled(server);
    assert.deepEqual(status.conditions, {
      NamesAccepted: { status: 'True', reason: 'NoConflicts', message: 'no conflicts found' },
      Established: {
        status: 'True',
        reason: 'InitialNamesAccepted',
        message: 'the initial names have been accepted',
      },
    });
    assert.deepEqual(status.acceptedNames, spec.names);
    const resource = server.registry.find('stable.example.com', 'v1', 'crontabs');
    assert.ok(resource !== undefined);
    const tab = await server.create(resource, cronTab('a', { cronSpec: '*', unknown: 1 }));
    assert.deepEqual(tab.object['spec'], { cronSpec: '*', image: 'busybox' });
    assert.equal((tab.object['metadata'] as JsonObject)['generation'], 1);
  });

  test('objects and what is served of them outlive a restart', async () => {
    using directory = new TemporaryDirectory();
    const store = { path: directory.at('api.db') };
    {
      await using server = await startServer({ store });
      const resource = await server.define(crd());
      await settled(server);
      await server.create(resource, cronTab('a', { cronSpec: '*' }));
    }
    await using server = await startServer({ store });
    const resource = server.registry.findStored(name);
    assert.ok(resource !== undefined, 'served as soon as the server has started');
    const item = await server.get(resource, 'a');
    assert.deepEqual(item?.['spec'], { cronSpec: '*', image: 'busybox' });
  });

  test('a name in use is not given twice, and is given when it is free', async () => {
    await using server = await startServer();
    await server.define(crd([version('v1')], { names: { shortNames: ['x'] } }));
    await settled(server);
    const other = crd([version('v1')], { plural: 'others', names: { shortNames: ['x'], kind: 'CronTab' } });
    await server.create(kinds.crds, other);
    const otherName = 'others.stable.example.com';
    const status = await settled(server, otherName);
    assert.deepEqual(status.conditions, {
      NamesAccepted: {
        status: 'False',
        reason: 'ListKindConflict',
        message: '"CronTabList" is already in use',
      },
      Established: { status: 'False', reason: 'NotAccepted', message: 'not all names are accepted' },
    });
    assert.equal((status.acceptedNames as JsonObject)['plural'], 'others');
    assert.equal(server.registry.findStored(otherName), undefined);
    await server.delete(kinds.crds, name);
    await server.until('the other one is served', () => server.registry.findStored(otherName));
    assert.equal(server.registry.findStored(name), undefined);
  });

  test('names of built-in kinds are taken', async () => {
    await using server = await startServer();
    const taken = crd([version('v1')], {
      group: 'apiextensions.k8s.io',
      plural: 'customresourcedefinitions',
      kind: 'Other',
      metadata: { annotations: { 'api-approved.kubernetes.io': 'unapproved, a test' } },
    });
    await server.create(kinds.crds, taken);
    const status = await settled(server, 'customresourcedefinitions.apiextensions.k8s.io');
    assert.equal(status.conditions['NamesAccepted']?.reason, 'PluralConflict');
    assert.deepEqual(status.conditions['KubernetesAPIApprovalPolicyConformant'], {
      status: 'False',
      reason: 'UnapprovedAnnotation',
      message: 'not approved: "unapproved, a test"',
    });
  });

  test('with a changed schema, older objects are shown defaulted and pruned, newer ones unchanged', async () => {
    using directory = new TemporaryDirectory();
    const store = { path: directory.at('api.db') };
    const properties = cronTabSchema['properties'] as JsonObject;
    const changed = {
      ...cronTabSchema,
      properties: {
        ...properties,
        spec: {
          type: 'object',
          properties: { cronSpec: { type: 'string' }, zone: { type: 'string', default: 'UTC' } },
        },
      },
    };
    {
      await using server = await startServer({ store });
      const resource = await server.define(crd());
      const { stored } = await server.create(resource, cronTab('old', { cronSpec: '*' }));
      assert.ok(
        stored !== undefined && resource.codec?.showsAsStored?.(stored),
        'no decoding with one schema',
      );
      const patch = { spec: { versions: [version('v1', changed)] } };
      await server.calls.patch(kinds.crds, { namespace: '', name }, patch, server.signal);
      const present = await server.until('the new schema is served', () => {
        const now = server.registry.findStored(name);
        return now === resource ? undefined : now;
      });
      assert.deepEqual((await server.get(present, 'old'))?.['spec'], { cronSpec: '*', zone: 'UTC' });
      // A holder of the previous resource writes what is stored now.
      await server.create(resource, cronTab('late', { cronSpec: '+' }));
      assert.deepEqual(JSON.parse(server.store.get(name, 'default', 'late')?.text ?? '').spec, {
        cronSpec: '+',
        zone: 'UTC',
      });
      await server.until('what is written now is sent as it is', async () => {
        const { stored: written } = await server.create(present, {
          ...cronTab('new', { cronSpec: '-' }),
          metadata: { generateName: 'new-' },
        });
        return written !== undefined && present.codec?.showsAsStored?.(written);
      });
    }
    await using server = await startServer({ store });
    const resource = server.registry.findStored(name);
    assert.ok(resource !== undefined);
    const [old, young] = [
      server.store.get(name, 'default', 'old'),
      server.store
        .list(name)
        .items.filter((item) => item.name.startsWith('new-'))
        .at(-1),
    ];
    assert.ok(old !== undefined && young !== undefined);
    assert.equal(resource.codec?.showsAsStored?.(old), false);
    const latest = server.store
      .list(name)
      .items.toSorted((a, b) => Number(a.resourceVersion - b.resourceVersion))
      .at(-1);
    assert.ok(latest !== undefined && resource.codec?.showsAsStored?.(latest), 'known over a restart');
    assert.deepEqual((await server.get(resource, 'old'))?.['spec'], { cronSpec: '*', zone: 'UTC' });
  });

  test('several versions show one object, each in its own words', async () => {
    await using server = await startServer();
    const narrow = {
      type: 'object',
      properties: { spec: { type: 'object', properties: { cronSpec: { type: 'string' } } } },
    };
    await server.define(crd([version('v1beta1', narrow, { storage: false }), version('v1')]));
    const v1 = server.registry.find('stable.example.com', 'v1', 'crontabs');
    const beta = server.registry.find('stable.example.com', 'v1beta1', 'crontabs');
    assert.ok(v1 !== undefined && beta !== undefined);
    assert.equal(server.registry.findStored(name), v1);
    await server.create(beta, cronTab('a', { cronSpec: '*', image: 'x' }, {}, 'v1beta1'));
    assert.deepEqual(
      JSON.parse(server.store.get(name, 'default', 'a')?.text ?? '').apiVersion,
      'stable.example.com/v1',
    );
    const [asV1, asBeta] = [await server.get(v1, 'a'), await server.get(beta, 'a')];
    assert.equal(asV1?.['apiVersion'], 'stable.example.com/v1');
    assert.deepEqual(asV1?.['spec'], { cronSpec: '*', image: 'busybox' });
    assert.equal(asBeta?.['apiVersion'], 'stable.example.com/v1beta1');
    assert.deepEqual(asBeta?.['spec'], { cronSpec: '*' });
  });

  test('a version that is no longer served is gone; the status keeps the stored versions', async () => {
    await using server = await startServer();
    await server.define(crd([version('v1beta1', cronTabSchema)]));
    await settled(server);
    const versions = [version('v1beta1', cronTabSchema, { storage: false, served: false }), version('v1')];
    await server.calls.patch(kinds.crds, { namespace: '', name }, { spec: { versions } }, server.signal);
    await server.until('v1 is served', () => server.registry.find('stable.example.com', 'v1', 'crontabs'));
    assert.equal(server.registry.find('stable.example.com', 'v1beta1', 'crontabs'), undefined);
    assert.deepEqual((await statusOf(server)).storedVersions, ['v1beta1', 'v1']);
    const drop = { spec: { versions: [version('v1')] } };
    const status = await refusal(
      server.calls.patch(kinds.crds, { namespace: '', name }, drop, server.signal),
    );
    assert.match(
      status.message,
      /status\.storedVersions\[0\]: Invalid value: "v1beta1": missing from spec\.versions; v1beta1 was previously a storage/,
    );
  });

  test('a definition that is deleted takes its objects with it, and waits for their finalizers', async () => {
    await using server = await startServer();
    const resource = await server.define(crd());
    await server.create(resource, cronTab('free'));
    await server.create(resource, cronTab('held', {}, { finalizers: ['example.com/hold'] }));
    await server.delete(kinds.crds, name);
    const status = await server.until('it waits', async () => {
      const now = await statusOf(server);
      return now.conditions['Terminating']?.reason === 'InstanceDeletionInProgress' && now;
    });
    assert.equal(status.conditions['Terminating']?.message, 'CustomResource deletion is in progress');
    assert.equal(await server.get(resource, 'free'), undefined);
    const terminating = server.registry.findStored(name);
    assert.ok(terminating !== undefined);
    assert.equal((await refusal(server.create(terminating, cronTab('new')))).code, 405);
    const place = { namespace: 'default', name: 'held' };
    await server.calls.patch(terminating, place, { metadata: { finalizers: null } }, server.signal);
    await server.until(
      'the definition is gone',
      async () => (await server.get(kinds.crds, name)) === undefined,
    );
    await server.until('it is not served', () => server.registry.findStored(name) === undefined);
    await server.until(
      'nothing of it is remembered',
      () => server.store.list('storedforms.apiextensions.rampart').items.length === 0,
    );
    const again = await server.define(crd());
    assert.deepEqual(server.store.list(again.storeName).items, []);
  });

  test('a deletion goes on after a restart', async () => {
    using directory = new TemporaryDirectory();
    const store = { path: directory.at('api.db') };
    const finalizers = ['example.com/hold'];
    {
      await using server = await startServer({ store });
      const resource = await server.define(crd());
      await settled(server);
      await server.create(resource, cronTab('held', {}, { finalizers }));
      await server.delete(kinds.crds, name);
    }
    await using server = await startServer({ store });
    const resource = server.registry.findStored(name);
    assert.ok(resource !== undefined, 'still served');
    assert.equal((await refusal(server.create(resource, cronTab('new')))).code, 405);
    await server.until('the object is being deleted', async () => {
      const { metadata } = (await server.get(resource, 'held')) as { metadata: JsonObject };
      return metadata['deletionTimestamp'];
    });
    const place = { namespace: 'default', name: 'held' };
    await server.calls.patch(resource, place, { metadata: { finalizers: null } }, server.signal);
    await server.until(
      'the definition is gone',
      async () => (await server.get(kinds.crds, name)) === undefined,
    );
  });

  test('each name belongs to one of several definitions; the others get it when it is free', async () => {
    await using server = await startServer();
    const plurals = Array.from({ length: 12 }, (_, index) => `tabs${index}`);
    const define = (plural: string, index: number): Promise<unknown> =>
      server.create(
        kinds.crds,
        crd([version('v1')], { plural, kind: `Tab${index % 4}`, names: { shortNames: [`t${index % 3}`] } }),
      );
    await Promise.all(plurals.map(define));
    let left = plurals;
    for (let round = 0; left.length > 0; round++) {
      const served = await server.until('one of each kind is served', async () => {
        const kept: string[] = [];
        for (const plural of left) {
          const { conditions } = await statusOf(server, `${plural}.stable.example.com`);
          if (conditions['Established'] === undefined) return undefined;
          if (conditions['Established'].status === 'True') kept.push(plural);
        }
        const asked = new Set(left.map((plural) => Number(plural.slice(4)) % 12));
        const free = [...asked].filter((index) =>
          kept.every((plural) => {
            const other = Number(plural.slice(4));
            return other % 4 !== index % 4 && other % 3 !== index % 3;
          }),
        );
        // No definition waits for free names.
        return free.length === 0 && kept;
      });
      const held = served.map((plural) => server.registry.findStored(`${plural}.stable.example.com`));
      const names = held.flatMap((resource) => [resource?.kind, ...(resource?.shortNames ?? [])]);
      assert.equal(new Set(names).size, names.length);
      await Promise.all(served.map((plural) => server.delete(kinds.crds, `${plural}.stable.example.com`)));
      await server.until('they are gone', () =>
        served.every(
          (plural) =>
            server.store.get(kinds.crds.storeName, '', `${plural}.stable.example.com`) === undefined,
        ),
      );
      left = left.filter((plural) => !served.includes(plural));
      assert.ok(round < 12);
    }
  });
});
