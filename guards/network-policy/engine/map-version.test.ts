import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { MapVersion } from './map-version.ts';

const key = fc.integer({ min: 0, max: 6 });
const edits = fc.array(fc.tuple(key, fc.option(fc.record({ at: fc.nat() }), { nil: undefined })), {
  maxLength: 4,
});

test('each version of a map is as a copy would be, whenever it is read', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ edits, from: fc.nat(), read: fc.option(fc.nat()) }), {
        maxLength: 200,
        size: 'max',
      }),
      (steps) => {
        const versions = [new MapVersion<number, { at: number }>()];
        const copies = [new Map<number, { at: number }>()];
        const check = (at: number): void => {
          const [version, copy] = [versions[at]!, copies[at]!];
          for (let one = 0; one <= 6; one++) {
            assert.equal(version.get(one), copy.get(one));
            assert.equal(version.has(one), copy.has(one));
          }
          assert.equal(version.size, copy.size);
          assert.deepEqual(new Map(version), copy);
        };
        for (const { edits: given, from, read } of steps) {
          // Mostly from the newest one.
          const at = from % 40 === 0 ? from % versions.length : versions.length - 1;
          const copy = new Map(copies[at]);
          for (const [one, value] of given) {
            if (value === undefined) copy.delete(one);
            else copy.set(one, value);
          }
          versions.push(versions[at]!.with(new Map(given)));
          copies.push(copy);
          if (read !== null) check(read % versions.length);
        }
        for (const at of versions.keys()) check(at);
      },
    ),
    { numRuns: 200 },
  );
});
