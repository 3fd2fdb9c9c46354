import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { Decision } from '../guard/line-kind.ts';
import { openDecisions } from './decisions.ts';
import type { ListedFinding } from './use-findings.ts';

const what = ['changed file', 'changed files'] as const;

function listed(decision: Partial<Decision> | null, timeMs = 10): ListedFinding {
  return {
    ...{ number: 1, timeMs, text: '', command: null },
    finding: { guard: 'g' } as ListedFinding['finding'],
    decision: decision && { key: 'k', isOpen: true, what, ...decision },
  };
}

suite('what needs a decision', () => {
  test('each key once, as its newest finding says', () => {
    const [newest, old] = [listed({ key: 'a' }), listed({ key: 'a', isOpen: false })];
    const open = openDecisions([newest, listed(null), listed({ key: 'a' }), listed({ key: 'b' })], 0);
    assert.deepEqual([open.total, open.counts], [2, [{ what, count: 2 }]]);
    assert.ok(open.isOpen(newest) && !open.isOpen(listed(null)));
    const closed = openDecisions([old, newest], 0);
    assert.deepEqual([closed.total, closed.isOpen(newest)], [0, false]);
  });

  test('once is not repeated; what is older than a day does not count', () => {
    const one = listed({ times: 3 });
    assert.equal(openDecisions([one, one], 0).total, 0);
    assert.equal(openDecisions([one, one, one], 0).total, 1);
    assert.equal(openDecisions([one, one, listed({ times: 3 }, 4)], 5).total, 0);
  });
});
