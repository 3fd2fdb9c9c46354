/** A node with real containers and a Kubernetes API, for an agent to measure. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { parse } from 'yaml';

import { systemNamespace } from '../../guard/guard.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isAlreadyExists } from '../../lib/kube/client/client-errors.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { customResourceDefinitions, established } from '../../lib/kube/crd/established.ts';
import { type KubeObject, namespaces } from '../../lib/kube/object/object.ts';
import { kiveDataNamespace, kivePolicyType, type KiveTrap } from '../../guards/file-access/api.ts';
import { pods as podType } from '../../lib/kube/object/object.ts';
import { type Lab, type LabContainer, startLab } from '../../test/lab/lab.ts';
import { ServerProcess } from '../apiserver/server-process.ts';

export const nodeName = 'bench-node';
const CRDS = join(import.meta.dirname, '../../deploy/guards/file-access/crd');
const CRD_WAIT_MS = 10_000;
/** Pods that are started at a time. */
const AT_A_TIME = 4;

export interface SceneOptions {
  readonly pods: number;
  readonly containersPerPod: number;
  readonly signal: AbortSignal;
}

/** A container of the scene. */
export interface SceneContainer extends LabContainer {
  readonly pod: string;
  /** With its runtime, as alerts have it. */
  readonly fullId: string;
}

/** Disposing it ends the containers and the server, and removes their files. */
export class Scene implements AsyncDisposable {
  readonly server: ServerProcess;
  readonly client: KubeClient;
  readonly lab: Lab;
  readonly containers: readonly SceneContainer[];
  readonly #stack: AsyncDisposableStack;

  private constructor(
    server: ServerProcess,
    client: KubeClient,
    lab: Lab,
    containers: readonly SceneContainer[],
    stack: AsyncDisposableStack,
  ) {
    [this.server, this.client, this.lab, this.containers, this.#stack] = [
      server,
      client,
      lab,
      containers,
      stack,
    ];
  }

  /**
   * Containers `c0`, `c1`, ... in pods `pod-0`, `pod-1`, ... that have the label `pod` with their name.
   *
   * @throws where containers cannot be run, see test/lab.
   */
  static async start({ pods, containersPerPod, signal }: SceneOptions): Promise<Scene> {
    const stack = new AsyncDisposableStack();
    try {
      const server = stack.use(new ServerProcess());
      await server.start(signal);
      const access = findClusterAccess({ path: server.kubeconfig });
      const client = stack.use(new KubeClient(access, { perSecond: 1000, burst: 1000 }));
      await prepareCluster(client, signal);
      const lab = stack.use(await startLab({ subnet: '192.168.0.0/22', signal }));
      const containers: SceneContainer[] = [];
      let next = 0;
      const startPods = async (): Promise<void> => {
        while (next < pods) {
          signal.throwIfAborted();
          containers.push(...(await startPod(lab, client, next++, containersPerPod)));
        }
      };
      await Promise.all(Array.from({ length: AT_A_TIME }, startPods));
      return new Scene(server, client, lab, containers, stack);
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  /** Resolves when the API has acknowledged it. */
  async createPolicy(name: string, traps: readonly KiveTrap[]): Promise<void> {
    await this.client.create(kivePolicyType, { metadata: { name, namespace: 'default' }, spec: { traps } });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** The resources and the namespace; the operator creates the namespace, if it runs. */
export async function prepareCluster(client: KubeClient, signal: AbortSignal): Promise<void> {
  for (const name of ['default', systemNamespace, kiveDataNamespace]) {
    await client.create(namespaces, { metadata: { name } }).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }
  for (const file of readdirSync(CRDS)) {
    const definition = parse(readFileSync(join(CRDS, file), 'utf8')) as KubeObject;
    await client.create(customResourceDefinitions, definition as never);
    await established(client, definition.metadata.name ?? '', { timeoutMs: CRD_WAIT_MS, signal });
  }
}

async function startPod(
  lab: Lab,
  client: KubeClient,
  number: number,
  containers: number,
): Promise<SceneContainer[]> {
  const name = `pod-${number}`;
  const names = Array.from({ length: containers }, (_, index) => `c${index}`);
  const labels = { pod: name };
  const command = ['sleep', '1000000'];
  const pod = await lab.runPod({ name, labels, containers: names.map((one) => ({ name: one, command })) });
  await client.create(podType, {
    metadata: {
      name,
      namespace: 'default',
      labels,
      // The API gives the object another uid; as of a static pod, this is the one that the runtime knows.
      annotations: { 'kubernetes.io/config.hash': pod.uid },
    },
    spec: { nodeName, containers: names.map((one) => ({ name: one, image: 'lab' })) },
  });
  const status = { phase: 'Running', podIP: pod.ip, podIPs: [{ ip: pod.ip }] };
  await client.patch(
    podType,
    { namespace: 'default', name, subresource: 'status' },
    { type: 'merge', body: { status } },
  );
  return [...pod.containers.values()].map((one) => ({
    ...one,
    pod: name,
    fullId: `containerd://${one.id}`,
  }));
}
