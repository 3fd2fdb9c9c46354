import assert from 'node:assert/strict';
import { test } from 'node:test';

import { maskOf, masked } from './field-masks.ts';

const pod = {
  metadata: { name: 'web', labels: { app: 'web' } },
  spec: { containers: [{ name: 'a', image: 'x' }, { name: 'b' }], hostNetwork: false },
};

function only(paths: unknown): unknown {
  const mask = maskOf(paths);
  return mask === undefined ? pod : masked(pod, mask);
}

test('a mask leaves what its paths name, through lists too', () => {
  assert.deepEqual(only(['metadata.name', 'spec.containers.image']), {
    metadata: { name: 'web' },
    spec: { containers: [{ image: 'x' }, {}] },
  });
  assert.deepEqual(only(['metadata', 'metadata.name', 'status.phase']), { metadata: pod.metadata });
  assert.deepEqual(only(['metadata.name.first']), { metadata: { name: 'web' } });
});

test('no mask leaves all', () => {
  for (const none of [undefined, null, []]) assert.equal(only(none), pod);
});

test('a mask is a list of texts', () => {
  for (const wrong of ['metadata', [1], {}]) assert.throws(() => maskOf(wrong), /must be a list of strings/);
});
