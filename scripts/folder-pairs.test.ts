import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { foldersThatImportEachOther } from './folder-pairs.ts';

suite('folders beside each other', () => {
  test('do not import each other', () => {
    assert.deepEqual(foldersThatImportEachOther(dirname(import.meta.dirname)), []);
  });

  test('are reported with an import of each; a folder and one below it are not', () => {
    using directory = new TemporaryDirectory();
    const write = (file: string, text: string): void => {
      mkdirSync(dirname(directory.at(file)), { recursive: true });
      writeFileSync(directory.at(file), text);
    };
    write('lib/a/x/one.ts', "import type { Two } from '../../b/two.ts';\n");
    write('lib/b/two.ts', "export const load = () => import('../a/three.ts');\n");
    write('lib/a/three.ts', "import { one } from './x/one.ts';\n");
    write('lib/c/four.ts', "import { one } from '../a/x/one.ts';\n");
    write('lib/a/five.test.ts', "import { four } from '../c/four.ts';\n");
    assert.deepEqual(foldersThatImportEachOther(directory.path), [
      {
        folders: ['lib/a', 'lib/b'],
        imports: ['lib/a/x/one.ts -> lib/b/two.ts', 'lib/b/two.ts -> lib/a/three.ts'],
      },
    ]);
  });
});
