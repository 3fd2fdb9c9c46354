import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';

import { deepTest, scaled } from '../../testing/depth.fixture.ts';
import type { ReflectorFigures } from './reflector-measure.fixture.ts';

const script = join(import.meta.dirname, 'reflector-measure.fixture.ts');

const OBJECTS = scaled(100_000);

async function measured(context: TestContext, page: number): Promise<void> {
  const args = ['--expose-gc', script, '--objects', String(OBJECTS), '--page', String(page)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const figures = JSON.parse(stdout) as ReflectorFigures;
  assert.equal(figures.objects, OBJECTS);
  // The memory held does not depend on the load of the machine.
  assert.ok(figures.heldBytesEach > figures.textBytesEach && figures.heldBytesEach < 3000, stdout);
  context.diagnostic(stdout);
}

suite(`reflector: ${OBJECTS} objects`, () => {
  test('in pages of 500', (context) => measured(context, 500));
  deepTest('all at once', (context) => measured(context, 0));
});
