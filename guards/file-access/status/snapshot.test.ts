import assert from 'node:assert/strict';
import { test } from 'node:test';

import { processWith } from '../../../guard/processes.fixture.ts';
import { leaseOf, nowMs } from './snapshot.fixture.ts';
import { runningPod, withAgents } from './snapshot.ts';

test('lists running pods with their running containers', () => {
  const pod = (phase: string, more: object = {}) => ({
    metadata: { name: 'p', namespace: 'shop', labels: { a: 'b' } },
    spec: { nodeName: 'n1', containers: [{ name: 'web' }, { name: 'side' }] },
    status: { phase, podIP: '10.0.0.1', ...more },
  });
  const reported = {
    containerStatuses: [
      { name: 'web', state: { running: { startedAt: '2026-11-21T11:59:29Z' } } },
      { name: 'side', state: { waiting: {} } },
    ],
    ephemeralContainerStatuses: [
      { name: 'debug', state: { running: { startedAt: '2026-11-21T11:59:31Z' } } },
      { name: 'unsaid', state: { running: {} } },
    ],
  };
  const running = runningPod(pod('Running', reported), nowMs);
  assert.deepEqual(running?.containers, ['web', 'debug', 'unsaid']);
  assert.deepEqual(running.settled, ['web']);
  assert.deepEqual(runningPod(pod('Running'), nowMs), {
    view: {
      metadata: { name: 'p', namespace: 'shop', labels: { a: 'b' } },
      status: { podIP: '10.0.0.1', podIPs: undefined },
    },
    nodeName: 'n1',
    containers: ['web', 'side'],
    settled: [],
  });
  assert.equal(runningPod(pod('Succeeded'), nowMs), undefined);
  assert.equal(runningPod({ metadata: { name: 'waits' }, status: { phase: 'Running' } }, nowMs), undefined);
});

test('the lease of a kernel that its holder need not renew counts as long as that agent says that it loads', () => {
  const lease = leaseOf('k', 'n1', 3_600_000, false);
  const state = (loads: boolean, isRenewed: boolean): boolean | undefined => {
    const guards = new Map([['file-access', { state: 'running', reason: '', facts: { loads } } as const]]);
    const agent = { ...processWith({}, { guards, isRenewed }), nodeName: 'n1', renewedSecondsAgo: 4 };
    const [reported] = withAgents([lease], [agent]) ?? [];
    assert.equal(reported?.renewedSecondsAgo, reported?.isRenewed === true ? 4 : 3600);
    return reported.isRenewed;
  };
  assert.deepEqual(
    [state(true, true), state(false, true), state(true, false), withAgents([lease], [])],
    [true, false, false, [lease]],
  );
  assert.equal(withAgents(undefined, []), undefined);
});
