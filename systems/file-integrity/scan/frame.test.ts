import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';

import { restOf } from './frame.ts';
import { belowItem, entryItem } from './tasks.ts';

test('what is left of a directory is cut into pieces for all threads, nothing lost and in order', () => {
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
