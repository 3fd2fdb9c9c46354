import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { ContainerChange, NodeContainer } from './node-container.ts';
import { criSource, type WatchedContainers } from './cri-source.ts';

const pod = {
  id: 's1',
  name: 'nginx-pod',
  namespace: 'default',
  uid: 'u1',
  attempt: 0,
  state: 'ready',
  createdAtMs: 0,
  labels: {},
  annotations: {},
  ips: ['10.0.0.1', 'fd00::1'],
  hostNetwork: false,
} as const;

function container(id: string, more: Partial<NodeContainer> = {}): NodeContainer {
  return {
    id,
    podId: 's1',
    name: 'nginx',
    attempt: 0,
    image: 'nginx',
    state: 'running',
    createdAtMs: 0,
    labels: {},
    annotations: {},
    pod,
    process: { pid: 7, startTicks: 1 },
    root: '/proc/7/root',
    ...more,
  };
}

test('containers of the runtime that run and whose process is known', async () => {
  const containers = new Map<string, NodeContainer>();
  const listeners = new Set<(change: ContainerChange) => void>();
  const watch: WatchedContainers = {
    containers,
    synced: () => Promise.resolve(),
    onChange(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  };
  const source = criSource(watch, 'cri-o');
  await source.synced;
  containers.set('a', container('a'));
  containers.set('b', container('b', { state: 'exited', process: undefined, root: undefined }));
  containers.set('c', container('c', { process: undefined, root: undefined }));
  const expected = {
    id: 'cri-o://a',
    name: 'nginx',
    podName: 'nginx-pod',
    podNamespace: 'default',
    podUid: 'u1',
    podIp: '10.0.0.1',
    pid: 7,
    root: '/proc/7/root',
  };
  assert.deepEqual([...source.list()], [expected]);
  assert.deepEqual(source.get('cri-o://a'), expected);
  assert.equal(source.get('cri-o://b'), undefined);
  assert.equal(source.get('a'), undefined);
  assert.equal(source.get('containerd://a'), undefined);
  const reported: string[] = [];
  using subscription = source.subscribe((id) => reported.push(id));
  for (const listener of listeners) listener({ type: 'removed', container: container('d') });
  assert.deepEqual(reported, ['cri-o://d']);
  subscription[Symbol.dispose]();
  assert.equal(listeners.size, 0);
});
