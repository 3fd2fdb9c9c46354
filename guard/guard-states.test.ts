import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { GuardStates } from './guard-states.ts';

suite('the states of guards', () => {
  test('changed facts are reported, except for numbers', () => {
    const states = new GuardStates();
    let reported = 0;
    using _listening = states.onChange(() => reported++);
    const steps = [
      [{ backend: 'a', ok: true, syncs: 1 }, 1],
      [{ backend: 'a', ok: true, syncs: 2 }, 1],
      [{ backend: 'a', ok: false, syncs: 2 }, 2],
      [{ backend: 'b', ok: false, syncs: 2 }, 3],
      [{ ok: false, syncs: 2 }, 4],
    ] as const;
    for (const [facts, expected] of steps) {
      states.setFacts('one', facts);
      assert.equal(reported, expected, JSON.stringify(facts));
    }
  });

  test('the annotation of a lease: all guards that run here, with what they say as long as they run', () => {
    const states = new GuardStates(['one', 'two', 'three']);
    let files = 1;
    states.set('one', { state: 'running' });
    states.setFacts('one', () => ({ files: files++ }));
    states.set('two', { state: 'waiting', reason: 'x'.repeat(600) });
    states.setFacts('two', { lost: 3 });
    const read = (): unknown => JSON.parse(states.text());
    const rest = { two: { state: 'waiting', reason: 'x'.repeat(500) }, three: { state: 'starting' } };
    assert.deepEqual(read(), { one: { state: 'running', facts: { files: 1 } }, ...rest });
    assert.deepEqual(read(), { one: { state: 'running', facts: { files: 2 } }, ...rest });
  });

  test('a running guard is reported as starting until it is ready, and never again after that', () => {
    const states = new GuardStates(['one']);
    let problem: string | undefined = 'not listed yet';
    const reported = (): unknown => JSON.parse(states.text());
    states.untilReady('one', () => problem);
    states.set('one', { state: 'running' });
    states.setFacts('one', { loads: true });
    assert.deepEqual(
      [reported(), states.notReady()],
      [{ one: { state: 'starting', reason: 'not listed yet' } }, 1],
    );
    problem = undefined;
    const running = { one: { state: 'running', facts: { loads: true } } };
    assert.deepEqual([reported(), states.notReady()], [running, 0]);
    problem = 'the runtime does not respond';
    assert.deepEqual(reported(), running);
  });

  test('a guard that has lost a requirement is reported as unavailable until it has it again', () => {
    const states = new GuardStates(['one']);
    let problem: string | undefined;
    const reported = (): unknown => JSON.parse(states.text());
    states.setObstacle('one', () => problem);
    assert.deepEqual(reported(), { one: { state: 'starting' } });
    states.set('one', { state: 'running' });
    assert.deepEqual(reported(), { one: { state: 'running' } });
    problem = 'the runtime does not respond';
    assert.deepEqual(reported(), { one: { state: 'unavailable', reason: problem } });
    problem = undefined;
    assert.deepEqual(reported(), { one: { state: 'running' } });
  });

  test('a state is reported once, and not to ended listeners', () => {
    const states = new GuardStates();
    let reported = 0;
    const listening = states.onChange(() => reported++);
    assert.equal(states.set('one', { state: 'waiting', reason: 'no CRD' }), true);
    assert.equal(states.set('one', { state: 'waiting', reason: 'no CRD' }), false);
    listening[Symbol.dispose]();
    assert.equal(states.set('one', { state: 'running' }), true);
    assert.equal(reported, 1);
  });
});
