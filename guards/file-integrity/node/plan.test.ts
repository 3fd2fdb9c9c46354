import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { NodeRequest } from '../results/node-result.ts';
import {
  checkedTogether,
  firstOf,
  type JobView,
  type Step,
  stepOf,
  togetherShare,
  wakeAtMs,
} from './plan.ts';

const now = 1_000_000;
const reinit: NodeRequest = { kind: 're-init', id: 'a1', by: 'annotation' };
const accept: NodeRequest = { kind: 'accept', id: 'b2', path: '', author: 'me', reason: 'update' };

/** All is well, and the next scan is not due. */
const well: JobView = {
  ...{ gracePeriodMs: 100_000, provider: 'native', hasConfiguration: true, hasKey: true, isHeld: false },
  ...{ requests: [], baseline: 'ready', madeBy: 'native', knowsFindings: true, wantsScan: false },
  hasAcceptable: false,
  ...{ checkDueMs: now + 50_000, retryDueMs: -Infinity, firstDueMs: now, isReconfigured: false },
};
const due = { checkDueMs: now };
const time = (untilMs: number): Step => ({ kind: 'wait', for: 'time', untilMs });
const first: Step = { kind: 'init', reason: 'first', requests: [] };

test('the next step of a job', () => {
  const table: [string, Partial<JobView>, Step][] = [
    ['nothing is due', {}, time(now + 50_000)],
    ['a scan is due', due, { kind: 'check' }],
    ['events were lost', { wantsScan: true }, { kind: 'check' }],
    ['updates of packages to accept', { hasAcceptable: true, wantsScan: true }, { kind: 'accept' }],
    [
      'the same, before it is known what differs',
      { hasAcceptable: true, knowsFindings: false },
      time(now + 50_000),
    ],
    [
      'no configuration yet',
      { ...due, hasConfiguration: false, requests: [reinit] },
      { kind: 'wait', for: 'configuration' },
    ],
    ['no key yet', { baseline: 'unknown', hasKey: false }, { kind: 'wait', for: 'key' }],
    ['not asked yet', { baseline: 'unknown', madeBy: undefined }, { kind: 'look' }],
    ['the first run', { baseline: 'none', madeBy: undefined }, first],
    [
      'the first run, while the node is still being set up',
      { baseline: 'none', madeBy: undefined, firstDueMs: now + 1000 },
      time(now + 1000),
    ],
    [
      'asked for, while the node is still being set up',
      { baseline: 'none', madeBy: undefined, firstDueMs: now + 1000, requests: [reinit] },
      { kind: 'init', reason: 'request', requests: ['a1'] },
    ],
    [
      'the Machine Config Operator has changed the node',
      { isReconfigured: true },
      { kind: 'init', reason: 'machine-config', requests: [] },
    ],
    [
      'the Machine Config Operator has changed a node whose baseline is broken',
      { isReconfigured: true, baseline: 'broken' },
      time(now + 50_000),
    ],
    ['ready, and nobody knows by whom', { madeBy: undefined }, time(now + 50_000)],
    [
      'held before the first run',
      { baseline: 'none', madeBy: undefined, isHeld: true },
      { kind: 'wait', for: 'holdoff' },
    ],
    ['held', { ...due, isHeld: true, wantsScan: true }, { kind: 'wait', for: 'holdoff' }],
    [
      'held, with another configuration',
      { isHeld: true, baseline: 'other-configuration' },
      { kind: 'wait', for: 'holdoff' },
    ],
    [
      'another configuration',
      { baseline: 'other-configuration' },
      { kind: 'init', reason: 'configuration', requests: [] },
    ],
    [
      'another provider',
      { provider: 'aide', baseline: 'none' },
      { kind: 'init', reason: 'provider', requests: [] },
    ],
    ['back from another provider', { madeBy: 'aide' }, { kind: 'init', reason: 'provider', requests: [] }],
    ['broken', { baseline: 'broken' }, time(now + 50_000)],
    ['broken, and perhaps mended', { ...due, baseline: 'broken' }, { kind: 'look' }],
    ['broken, never made by us', { baseline: 'broken', madeBy: undefined }, time(now + 50_000)],
    ['re-init', { requests: [reinit] }, { kind: 'init', reason: 'request', requests: ['a1'] }],
    [
      're-init of what is broken',
      { baseline: 'broken', requests: [reinit] },
      { kind: 'init', reason: 'request', requests: ['a1'] },
    ],
    [
      're-init while held',
      { isHeld: true, requests: [reinit] },
      { kind: 'init', reason: 'request', requests: ['a1'] },
    ],
    [
      're-init before accept',
      { requests: [accept, reinit] },
      { kind: 'init', reason: 'request', requests: ['a1'] },
    ],
    ['accept', { requests: [accept] }, { kind: 'accept', request: accept }],
    ['accept while held', { isHeld: true, requests: [accept] }, { kind: 'accept', request: accept }],
    ['accept what is not known yet', { requests: [accept], knowsFindings: false }, { kind: 'check' }],
    [
      'accept while held, not known',
      { isHeld: true, requests: [accept], knowsFindings: false },
      { kind: 'wait', for: 'holdoff' },
    ],
    ['accept for what is broken', { baseline: 'broken', requests: [accept] }, time(now + 50_000)],
    ['after a failure', { ...due, retryDueMs: now + 10, requests: [reinit] }, time(now + 10)],
    ['after a failure, again', { ...due, retryDueMs: now }, { kind: 'check' }],
  ];
  for (const [what, part, expected] of table)
    assert.deepEqual(stepOf({ ...well, ...part }, now), expected, what);
});

const anyRequest = fc.constantFrom(reinit, accept);
const anyView: fc.Arbitrary<JobView> = fc.record({
  gracePeriodMs: fc.integer({ min: 10_000, max: 1_000_000 }),
  provider: fc.constantFrom('native', 'aide'),
  hasConfiguration: fc.boolean(),
  hasKey: fc.boolean(),
  isHeld: fc.boolean(),
  isReconfigured: fc.boolean(),
  requests: fc.array(anyRequest, { maxLength: 2 }),
  baseline: fc.constantFrom('unknown', 'none', 'ready', 'other-configuration', 'broken'),
  madeBy: fc.constantFrom('native', 'aide', undefined),
  knowsFindings: fc.boolean(),
  firstDueMs: fc.integer({ min: now - 10, max: now + 10 }),
  checkDueMs: fc.integer({ min: now - 100_000, max: now + 100_000 }),
  hasAcceptable: fc.boolean(),
  wantsScan: fc.boolean(),
  retryDueMs: fc.integer({ min: now - 10, max: now + 10 }),
});

test('what holds for every job', () => {
  fc.assert(
    fc.property(anyView, (view) => {
      const step = stepOf(view, now);
      if (!view.hasConfiguration || !view.hasKey) assert.equal(step.kind, 'wait');
      // A broken baseline is only replaced on request.
      if (
        view.baseline === 'broken' &&
        (view.madeBy ?? view.provider) === view.provider &&
        step.kind === 'init'
      )
        assert.equal(step.reason, 'request');
      if (view.isHeld)
        assert.ok(step.kind !== 'check' && (step.kind !== 'init' || step.reason === 'request'));
      if (step.kind === 'check')
        assert.ok(view.baseline === 'ready' && (view.madeBy ?? view.provider) === view.provider);
      if (step.kind === 'wait' && step.for === 'time') {
        assert.ok(step.untilMs > now);
        // It does not wait for ever, nor for the same again.
        assert.notDeepEqual(stepOf(view, step.untilMs), step);
      }
    }),
    { numRuns: 5000 },
  );
});

test('scans that are due soon are made together', () => {
  const job = (name: string, part: Partial<JobView>) => {
    const view = { ...well, ...part };
    return { name, view, step: stepOf(view, now) };
  };
  const jobs = [
    job('due', due),
    job('at the edge', { checkDueMs: now + togetherShare * 100_000 }),
    job('too far', { checkDueMs: now + togetherShare * 100_000 + 1 }),
    job('far, of a long period', { gracePeriodMs: 1_000_000, checkDueMs: now + 200_000 }),
    job('held', { ...due, isHeld: true }),
    job('AIDE', { ...due, provider: 'aide', madeBy: 'aide' }),
    job('failed', { checkDueMs: now + 1, retryDueMs: now + 5 }),
    job('broken', { checkDueMs: now + 1, baseline: 'broken' }),
  ];
  const chosen = firstOf(jobs);
  assert.ok(chosen !== undefined);
  assert.deepEqual(
    checkedTogether(chosen, jobs, now).map(({ name }) => name),
    ['due', 'at the edge', 'far, of a long period'],
  );
});

test('quick work comes first, then what waits longest', () => {
  const job = (name: string, part: Partial<JobView>) => {
    const view = { ...well, ...part };
    return { name, view, step: stepOf(view, now) };
  };
  const jobs = [
    job('waits', {}),
    job('scan', due),
    job('older scan', { checkDueMs: now - 5 }),
    job('init', { requests: [reinit] }),
    job('look', { baseline: 'unknown' }),
  ];
  const order: string[] = [];
  for (let left = jobs; ;) {
    const next = firstOf(left);
    if (next === undefined) break;
    order.push(next.name);
    left = left.filter((one) => one !== next);
  }
  assert.deepEqual(order, ['look', 'init', 'older scan', 'scan']);
  assert.equal(wakeAtMs(jobs), now + 50_000);
  assert.equal(wakeAtMs([]), Infinity);
});
