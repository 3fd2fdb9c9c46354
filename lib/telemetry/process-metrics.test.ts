import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { test } from 'node:test';

import { createMetrics } from './metrics.ts';
import { registerProcessMetrics } from './process-metrics.ts';

test('the process is measured as its system measures it', async () => {
  const { registry, ...metrics } = await createMetrics();
  registerProcessMetrics({ ...metrics }, '1.2.3');
  const value = (name: string): number =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(registry.metrics())?.[1]);

  assert.match(
    registry.metrics(),
    new RegExp(`^rampart_build_info\\{version="1.2.3",nodejs="${process.versions.node}"\\} 1$`, 'm'),
  );
  const [ps = ''] = execFileSync('ps', ['-o', 'etimes=', '-p', `${process.pid}`], { encoding: 'utf8' }).split(
    '\n',
  );
  // ps counts whole seconds.
  assert.ok(Math.abs(Date.now() / 1000 - value('process_start_time_seconds') - Number(ps)) < 5);
  assert.ok(value('process_virtual_memory_bytes') > value('process_resident_memory_bytes'));
  assert.ok(value('process_resident_memory_bytes') > 10_000_000);
  const limit = execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
  assert.equal(value('process_max_fds'), limit === 'unlimited' ? NaN : Number(limit));

  const before = value('process_open_fds');
  const file = openSync('/dev/null', 'r');
  assert.equal(value('process_open_fds'), before + 1);
  closeSync(file);

  const cpu = value('process_cpu_seconds_total');
  while (value('process_cpu_seconds_total') === cpu);
  assert.ok(value('process_cpu_seconds_total') > cpu);
});
