import assert from 'node:assert/strict';
import { release } from 'node:os';
import { test } from 'node:test';

import { kernelCan, kernels } from './kernels.fixture.ts';
import { programTypes } from './load/program-types.ts';

test('the recorded programs are of all kinds', () => {
  for (const { name, can } of kernels)
    assert.deepEqual(Object.keys(can).toSorted(), Object.keys(programTypes).toSorted(), name);
});

const recorded = kernels.find((one) => release().startsWith(one.release));
const skip =
  process.getuid?.() !== 0
    ? 'needs root'
    : recorded === undefined
      ? `nothing is recorded of ${release()}`
      : false;

test('this kernel can what is recorded of it', { skip }, (t) => {
  t.diagnostic(`kernel: ${recorded?.name}`);
  assert.deepEqual(kernelCan(), recorded?.can);
});
