/** Pods of a cluster of a test, with processes of this machine. */
import { type ChildProcess, spawn } from 'node:child_process';

import { type Pod, pods } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { networkOf } from '../kernel/lab.fixture.ts';
import type { BpfCluster } from './node.fixture.ts';

/** A process of another network namespace, as the first one of a container. */
export async function otherNetwork(stack: AsyncDisposableStack): Promise<number> {
  const child: ChildProcess = spawn('unshare', ['--net', 'sleep', '600'], { stdio: 'ignore' });
  stack.defer(() => void child.kill('SIGKILL'));
  await until('a network of its own', () => networkOf(child) !== networkOf(process));
  return child.pid ?? 0;
}

interface StartedPod {
  readonly namespace: string;
  readonly name: string;
  readonly app: string;
  readonly pid: number;
  readonly containers: readonly string[];
}

export async function startPod(
  cluster: BpfCluster,
  { namespace, name, app, pid, containers }: StartedPod,
): Promise<Pod> {
  const pod = await cluster.client.create(pods, {
    metadata: { namespace, name, labels: { app } },
    spec: {
      nodeName: 'n1',
      containers: containers.map((one) => ({ name: one, image: 'registry.example/x' })),
    },
  });
  for (const container of containers) {
    cluster.containers.set(`containerd://${namespace}-${name}-${container}`, {
      id: `containerd://${namespace}-${name}-${container}`,
      name: container,
      podName: name,
      podNamespace: namespace,
      podUid: pod.metadata.uid ?? '',
      podIp: '10.0.0.1',
      pid,
      root: `/proc/${pid}/root`,
    });
  }
  return pod;
}
