import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createMetrics } from '../../lib/telemetry/metrics.ts';
import { FindingCounts } from './finding-counts.ts';
import { findingLine, type Severity } from './finding.ts';
import { FindingStream } from './finding-stream.ts';

function lineOf(severity: Severity): string {
  return findingLine({
    ...{ guard: 'g', kind: 'Greeting', time: '2026-11-21T10:00:00Z', node: { name: '' }, severity },
    ...{ object: null, policy: null, verdict: 'greeted', message: '' },
  });
}

test('by guard, hour and severity, of the last 24 hours and the one that has begun', () => {
  let nowMs = Date.UTC(2026, 10, 21, 10, 30);
  const counts = new FindingCounts({ wallMs: () => nowMs });
  counts.add('a', lineOf('low'));
  counts.add('a', lineOf('low'));
  counts.add('a', lineOf('high'));
  counts.add('b', lineOf('info'));
  const first = { guard: 'a', hour: '2026-11-21T10:00:00.000Z', findings: { low: 2, high: 1 } };
  const other = { guard: 'b', hour: '2026-11-21T10:00:00.000Z', findings: { info: 1 } };
  assert.deepEqual(counts.hours(), [first, other]);
  nowMs = Date.UTC(2026, 10, 22, 10, 59);
  counts.add('b', lineOf('critical'));
  const later = { guard: 'b', hour: '2026-11-22T10:00:00.000Z', findings: { critical: 1 } };
  assert.deepEqual(counts.hours(), [first, other, later]);
  nowMs = Date.UTC(2026, 10, 22, 11, 1);
  assert.deepEqual(counts.hours(), [later]);
});

test('as a metric; each output of the stream gets each line', async () => {
  const stream = new FindingStream();
  const taken: string[] = [];
  stream.to((guard, line) => void taken.push(`1 ${guard} ${line}`));
  stream.to((guard, line) => void taken.push(`2 ${guard} ${line}`));
  const metrics = await createMetrics();
  stream.counts.register(metrics);
  stream.sink('a', lineOf('low'));
  stream.sink('b', lineOf('high'));
  assert.deepEqual(taken, [
    `1 a ${lineOf('low')}`,
    `2 a ${lineOf('low')}`,
    `1 b ${lineOf('high')}`,
    `2 b ${lineOf('high')}`,
  ]);
  const text = metrics.registry.metrics();
  assert.match(text, /^rampart_findings_total\{guard="a",severity="low"\} 1$/m);
  assert.match(text, /^rampart_findings_total\{guard="b",severity="high"\} 1$/m);
});
