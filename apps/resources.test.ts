import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';

import { parse } from 'yaml';

import { expectedManifests } from '../scripts/crds.ts';
import { guardResources, namesOf } from './resources.ts';

test('the custom resources of every guard are installed', async () => {
  const manifests = [...(await expectedManifests(dirname(import.meta.dirname))).values()];
  const names = manifests.map((text) => (parse(text) as { metadata: { name: string } }).metadata.name);
  assert.deepEqual(new Set(names), namesOf(guardResources));
});
