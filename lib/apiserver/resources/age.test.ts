import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ageSince } from './age.ts';

const now = new Date('2026-01-01T00:00:00Z');

/** Seconds ago, and what HumanDuration of k8s.io/apimachinery makes of them (duration_test.go has these limits). */
const ages: readonly (readonly [number, string])[] = [
  [-2, '<invalid>'],
  [-1, '0s'],
  [0, '0s'],
  [1, '1s'],
  [119, '119s'],
  [120, '2m'],
  [121, '2m1s'],
  [10 * 60 - 1, '9m59s'],
  [10 * 60, '10m'],
  [3 * 3600 - 1, '179m'],
  [3 * 3600, '3h'],
  [3 * 3600 + 60, '3h1m'],
  [8 * 3600 - 1, '7h59m'],
  [8 * 3600, '8h'],
  [48 * 3600 - 1, '47h'],
  [48 * 3600, '2d'],
  [49 * 3600, '2d1h'],
  [8 * 86_400 - 3600, '7d23h'],
  [8 * 86_400, '8d'],
  [729 * 86_400, '729d'],
  [730 * 86_400, '2y'],
  [731 * 86_400, '2y1d'],
  [8 * 365 * 86_400 - 86_400, '7y364d'],
  [8 * 365 * 86_400, '8y'],
];

for (const [seconds, text] of ages) {
  test(`${seconds} s ago is ${text}`, () => {
    assert.equal(ageSince(new Date(now.getTime() - seconds * 1000).toISOString(), now), text);
  });
}

test('an invalid time is shown as <invalid>', () => {
  assert.equal(ageSince('yesterday', now), '<invalid>');
});
