// Which Node.js a machine needs, and what npm says of it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import manifest from '../package.json' with { type: 'json' };

const top = join(import.meta.dirname, '..');

test('every place names the same least Node.js', () => {
  const asked = /Node\.js (>= \d+)/;
  for (const file of ['README.md', 'CONTRIBUTING.md', 'scripts/setup']) {
    const text = readFileSync(join(top, file), 'utf8');
    assert.equal(asked.exec(text)?.[1]?.replace(' ', ''), manifest.engines.node, file);
  }
});

test('npm ci prints no warning where a package asks for another Node.js than that of npm', () => {
  using directory = new TemporaryDirectory();
  copyFileSync(join(top, '.npmrc'), directory.at('.npmrc'));
  const root = { name: 'asks', version: '1.0.0', engines: { node: '>=9999' } };
  writeFileSync(directory.at('package.json'), JSON.stringify(root));
  const lock = { name: 'asks', version: '1.0.0', lockfileVersion: 3, requires: true, packages: { '': root } };
  writeFileSync(directory.at('package-lock.json'), JSON.stringify(lock));
  const ci = (...flags: readonly string[]) =>
    spawnSync('npm', ['ci', '--offline', ...flags], { cwd: directory.path, encoding: 'utf8' });
  assert.match(ci('--loglevel=warn').stderr, /EBADENGINE/);
  const { status, stderr } = ci();
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
});
