import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Health } from '../lib/telemetry/health.ts';
import { defineGuard, type Guard } from './guard.ts';
import { reportOfRuntime } from './guard-process.ts';
import { GuardStates } from './guard-states.ts';

const gate: Guard = defineGuard({
  ...{ name: 'gate', summary: 'opens and closes', resources: [], rights: {}, parse: () => undefined },
  containers: 'needed',
});

suite('reports of a process about its container runtime', () => {
  test('a silent runtime is an obstacle to guards that need it; a missing one is a remark', () => {
    const runtime: { problem: string | undefined; absence: string | undefined } = {
      problem: 'not asked yet',
      absence: undefined,
    };
    const [health, states] = [new Health(), new GuardStates(['gate', 'other'])];
    reportOfRuntime([gate, { ...gate, name: 'other', containers: 'used' }], runtime, { health, states });
    for (const name of ['gate', 'other']) states.set(name, { state: 'running' });
    const reported = (): unknown => JSON.parse(states.text());
    const running = { gate: { state: 'running' }, other: { state: 'running' } };
    const away = { ...running, gate: { state: 'unavailable', reason: 'not asked yet' } };
    assert.deepEqual(reported(), away);
    runtime.problem = runtime.absence = 'no socket';
    assert.deepEqual(reported(), running);
    assert.deepEqual(health.readiness(), { ok: true, text: '[+] container-runtime: no socket\nready\n' });
    [runtime.problem, runtime.absence] = [undefined, undefined];
    assert.deepEqual(reported(), running);
    assert.deepEqual(health.readiness(), { ok: true, text: '[+] container-runtime\nready\n' });
    [runtime.problem, runtime.absence] = ['not asked yet', undefined];
    assert.deepEqual(reported(), away);
    assert.equal(health.readiness().ok, false);
  });
});
