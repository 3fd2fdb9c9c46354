/**
 * The suites that lean on libbpf, unchanged, with libbpf 1.5 in place of the machine's own.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

import { isDeep } from '../../lib/testing/depth.fixture.ts';
import { withLibbpf15 } from './libbpf.ts';
import { kernelRunObstacle } from './vm.ts';

const checkout = join(import.meta.dirname, '../..');
/** Features take longest, and depend on the kernel more than on libbpf. */
const suites = [
  'lib/ebpf/object.test.ts',
  'lib/sensor/operations.test.ts',
  ...(isDeep ? ['lib/ebpf/features/features.test.ts'] : []),
];
/** All of them together; the exact number grows. */
const AT_LEAST_PASSED = isDeep ? 60 : 50;

test('suites with libbpf 1.5', { skip: kernelRunObstacle() ?? false }, async (t) => {
  const [file = '', ...args] = await withLibbpf15(
    [process.execPath, '--test', '--test-reporter=spec', ...suites],
    { signal: t.signal },
  );
  // Inside a test, the runner speaks another protocol to its children unless this variable is unset.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const run = spawnSync(file, args, { cwd: checkout, encoding: 'utf8', env });
  assert.equal(run.status, 0, `${run.stdout}${run.stderr}`.slice(-4000));
  const passed = Number(/^ℹ pass (\d+)$/m.exec(run.stdout)?.[1] ?? 0);
  assert.ok(passed >= AT_LEAST_PASSED, `only ${passed} tests ran:\n${run.stdout.slice(-2000)}`);
});
