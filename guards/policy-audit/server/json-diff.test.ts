import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { applyPatch } from 'rfc6902';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { diffJson, type PatchOperation } from './json-diff.ts';

/** By a library that knows nothing of ours. */
function applied(from: unknown, patch: readonly PatchOperation[]): unknown {
  const box = { value: structuredClone(from) };
  const errors = applyPatch(
    box,
    patch.map((operation) => structuredClone({ ...operation, path: `/value${operation.path}` })),
  );
  assert.deepEqual(
    errors.filter((error) => error !== null),
    [],
  );
  return box.value;
}

suite('patches of what policies mutate', () => {
  const table: readonly (readonly [string, unknown, unknown, readonly PatchOperation[]])[] = [
    ['nothing', { a: [1, { b: null }] }, { a: [1, { b: null }] }, []],
    ['a member that is new', { a: 1 }, { a: 1, b: { c: [] } }, [{ op: 'add', path: '/b', value: { c: [] } }]],
    ['a member that is gone', { a: 1, b: 2 }, { a: 1 }, [{ op: 'remove', path: '/b' }]],
    ['names with slashes and tildes', {}, { 'a/b~c': 1 }, [{ op: 'add', path: '/a~1b~0c', value: 1 }]],
    ['an element in the middle', { a: [1, 3] }, { a: [1, 2, 3] }, [{ op: 'add', path: '/a/1', value: 2 }]],
    ['an element less', { a: [1, 2, 3] }, { a: [1, 3] }, [{ op: 'remove', path: '/a/1' }]],
    [
      'a change deep in a list',
      [{ a: { b: 1 } }],
      [{ a: { b: 2 } }],
      [{ op: 'replace', path: '/0/a/b', value: 2 }],
    ],
    ['another kind of value', { a: [] }, { a: {} }, [{ op: 'replace', path: '/a', value: {} }]],
    [
      'null and missing',
      { a: null },
      { b: null },
      [
        { op: 'remove', path: '/a' },
        { op: 'add', path: '/b', value: null },
      ],
    ],
    ['all of it', null, { a: 1 }, [{ op: 'replace', path: '', value: { a: 1 } }]],
  ];
  for (const [what, from, to, patch] of table) {
    test(what, () => {
      assert.deepEqual(diffJson(from, to), patch);
      if (patch[0]?.path !== '') assert.deepEqual(applied(from, patch), to);
    });
  }

  test('whatever values: the patch makes one of the other, and is empty only where they are equal', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom(null, true, 0, 1, '', 'x', 'a/b'),
        fc.array(tie('any'), { maxLength: 5 }),
        fc.dictionary(fc.constantFrom('a', 'b', 'a/b', '~', 'c'), tie('any'), {
          maxKeys: 4,
          noNullPrototype: true,
        }),
      ),
    })).any;
    fc.assert(
      fc.property(value, value, (from, to) => {
        const patch = diffJson({ from }, { from: to });
        assert.deepEqual(applied({ from }, patch), { from: to });
        assert.deepEqual(diffJson(to, structuredClone(to)), []);
      }),
      { numRuns: 1000 },
    );
  });
});
