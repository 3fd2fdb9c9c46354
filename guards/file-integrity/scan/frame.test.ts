import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { eachOnce, restOf } from './frame.ts';
import { belowItem, entryItem, nameOf } from './tasks.ts';

test('the rest of a directory is split among all threads, complete and in order', () => {
  fc.assert(
    fc.property(
      fc.nat(1500),
      fc.nat(400),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (files, directories, done) => {
        const items = [
          ...Array.from({ length: files }, (_, at) => entryItem(`file-${at}`, 'f')),
          ...Array.from({ length: directories }, (_, at) => [
            entryItem(`sub-${at}`, 'd'),
            belowItem(`sub-${at}`),
          ]).flat(),
        ].toSorted();
        const next = Math.floor(items.length * done);
        const rest = restOf([{ path: '/etc', items, next, directory: undefined }]);
        assert.deepEqual(
          rest.flatMap((piece) => piece.items ?? []),
          items.slice(next),
        );
        for (const { directory, items: own = [] } of rest) {
          assert.equal(directory, '/etc');
          const below = own.filter((item) => item.endsWith('/')).length;
          assert.ok(own.length > 0 && own.length <= 512 && below <= 16, `${own.length}, ${below}`);
        }
      },
    ),
    { numRuns: 100 },
  );
});

test('a name that was listed twice, as one type or two, is looked at once', () => {
  const name = fc.string({
    unit: fc.constantFrom('a', 'b', '.', '\x01', '\xff'),
    minLength: 1,
    maxLength: 3,
  });
  const listed = fc.tuple(name, fc.constantFrom('f', 'd', '?'));
  fc.assert(
    fc.property(fc.array(listed, { maxLength: 30, size: 'max' }), (all) => {
      const items = all
        .flatMap(([one, type]) =>
          type === 'd' ? [entryItem(one, type), belowItem(one)] : [entryItem(one, type as 'f')],
        )
        .sort();
      const once = eachOnce([...items]);
      assert.deepEqual(once, once.toSorted());
      const entries = once.filter((item) => !item.endsWith('/')).map(nameOf);
      assert.deepEqual(entries, [...new Set(all.map(([one]) => one))].toSorted());
      assert.deepEqual(
        once.filter((item) => item.endsWith('/')),
        [...new Set(items.filter((item) => item.endsWith('/')))].toSorted(),
      );
    }),
    { numRuns: 500 },
  );
});
