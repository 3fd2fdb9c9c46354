import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { withoutEntries } from './tar-entries.ts';

for (const format of ['gnu', 'pax', 'ustar']) {
  test(`entries are left out of an archive of ${format}, long names too`, () => {
    using directory = new TemporaryDirectory();
    const long = `root/${'d'.repeat(90)}/${'f'.repeat(80)}`;
    mkdirSync(directory.at(long, '..'), { recursive: true });
    writeFileSync(directory.at(long), 'x'.repeat(1000));
    for (const name of ['a', 'b', 'c']) writeFileSync(directory.at('root', name), name);
    const tar = (...args: string[]): string =>
      execFileSync('tar', ['-C', directory.path, ...args], { encoding: 'utf8' });
    tar('--sort=name', `--format=${format}`, '-cf', directory.at('all.tar'), './root');
    const without = (pattern: RegExp): string[] => {
      const all = execFileSync('cat', [directory.at('all.tar')]);
      writeFileSync(
        directory.at('some.tar'),
        withoutEntries(all, (path) => pattern.test(path)),
      );
      return tar('-tf', directory.at('some.tar')).trim().split('\n');
    };
    const all = tar('-tf', directory.at('all.tar')).trim().split('\n');
    assert.equal(all.length, 6);
    assert.deepEqual(
      without(/\/b$/),
      all.filter((path) => path !== './root/b'),
    );
    assert.deepEqual(without(/f{80}$/), all.slice(0, -1));
    assert.deepEqual(without(/d{90}/), all.slice(0, -2));
    assert.equal(tar('-xOf', directory.at('some.tar'), './root/c'), 'c');
  });
}

test('a file that is not an archive is refused', () => {
  assert.throws(() => withoutEntries(Buffer.alloc(1024, 'x'), () => false), RangeError);
});
