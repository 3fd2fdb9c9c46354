import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { compareVersions, isOlder } from './resource-version.ts';

suite('resource versions', () => {
  test('numbers of any length are in the order of their values', () => {
    const version = fc.bigInt({ min: 1n, max: 10n ** 30n });
    fc.assert(
      fc.property(version, version, (a, b) => {
        const order = compareVersions(String(a), String(b));
        assert.equal(Math.sign(order ?? NaN), a < b ? -1 : a > b ? 1 : 0);
        assert.equal(isOlder(String(a), String(b)), a < b);
      }),
    );
  });

  test('other versions can only be compared for equality', () => {
    assert.equal(compareVersions('abc', 'abc'), 0);
    for (const odd of ['', '0', '007', '1a', '-1', '1.5', ' 1', 'abc']) {
      assert.equal(compareVersions(odd, '12'), undefined, odd);
      assert.equal(isOlder(odd, '12') || isOlder('12', odd), false, odd);
    }
  });
});
