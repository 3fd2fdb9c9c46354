// The packages as they are built; what apt does with them: docs/install.md.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { deepTest } from '../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { writePackages } from './package.ts';

const debian = join(import.meta.dirname, '../deploy/debian');

suite('packages', () => {
  test('scripts are valid, and fail where a command fails', () => {
    for (const name of ['postinst', 'prerm', 'postrm', 'install.sh']) {
      const path = join(debian, name);
      assert.equal(spawnSync('sh', ['-n', path]).status, 0, name);
      assert.match(readFileSync(path, 'utf8'), /^#!\/bin\/sh\n[^]*^set -eu?$/m);
    }
  });

  deepTest(
    'a build of the same sources has the same bytes, runs where it was unpacked, and has nothing else',
    () => {
      using directory = new TemporaryDirectory();
      const [first, second] = ['a', 'b'].map((name) => {
        const [deb = '', tarball = ''] = writePackages(directory.at(name), 0);
        return { deb, tarball };
      });
      assert.ok(first && second);
      for (const kind of ['deb', 'tarball'] as const)
        assert.ok(readFileSync(first[kind]).equals(readFileSync(second[kind])), kind);
      const root = directory.at('root');
      execFileSync('dpkg-deb', ['-x', first.deb, root]);
      const version = execFileSync(join(root, 'usr/bin/rampart'), ['--version'], { encoding: 'utf8' });
      assert.equal(execFileSync('dpkg-deb', ['-f', first.deb, 'Version'], { encoding: 'utf8' }), version);
      const unwanted = ['**/*.h', '**/*.d.ts', '**/*.map', '**/*.test.js', '**/*.fixture.js'];
      assert.deepEqual(globSync(unwanted, { cwd: root }), []);
    },
  );
});
