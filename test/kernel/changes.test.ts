/**
 * Changes and who made them, in Debian's kernels by kprobe: the machine itself proves raw_tracepoint, and may have no kprobes.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { kernelVersions } from './modules.ts';
import { remarkable } from './remarkable.ts';
import { kernelRunObstacle, runInKernel } from './vm.ts';

/** Under emulation a test is some ten times slower than on the machine. */
const TIMEOUT_MS = 600_000;

describe('changes in Debian kernels', { skip: kernelRunObstacle() ?? false }, () => {
  for (const kernel of kernelVersions) {
    test(`kprobe on ${kernel}`, async (t) => {
      const run = await runInKernel({
        kernel,
        command: [
          'sh',
          'test/kernel/guest-sensor.sh',
          'kprobe',
          'shared/sensor/changes/change-watch.test.ts',
          'shared/sensor/changes/readers.test.ts',
        ],
        timeoutMs: TIMEOUT_MS,
        signal: t.signal,
      });
      assert.equal(run.exitCode, 0, remarkable(run.output) || run.output.slice(-4000));
    });
  }
});
