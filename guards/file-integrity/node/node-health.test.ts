// When a step is taken for one that is stuck, by a clock of the test.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../lib/time/clock.ts';
import { NodeCounts } from './node-counts.ts';
import { StepWatch } from './node-health.ts';

test('a scan goes on while it reads one large file, and while another program works for it', () => {
  let nowMs = 0;
  const counts = new NodeCounts();
  const steps = new StepWatch({ ...systemClock, monotonicMs: () => nowMs }, counts);
  const after = (minutes: number): string | undefined => {
    nowMs += minutes * 60_000;
    return steps.problem();
  };
  const progress = counts.progress();
  steps.set('check');
  assert.equal(after(10), undefined);
  progress({ files: 1, bytes: 1000 });
  assert.equal(after(10), undefined);
  progress({ files: 1, bytes: 2000 });
  assert.equal(after(10), undefined);
  progress({ files: 1, bytes: 2000, cpuMs: 10 });
  assert.equal(after(10), undefined);
  progress({ files: 1, bytes: 2000, cpuMs: 20 });
  assert.equal(after(10), undefined);
  progress({ files: 1, bytes: 2000, cpuMs: 20 });
  assert.equal(after(16), '"check" has made no progress for 960 s');
  steps.set(undefined);
  assert.equal(after(16), undefined);
});
