/**
 * The sensor's own suites, unchanged, in Debian's kernels: every mode on each.
 */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { describe, test } from 'node:test';

import { type SensorModeName, sensorModeNames } from '../../shared/sensor/modes.ts';
import { kernelVersions } from './modules.ts';
import { remarkable } from './remarkable.ts';
import { kernelRunObstacle, runInKernel } from './vm.ts';

const checkout = new URL('../..', import.meta.url).pathname;
const operations = globSync('shared/sensor/operations.test.ts', { cwd: checkout });
const facts = globSync('shared/sensor/sensor-*.test.ts', { cwd: checkout });
/** What raw_tracepoint says of processes and files was proven on the machine itself; what it sees differs by kernel. */
const suitesOf = (mode: SensorModeName): string[] =>
  mode === 'raw_tracepoint' ? operations : [...operations, ...facts];

/** Under emulation a test is some ten times slower than on the machine. */
const TIMEOUT_MS = 600_000;

describe('sensor in Debian kernels', { skip: kernelRunObstacle() ?? false }, () => {
  for (const kernel of kernelVersions) {
    for (const mode of sensorModeNames) {
      test(`${mode} on ${kernel}`, async (t) => {
        const run = await runInKernel({
          kernel,
          command: ['sh', 'test/kernel/guest-sensor.sh', mode, ...suitesOf(mode)],
          timeoutMs: TIMEOUT_MS,
          signal: t.signal,
        });
        assert.equal(run.exitCode, 0, remarkable(run.output) || run.output.slice(-4000));
        const passed = Number(/^ℹ pass (\d+)$/m.exec(run.output)?.[1] ?? 0);
        assert.ok(passed >= 38, `only ${passed} tests ran:\n${run.output.slice(-4000)}`);
        for (const line of run.output.split('\n').filter((text) => text.includes('﹣'))) {
          t.diagnostic(`skipped in the guest: ${line.trim()}`);
        }
      });
    }
  }
});
