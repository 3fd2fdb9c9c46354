import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../lib/testing/fast-check.fixture.ts';
import type { Access } from '../../lib/sensor/access.ts';
import { AlertEncoder, type KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { access, context } from '../../guards/file-access/alert/alert.fixture.ts';
import { accessOf } from './alerts.ts';

test('an alert becomes the access that it was made of', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 62n }), fc.boolean(), fc.boolean(), (timeNs, cut, other) => {
      const original: Access = {
        ...access,
        timeNs,
        // No line has it.
        cgroup: '',
        executableTruncated: cut,
        cwdTruncated: other,
        argumentsTruncated: cut !== other,
      };
      const alert = JSON.parse(new AlertEncoder(context).encode(original)) as KiveAlert;
      assert.deepEqual(accessOf(alert), original);
    }),
  );
});
