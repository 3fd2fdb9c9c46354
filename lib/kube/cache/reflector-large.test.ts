import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

import { scaled } from '../../testing/depth.fixture.ts';
import type { ReflectorFigures } from './reflector-measure.fixture.ts';

const script = join(import.meta.dirname, 'reflector-measure.fixture.ts');

const OBJECTS = scaled(100_000, 20_000);

suite(`reflector: ${OBJECTS} objects`, () => {
  for (const page of ['500', '0']) {
    test(page === '0' ? 'all at once' : `in pages of ${page}`, async (context) => {
      const args = ['--expose-gc', script, '--objects', String(OBJECTS), '--page', page];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      const figures = JSON.parse(stdout) as ReflectorFigures;
      assert.equal(figures.objects, OBJECTS);
      // What is held does not depend on how busy the machine is.
      assert.ok(figures.heldBytesEach > figures.textBytesEach && figures.heldBytesEach < 3000, stdout);
      context.diagnostic(stdout);
    });
  }
});
