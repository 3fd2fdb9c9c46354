import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const top = dirname(dirname(import.meta.dirname));

/** Files that are loaded with this one, at once. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  found.add(relative(top, file));
  for (const [, specifier = ''] of readFileSync(file, 'utf8').matchAll(
    /^(?:import|export)(?! type\b)[^;]*? from '(\.[^']+\.ts)'/gm,
  )) {
    const next = join(dirname(file), specifier);
    if (existsSync(next) && !found.has(relative(top, next))) loadedWith(next, found);
  }
  return found;
}

for (const name of ['agent', 'operator', 'standalone']) {
  test(`${name} loads nothing of the page; standalone does when somebody opens it`, () => {
    const loaded = [...loadedWith(join(top, 'apps', name, 'run.ts'))];
    assert.ok(loaded.length > 100, String(loaded.length));
    assert.equal(loaded.includes('apps/standalone/page.ts'), name === 'standalone');
    assert.deepEqual(
      loaded.filter((file) => /^(?:apps\/(?:ui|ui-server|status)|ui)\//.test(file)),
      [],
    );
  });
}
