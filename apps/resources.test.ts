import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';

import { parse } from 'yaml';

import { expectedManifests } from '../scripts/crds.ts';
import { guards } from './guards.ts';
import { startTestApi, TestApi } from '../lib/apiserver/test-api.fixture.ts';
import { bpfApplicationOf, type ParentObject } from '../guards/bpf-programs/api.ts';
import { bpfPrograms } from '../guards/bpf-programs/guard.ts';
import { installedResourceNames, installResources } from './resources.ts';

test('the custom resources of every guard are installed', async () => {
  const manifests = [...(await expectedManifests(dirname(import.meta.dirname))).values()];
  const names = manifests.map((text) => (parse(text) as { metadata: { name: string } }).metadata.name);
  const reports = [
    'policyreports.wgpolicyk8s.io',
    'clusterpolicyreports.wgpolicyk8s.io',
    'reports.openreports.io',
    'clusterreports.openreports.io',
  ];
  assert.deepEqual(new Set([...names, ...reports]), installedResourceNames(guards));
});

test('of resources with one name, the one with objects or the chosen one is installed; none with objects is deleted', async () => {
  await using api = new TestApi(await startTestApi({ name: 'variants', memory: true }));
  const { client } = api;
  const signal = AbortSignal.timeout(60_000);
  const install = (bpfmanApi?: string): Promise<void> =>
    installResources(client, [bpfPrograms], signal, { bpfmanApi });
  const { type } = bpfApplicationOf['v0.5'];
  const bytecode = { path: '/x.o' };
  const tracepoint = { bpffunctionname: 'f', names: ['a/b'] };
  const object = {
    metadata: { name: 'old' },
    spec: { nodeselector: {}, bytecode, programs: [{ type: 'Tracepoint', tracepoint }] },
  } as unknown as ParentObject;

  await install();
  await assert.rejects(client.create(type, object), /BadRequest|NotFound|namespace|404|400/);
  await install('v0.5');
  await client.create(type, object);
  await install();
  assert.equal((await client.get(type, { name: 'old' })).metadata.name, 'old');
  await assert.rejects(
    install('v0.6'),
    /cannot serve BpfApplication of v0\.6.*there are 1 of v0\.5.*Use --bpfman-api v0\.5, delete them/s,
  );
  await client.delete(type, { name: 'old' });
  await install();
  await assert.rejects(client.create(type, object));
});
