import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { cells } from '../builtin.fixture.ts';

const now = new Date('2026-01-01T01:00:00Z');
const metadata = { name: 'x', creationTimestamp: '2026-01-01T00:00:00Z' };
const terminated = (exitCode: number, reason?: string): object => ({
  terminated: { exitCode, ...(reason === undefined ? {} : { reason }) },
});
const running = { running: {} };

interface PodCase {
  readonly what: string;
  readonly spec?: object;
  readonly status: object;
  readonly meta?: object;
  /** Ready, Status, Restarts */
  readonly shown: readonly [string, string, string];
}

const one = { containers: [{ name: 'a' }] };
const two = { containers: [{ name: 'a' }, { name: 'b' }] };

/** As printers_test.go of Kubernetes has them (TestPrintPod and its like). */
const pods: readonly PodCase[] = [
  { what: 'new', status: { phase: 'Pending' }, shown: ['0/1', 'Pending', '0'] },
  {
    what: 'running',
    status: {
      phase: 'Running',
      containerStatuses: [{ name: 'a', ready: true, restartCount: 0, state: running }],
    },
    shown: ['1/1', 'Running', '0'],
  },
  {
    what: 'crashing',
    status: {
      phase: 'Running',
      containerStatuses: [
        {
          name: 'a',
          ready: false,
          restartCount: 5,
          state: { waiting: { reason: 'CrashLoopBackOff' } },
          lastState: { terminated: { exitCode: 1, finishedAt: '2026-01-01T00:57:00Z' } },
        },
      ],
    },
    shown: ['0/1', 'CrashLoopBackOff', '5 (3m ago)'],
  },
  {
    what: 'completed',
    status: {
      phase: 'Succeeded',
      containerStatuses: [{ name: 'a', restartCount: 0, state: terminated(0, 'Completed') }],
    },
    shown: ['0/1', 'Completed', '0'],
  },
  {
    what: 'half completed',
    spec: two,
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'False' }],
      containerStatuses: [
        { name: 'a', restartCount: 0, state: terminated(0, 'Completed') },
        { name: 'b', ready: true, restartCount: 0, state: running },
      ],
    },
    shown: ['1/2', 'NotReady', '0'],
  },
  {
    what: 'ended without a reason',
    status: { phase: 'Failed', containerStatuses: [{ name: 'a', restartCount: 0, state: terminated(3) }] },
    shown: ['0/1', 'ExitCode:3', '0'],
  },
  {
    what: 'ended by a signal',
    status: {
      phase: 'Failed',
      containerStatuses: [{ name: 'a', restartCount: 0, state: { terminated: { exitCode: 0, signal: 9 } } }],
    },
    shown: ['0/1', 'Signal:9', '0'],
  },
  {
    what: 'in its first init container',
    spec: { ...one, initContainers: [{ name: 'i' }, { name: 'j' }] },
    status: {
      phase: 'Pending',
      initContainerStatuses: [
        { name: 'i', restartCount: 0, state: running },
        { name: 'j', restartCount: 0 },
      ],
    },
    shown: ['0/1', 'Init:0/2', '0'],
  },
  {
    what: 'in its second init container',
    spec: { ...one, initContainers: [{ name: 'i' }, { name: 'j' }] },
    status: {
      phase: 'Pending',
      initContainerStatuses: [
        { name: 'i', restartCount: 1, state: terminated(0) },
        { name: 'j', restartCount: 2, state: { waiting: { reason: 'PodInitializing' } } },
      ],
    },
    shown: ['0/1', 'Init:1/2', '3'],
  },
  {
    what: 'failing to begin',
    spec: { ...one, initContainers: [{ name: 'i' }] },
    status: {
      phase: 'Pending',
      initContainerStatuses: [
        { name: 'i', restartCount: 4, state: { waiting: { reason: 'CrashLoopBackOff' } } },
      ],
    },
    shown: ['0/1', 'Init:CrashLoopBackOff', '4'],
  },
  {
    what: 'with an init container that has failed',
    spec: { ...one, initContainers: [{ name: 'i' }] },
    status: {
      phase: 'Failed',
      initContainerStatuses: [{ name: 'i', restartCount: 0, state: terminated(1, 'Error') }],
    },
    shown: ['0/1', 'Init:Error', '0'],
  },
  {
    what: 'with a sidecar',
    spec: { ...one, initContainers: [{ name: 'i', restartPolicy: 'Always' }] },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Initialized', status: 'True' }],
      initContainerStatuses: [{ name: 'i', ready: true, started: true, restartCount: 2, state: running }],
      containerStatuses: [{ name: 'a', ready: true, restartCount: 1, state: running }],
    },
    shown: ['2/2', 'Running', '3'],
  },
  {
    what: 'being deleted',
    meta: { deletionTimestamp: '2026-01-01T00:59:00Z' },
    status: {
      phase: 'Running',
      containerStatuses: [{ name: 'a', ready: true, restartCount: 0, state: running }],
    },
    shown: ['1/1', 'Terminating', '0'],
  },
  {
    what: 'being deleted after its end',
    meta: { deletionTimestamp: '2026-01-01T00:59:00Z' },
    status: { phase: 'Succeeded' },
    shown: ['0/1', 'Succeeded', '0'],
  },
  {
    what: 'on a node that is lost',
    meta: { deletionTimestamp: '2026-01-01T00:59:00Z' },
    status: { phase: 'Running', reason: 'NodeLost' },
    shown: ['0/1', 'Unknown', '0'],
  },
  { what: 'evicted', status: { phase: 'Failed', reason: 'Evicted' }, shown: ['0/1', 'Evicted', '0'] },
  {
    what: 'waiting for a gate',
    status: {
      phase: 'Pending',
      conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulingGated' }],
    },
    shown: ['0/1', 'SchedulingGated', '0'],
  },
];

suite('Pods', () => {
  for (const { what, spec = one, status, meta = {}, shown } of pods) {
    test(what, () => {
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, ...meta }, spec, status };
      const [Ready, Status, Restarts] = shown;
      assert.deepEqual(cells(pod, now), { Name: 'x', Ready, Status, Restarts, Age: '60m' });
    });
  }

  test('wide', () => {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata,
      spec: { ...one, nodeName: 'n1', readinessGates: [{ conditionType: 'g' }, { conditionType: 'h' }] },
      status: { phase: 'Running', podIPs: [{ ip: '10.0.0.7' }], conditions: [{ type: 'g', status: 'True' }] },
    };
    const { IP, Node, 'Nominated Node': nominated, 'Readiness Gates': gates } = cells(pod, now, true);
    assert.deepEqual(
      { IP, Node, nominated, gates },
      { IP: '10.0.0.7', Node: 'n1', nominated: '<none>', gates: '1/2' },
    );
  });
});
