import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../lib/testing/fast-check.fixture.ts';
import { LogPosition } from './cluster-alerts.ts';

const startMs = Date.UTC(2026, 10, 21, 10);

test('a log that is read again and again, from whole seconds: each line once, in its order', () => {
  fc.assert(
    fc.property(
      // How many milliseconds after the line before; many are in one second, some in one moment.
      fc.array(fc.constantFrom(0, 0, 1, 300, 999, 1000, 5000), { minLength: 1, maxLength: 30 }),
      fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 6 }),
      (gaps, cuts) => {
        let timeMs = startMs;
        const log = gaps.map((gapMs, index) => {
          timeMs += gapMs;
          return { timeMs, line: `${new Date(timeMs).toISOString().replace('Z', '000001Z')} line ${index}` };
        });
        const position = new LogPosition();
        const taken: string[] = [];
        // Each time the log is a bit longer, and what is asked for begins at a whole second.
        for (const end of [...cuts.toSorted((a, b) => a - b), log.length]) {
          const since = position.sinceTime;
          const sinceMs = since === undefined ? 0 : Date.parse(since);
          for (const entry of log.slice(0, end)) {
            if (entry.timeMs < sinceMs) continue;
            const text = position.take(entry.line);
            if (text !== undefined) taken.push(text);
          }
        }
        assert.deepEqual(
          taken,
          log.map((_, index) => `line ${index}`),
        );
      },
    ),
  );
});

test('a server that sends no times: lines are unchanged', () => {
  const position = new LogPosition();
  assert.equal(position.take('{"a":1} b'), '{"a":1} b');
  assert.equal(position.take('{"a":1} b'), '{"a":1} b');
  assert.equal(position.sinceTime, undefined);
});
