import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';

import { parse } from 'yaml';

import { expectedManifests } from '../scripts/crds.ts';
import { guards } from './guards.ts';
import { installedResourceNames } from './resources.ts';

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
