import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { missingFiles } from './doc-files.ts';

suite('the files that documentation names', () => {
  test('are there', () => {
    assert.deepEqual(missingFiles(dirname(import.meta.dirname)), []);
  });

  test('are looked for where a reader would', () => {
    using directory = new TemporaryDirectory();
    const write = (file: string, text = ''): void => {
      mkdirSync(dirname(directory.at(file)), { recursive: true });
      writeFileSync(directory.at(file), text);
    };
    for (const file of ['lib/a/one.ts', 'lib/a/b/two.ts', 'lib/three.ts', 'guards/four.ts']) write(file);
    write(
      'lib/a/README.md',
      'Below `one.ts`, `b/two.ts`, `two.ts`; above `three.ts`; from the top `guards/four.ts`; `t*.ts`; `x.test.ts`.\n' +
        'Gone: `four.ts`, [there](../gone.md), and [here](b/two.ts).\n```\ngone.ts ── one.ts\n```\n',
    );
    write('docs/guide.md', 'Anywhere: `two.ts`. Gone: `five.ts`.\n');
    assert.deepEqual(missingFiles(directory.path), [
      { document: 'docs/guide.md', name: 'five.ts' },
      { document: 'lib/a/README.md', name: '../gone.md' },
      { document: 'lib/a/README.md', name: 'four.ts' },
      { document: 'lib/a/README.md', name: 'gone.ts' },
    ]);
  });
});
