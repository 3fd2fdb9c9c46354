import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { deepTests } from './deep-tests.ts';

suite('the tests that only repeat for depth', () => {
  test('each leaves a short case in npm test', () => {
    const all = deepTests(dirname(import.meta.dirname));
    assert.deepEqual(
      all.filter(({ hasShortCase }) => !hasShortCase).map(({ file }) => file),
      [],
    );
  });

  test('are found by what the sources say', () => {
    using directory = new TemporaryDirectory();
    const write = (file: string, text: string): void => {
      mkdirSync(dirname(directory.at(file)), { recursive: true });
      writeFileSync(directory.at(file), text);
    };
    write(
      'lib/a.test.ts',
      "test('short', () => {});\ndeepTest(\n  'it\\'s long', () => {});\ndeepSuite(`all`, x);\n",
    );
    write('lib/alone/b.deep.test.ts', "test('whole', () => {});\n");
    write('lib/c.deep.test.ts', "test('whole', () => {});\n");
    write('lib/c.test.ts', "test('short', () => {});\n");
    write('lib/d.test.ts', "deepTest('alone', () => {});\n");
    assert.deepEqual(deepTests(directory.path), [
      { file: 'lib/a.test.ts', titles: ["it\\'s long", 'all'], hasShortCase: true },
      { file: 'lib/alone/b.deep.test.ts', titles: [], hasShortCase: false },
      { file: 'lib/c.deep.test.ts', titles: [], hasShortCase: true },
      { file: 'lib/d.test.ts', titles: ['alone'], hasShortCase: false },
    ]);
  });
});
