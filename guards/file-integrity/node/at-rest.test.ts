// An agent without a FileIntegrity pays for none: nothing of the engine is loaded.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';

/** Files that are loaded with one, by its imports that are not of types alone. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, names = '', from = ''] of text.matchAll(/^(?:import|export) ([^;]*?) from '(\.[^']+)';/gms)) {
    const isOfTypes = names.startsWith('type ') || /^\{(\s*type [^,}]+,?\s*)+\}$/s.test(names);
    if (!isOfTypes) loadedWith(join(dirname(file), from), found);
  }
  return found;
}

test('nothing of scans, baselines and configurations is loaded before there is a FileIntegrity', () => {
  const room = join(import.meta.dirname, '..');
  const loaded = [...loadedWith(join(room, 'node/run.ts'))].map((file) => relative(room, file));
  const own = loaded.filter((file) => !file.startsWith('..')).sort();
  const needed = [
    'api.ts',
    'live/start-live.ts',
    'model/finding.ts',
    'node-status-schema.ts',
    'node/node-counts.ts',
    'node/node-health.ts',
    'node/old-jobs.ts',
    'node/run.ts',
    'node/step-progress.ts',
    'results/for-node.ts',
    'results/node-facts.ts',
    'results/same-name.ts',
  ];
  assert.deepEqual(own, needed);
  assert.ok(loaded.includes('../../lib/kube/object/facts.ts'), 'the walk over imports works');
});
