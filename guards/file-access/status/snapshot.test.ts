import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runningPod } from './snapshot.ts';

test('of pods those that run, with the containers that do', () => {
  const pod = (phase: string, more: object = {}) => ({
    metadata: { name: 'p', namespace: 'shop', labels: { a: 'b' } },
    spec: { nodeName: 'n1', containers: [{ name: 'web' }, { name: 'side' }] },
    status: { phase, podIP: '10.0.0.1', ...more },
  });
  const told = {
    containerStatuses: [
      { name: 'web', state: { running: {} } },
      { name: 'side', state: { waiting: {} } },
    ],
    ephemeralContainerStatuses: [{ name: 'debug', state: { running: {} } }],
  };
  assert.deepEqual(runningPod(pod('Running', told))?.containers, ['web', 'debug']);
  assert.deepEqual(runningPod(pod('Running')), {
    view: {
      metadata: { name: 'p', namespace: 'shop', labels: { a: 'b' } },
      status: { podIP: '10.0.0.1', podIPs: undefined },
    },
    nodeName: 'n1',
    containers: ['web', 'side'],
  });
  assert.equal(runningPod(pod('Succeeded')), undefined);
  assert.equal(runningPod({ metadata: { name: 'waits' }, status: { phase: 'Running' } }), undefined);
});
