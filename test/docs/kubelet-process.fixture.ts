/**
 * The one node of a cluster of `rampart apiserver`, for the guides: what the DaemonSet and the Deployment of deploy/ run are processes here,
 * whose files and network are those that their pods would mount and have.
 *
 *     node kubelet-process.fixture.ts KUBECONFIG
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { join } from 'node:path';

import { systemNamespace } from '../../guard/guard.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { isAlreadyExists, orUndefined } from '../../lib/kube/client/client-errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import {
  type DaemonSet,
  daemonSets,
  type Deployment,
  deployments,
  nodes,
  type ResourceType,
} from '../../lib/kube/object/object.ts';
import { sleep, systemClock } from '../../lib/time/clock.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const nodeName = 'n1';
const POLL_MS = 200;

const [kubeconfig = ''] = process.argv.slice(2);
using client = new KubeClient(findClusterAccess({ path: kubeconfig }));

interface Workload {
  readonly type: ResourceType<DaemonSet | Deployment>;
  readonly name: string;
  /** Once one pod of it is ready. */
  readonly status: object;
}

const workloads: readonly Workload[] = [
  {
    ...{ type: daemonSets, name: 'rampart-agent' },
    status: {
      ...{ currentNumberScheduled: 1, desiredNumberScheduled: 1, numberMisscheduled: 0 },
      ...{ numberReady: 1, updatedNumberScheduled: 1, numberAvailable: 1 },
    },
  },
  {
    ...{ type: deployments, name: 'rampart-operator' },
    status: { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 },
  },
];

function start(name: string, args: readonly string[]): ChildProcess {
  const log = openSync(`/run/${name}.log`, 'a');
  // Each pod has ports of its own.
  const own = args.filter((arg) => !arg.startsWith('--metrics=')).map((arg) => arg.replace('/hostroot', '/'));
  return spawn(rampart, own, {
    stdio: ['ignore', log, log],
    env: { ...process.env, KUBECONFIG: kubeconfig, NODE_NAME: nodeName },
  });
}

async function run({ type, name, status }: Workload): Promise<never> {
  let child: ChildProcess | undefined;
  let started: number | undefined;
  for (;;) {
    const found = await orUndefined(client.get(type, { namespace: systemNamespace, name }));
    const generation = found?.metadata.generation;
    if (generation !== started) {
      started = generation;
      if (child !== undefined && child.exitCode === null) {
        child.kill();
        await once(child, 'exit');
      }
      const args = found?.spec?.template.spec?.containers[0]?.args;
      child = args && start(name, args);
    }
    if (found !== undefined && found.status?.observedGeneration !== generation) {
      const body = { status: { observedGeneration: generation, ...status } };
      const target = { namespace: systemNamespace, name, subresource: 'status' };
      await orUndefined(client.patch(type, target, { type: 'merge', body }));
    }
    await sleep(systemClock, POLL_MS);
  }
}

await client.create(nodes, { metadata: { name: nodeName } }).catch((error: unknown) => {
  if (!isAlreadyExists(error)) throw error;
});
const conditions = [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: '' }];
await client.patch(
  nodes,
  { name: nodeName, subresource: 'status' },
  { type: 'merge', body: { status: { conditions } } },
);
await Promise.all(workloads.map(run));
