import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../testing/fast-check.fixture.ts';
import { ManualClock } from '../../time/clock.fixture.ts';
import {
  type Condition,
  type ConditionChange,
  findCondition,
  isConditionTrue,
  removeCondition,
  setCondition,
} from './conditions.ts';

const ready: ConditionChange = { type: 'Ready', status: 'True', reason: 'Watching', observedGeneration: 3 };

suite('conditions', () => {
  test('a new condition, then the same: nothing to write', async () => {
    const clock = new ManualClock(0);
    const first = setCondition(undefined, ready, clock);
    assert.deepEqual(first, [{ ...ready, message: '', lastTransitionTime: '2030-01-01T00:00:00Z' }]);
    await clock.advance(60_000);
    assert.equal(setCondition(first, ready, clock), first);
  });

  test('the time of the transition changes with the status only', async () => {
    const clock = new ManualClock(0);
    let list = setCondition([], ready, clock);
    await clock.advance(60_500);
    list = setCondition(list, { ...ready, reason: 'Other', message: 'm', observedGeneration: 4 }, clock);
    assert.deepEqual(list, [
      {
        ...ready,
        reason: 'Other',
        message: 'm',
        observedGeneration: 4,
        lastTransitionTime: '2030-01-01T00:00:00Z',
      },
    ]);
    list = setCondition(list, { ...ready, status: 'Unknown' }, clock);
    assert.equal(list[0]?.lastTransitionTime, '2030-01-01T00:01:00Z');
  });

  test('without a generation, none is kept', () => {
    const list = setCondition(setCondition([], ready), { ...ready, observedGeneration: undefined });
    assert.equal(Object.hasOwn(list[0] ?? {}, 'observedGeneration'), false);
  });

  test('removed, found, true for a generation', () => {
    const list = setCondition([], ready);
    assert.equal(removeCondition(list, 'Other'), list);
    assert.deepEqual(removeCondition(list, 'Ready'), []);
    assert.deepEqual(removeCondition(undefined, 'Ready'), []);
    assert.equal(findCondition(undefined, 'Ready'), undefined);
    assert.equal(isConditionTrue(list, 'Ready'), true);
    assert.equal(isConditionTrue(list, 'Ready', 3), true);
    assert.equal(isConditionTrue(list, 'Ready', 4), false);
    assert.equal(
      isConditionTrue(setCondition(list, { ...ready, observedGeneration: undefined }), 'Ready', 4),
      true,
    );
    assert.equal(isConditionTrue(setCondition(list, { ...ready, status: 'False' }), 'Ready'), false);
    assert.equal(isConditionTrue(list, 'Other'), false);
  });

  test('a message that is too long is cut, and is the same when set again', () => {
    const change = { ...ready, message: '🙂'.repeat(40_000) };
    const list = setCondition([], change);
    assert.equal(Array.from(list[0]?.message ?? '').length, 32_768);
    assert.equal(setCondition(list, change), list);
    const whole = { ...ready, message: '🙂'.repeat(32_768) };
    assert.equal(setCondition([], whole)[0]?.message, whole.message);
  });

  test('invisible characters of a message are escaped, and setting it again changes nothing', () => {
    const change = { ...ready, message: '/srv/a\u202egpj.exe is missing\u001b[2J' };
    const list = setCondition([], change);
    assert.equal(list[0]?.message, '/srv/a\\u202egpj.exe is missing\\u001b[2J');
    assert.equal(setCondition(list, change), list);
  });

  for (const wrong of [
    { type: '' },
    { type: 'is ready' },
    { type: 'a'.repeat(317) },
    { type: '/Ready' },
    { reason: '' },
    { reason: 'not camel' },
    { reason: 'Ends:' },
    { reason: 'a'.repeat(1025) },
    { observedGeneration: -1 },
  ]) {
    test(`refuses ${JSON.stringify(wrong).slice(0, 60)}`, () => {
      assert.throws(() => setCondition([], { ...ready, ...wrong }), { code: 'RAMPART_INPUT' });
    });
  }

  test('takes a type with a domain', () => {
    assert.equal(setCondition([], { ...ready, type: 'example.com/Ready.v1' }).length, 1);
  });

  test('any changes: the order stays, one of each type, the time is that of the last change of the status', async () => {
    const change = fc.record({
      type: fc.constantFrom('A', 'B', 'C'),
      status: fc.constantFrom('True' as const, 'False' as const, 'Unknown' as const),
      reason: fc.constantFrom('X', 'Y'),
      observedGeneration: fc.option(fc.nat(2), { nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(change, fc.constantFrom('A', 'B', 'C'))), async (steps) => {
        const clock = new ManualClock(0);
        let list: readonly Condition[] = [];
        const order: string[] = [];
        const since = new Map<string, { status: string; time: string }>();
        for (const step of steps) {
          await clock.advance(1000);
          const before = JSON.stringify(list);
          const next =
            typeof step === 'string' ? removeCondition(list, step) : setCondition(list, step, clock);
          assert.equal(JSON.stringify(list), before, 'the old list is left alone');
          assert.equal(next === list, JSON.stringify(next) === before);
          list = next;
          if (typeof step === 'string') {
            since.delete(step);
            if (order.includes(step)) order.splice(order.indexOf(step), 1);
            continue;
          }
          if (!order.includes(step.type)) order.push(step.type);
          if (since.get(step.type)?.status !== step.status) {
            const time = new Date(clock.wallMs()).toISOString().replace('.000Z', 'Z');
            since.set(step.type, { status: step.status, time });
          }
        }
        assert.deepEqual(
          list.map(({ type, status, lastTransitionTime }) => [type, status, lastTransitionTime]),
          order.map((type) => [type, since.get(type)?.status, since.get(type)?.time]),
        );
      }),
    );
  });
});
