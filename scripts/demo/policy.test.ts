import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { samplePolicy, samplePolicyWithCallback } from './policy.ts';

test('the policy is the one of the design document, whatever an editor or a formatter would make of it', () => {
  assert.equal(
    createHash('sha256').update(samplePolicy()).digest('hex'),
    '4d8081a621be0cbf3044420a59761a1eb4d15d1acb10eb2aa89e3833c02b0a20',
  );
});

test('the callback is replaced, and only that', () => {
  const [before, after] = [samplePolicy(), samplePolicyWithCallback('http://127.0.0.1:8080/$&')].map((text) =>
    text.split('\n'),
  );
  const differing = before!.flatMap((line, index) => (line === after![index] ? [] : [[line, after![index]]]));
  assert.equal(before!.length, after!.length);
  assert.deepEqual(differing, [
    ['      callback: "http://my-callback.com/alerts"', '      callback: "http://127.0.0.1:8080/$&"'],
  ]);
});
