import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { PathTree } from './path-tree.ts';

/** Few names, so that paths meet: `/`, `/a`, `/a/ab/b`. */
const path = fc
  .array(fc.constantFrom('a', 'b', 'ab'), { maxLength: 4 })
  .map((names) => `/${names.join('/')}`);

suite('paths below a path', () => {
  test('are the same as a search through all paths finds', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), path), { maxLength: 60 });
    fc.assert(
      fc.property(steps, path, (all, asked) => {
        const tree = new PathTree();
        const kept = new Set<string>();
        for (const [isAdded, one] of all) {
          if (isAdded) tree.add(one);
          else tree.delete(one);
          if (isAdded) kept.add(one);
          else kept.delete(one);
        }
        const below = asked === '/' ? '/' : `${asked}/`;
        const expected = [...kept].filter((one) => one === asked || one.startsWith(below));
        assert.deepEqual(tree.below(asked).sort(), expected.sort());
        assert.equal(tree.size, kept.size);
      }),
    );
  });

  test('do not include cleared ones', () => {
    const tree = new PathTree();
    tree.add('/a/b');
    tree.clear();
    assert.deepEqual(tree.below('/'), []);
  });
});
