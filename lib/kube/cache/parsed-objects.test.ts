import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { ParsedObjects } from './parsed-objects.ts';

const module = JSON.stringify(import.meta.resolve('./parsed-objects.ts'));

/** Keeps one object that is referenced and one that is not; prints which ones remain after a collection. */
const program = `
  import { setTimeout as sleep } from 'node:timers/promises';
  const { ParsedObjects } = await import(${module});
  const objects = new ParsedObjects(8);
  const held = { name: 'held' };
  objects.set('held', held);
  objects.set('loose', { name: 'loose' });
  const before = objects.peek('loose')?.name;
  await sleep(0);
  globalThis.gc();
  console.log(JSON.stringify([before, objects.get('held') === held, objects.get('loose') === undefined]));`;

suite('parsed objects', () => {
  test('the one whose last read is longest ago goes first', () => {
    const objects = new ParsedObjects<{ readonly n: number }>(2);
    const [a, b, c] = [{ n: 1 }, { n: 2 }, { n: 3 }];
    objects.set('a', a);
    objects.set('b', b);
    assert.equal(objects.get('a'), a);
    objects.set('c', c);
    assert.deepEqual([objects.peek('a'), objects.peek('b'), objects.peek('c')], [a, undefined, c]);
    objects.delete('a');
    assert.equal(objects.get('a'), undefined);
  });

  test('garbage collection frees objects without other references', () => {
    const args = ['--expose-gc', '--input-type=module', '--no-warnings', '-e', program];
    const { stdout, stderr, status } = spawnSync(process.execPath, args, {
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.equal(status, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), ['loose', true, true]);
  });
});
