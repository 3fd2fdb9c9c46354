/**
 * A cluster for tests of the controllers: the embedded API server, directories as the roots of containers, and the real
 * sensor.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import type { NodeContext } from '../../../guard/context.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { readKernelId } from '../../../guard/kernel-id.ts';
import {
  type GivenNode,
  type GivenProcess,
  runGivenCluster,
  runGivenNode,
} from '../../../guard/part.fixture.ts';
import { type Node, nodes, type Pod, pods } from '../../../lib/kube/object/object.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { events, type KubeEvent } from '../../../lib/kube/events/event-object.ts';
import type { KiveAlert } from '../alert/alert.ts';
import {
  type KiveData,
  kiveDataNamespace,
  kiveDataType,
  type KiveNodeStatus,
  kiveNodeStatusType,
  type KivePolicy,
  kivePolicyType,
  type KiveTrap,
} from '../api.ts';
import { type FileAccessClusterOptions, runFileAccessCluster } from '../cluster/run.ts';
import { fileAccess } from '../guard.ts';
import type { NodePart } from '../policy-status-schema.ts';
import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { runFileAccessNode } from './file-access-node.ts';
import type { FileAccessNodeOptions, NodeState } from './node-options.ts';

/** A node of the test's cluster. */
export interface TestNode {
  readonly name: string;
  readonly containers: GivenContainers;
  readonly lines: string[];
  readonly alerts: KiveAlert[];
  /** The last reported state. */
  readonly state: () => NodeState | undefined;
  /** Ends the agent; it gives back what it holds. */
  stop(): Promise<void>;
}

/** A container that was made, and its root. */
export interface TestContainer {
  readonly id: string;
  readonly root: string;
}

/** Disposing it stops all that was started and removes all that was made. */
export class TestCluster extends TestApi {
  readonly kernelId = readKernelId();

  /** @param options - `memory: false` for a test that stops the API and starts it again. */
  static async start({ namespace = true, memory = true } = {}): Promise<TestCluster> {
    const cluster = new TestCluster(await startTestApi({ name: 'file-access', memory }));
    await cluster.createNamespace('default');
    await cluster.createNamespace(systemNamespace);
    if (namespace) await cluster.createNamespace(kiveDataNamespace);
    await cluster.createDefinitions(fileAccess.resources);
    return cluster;
  }

  /** An agent of a node, ready. */
  async startNode(
    name: string,
    options: Partial<FileAccessNodeOptions & GivenNode & Pick<NodeContext, 'reportFacts'>> = {},
  ): Promise<TestNode> {
    const containers = (options.containers as GivenContainers | undefined) ?? new GivenContainers();
    const lines: string[] = [];
    let state: NodeState | undefined;
    const end = await this.runReady(
      (signal) =>
        runGivenNode(
          fileAccess,
          (context) =>
            runFileAccessNode(
              { ...context, ...(options.reportFacts && { reportFacts: options.reportFacts }) },
              {
                onState: (now) => {
                  state = now;
                },
                ...options,
              },
            ),
          {
            client: this.newClient(),
            nodeName: name,
            containers,
            sink: (line) => void lines.push(line),
            signal,
            logger: this.logger.child({ agent: name }),
            ...options,
          },
        ),
      () => state?.ready,
    );
    return {
      name,
      containers,
      lines,
      get alerts() {
        return lines.map((line) => JSON.parse(line) as KiveAlert);
      },
      state: () => state,
      stop: end,
    };
  }

  /** The operator; returns what stops it. */
  startOperator(options: Partial<FileAccessClusterOptions & GivenProcess> = {}): () => Promise<void> {
    return this.run((signal) =>
      runGivenCluster(fileAccess, (context) => runFileAccessCluster(context, options), {
        client: this.newClient(),
        signal,
        logger: this.logger.child({ operator: true }),
        ...options,
      }),
    );
  }

  createNode(name: string, bootID?: string): Promise<Node> {
    return this.client
      .create(nodes, { metadata: { name } })
      .then((node) =>
        bootID === undefined
          ? node
          : this.client.patch<Node>(
              nodes,
              { name, subresource: 'status' },
              { type: 'merge', body: { status: { nodeInfo: nodeInfo(bootID) } } },
            ),
      );
  }

  /** A running pod, and a container of it for each name, with files (path -> content) in each. */
  async createPod(
    node: Pick<TestNode, 'name' | 'containers'>,
    pod: {
      readonly name: string;
      readonly namespace?: string;
      readonly labels?: Readonly<Record<string, string>>;
      readonly ip?: string;
      readonly containers?: readonly string[];
      readonly files?: Readonly<Record<string, string>>;
      readonly phase?: string;
    },
  ): Promise<TestContainer[]> {
    const { name, namespace = 'default', labels, ip = '10.0.0.9', containers = ['main'], phase } = pod;
    const created = await this.client.create(pods, {
      metadata: { name, namespace, ...(labels && { labels: { ...labels } }) },
      spec: { nodeName: node.name, containers: containers.map((one) => ({ name: one, image: 'none' })) },
    });
    await this.setPodStatus(name, { phase: phase ?? 'Running', podIP: ip, podIPs: [{ ip }] }, namespace);
    return containers.map((one) => this.startContainer(node, created, one, ip, pod.files));
  }

  startContainer(
    node: Pick<TestNode, 'containers'>,
    { metadata }: Pod,
    name: string,
    ip: string,
    files: Readonly<Record<string, string>> = {},
  ): TestContainer {
    const id = `containerd://${randomBytes(32).toString('hex')}`;
    const root = join(this.directory, 'roots', id.slice(-64));
    mkdirSync(root, { recursive: true });
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), content);
    }
    node.containers.set({
      id,
      name,
      podName: metadata.name ?? '',
      podNamespace: metadata.namespace ?? '',
      podUid: metadata.uid ?? '',
      podIp: ip,
      pid: process.pid,
      root,
    });
    return { id, root };
  }

  setPodStatus(name: string, status: object, namespace = 'default'): Promise<Pod> {
    return this.client.patch(
      pods,
      { namespace, name, subresource: 'status' },
      { type: 'merge', body: { status } },
    );
  }

  createPolicy(name: string, ...traps: readonly KiveTrap[]): Promise<KivePolicy> {
    return this.client.create(kivePolicyType, {
      metadata: { name, namespace: kiveDataNamespace },
      spec: { traps },
    });
  }

  setTraps(name: string, ...traps: readonly KiveTrap[]): Promise<KivePolicy> {
    return this.client.patch(
      kivePolicyType,
      { namespace: kiveDataNamespace, name },
      { type: 'merge', body: { spec: { traps } } },
    );
  }

  getPolicy(name: string): Promise<KivePolicy | undefined> {
    return this.client.get(kivePolicyType, { namespace: kiveDataNamespace, name }).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
  }

  deletePolicy(name: string): Promise<unknown> {
    return this.client.delete(kivePolicyType, { namespace: kiveDataNamespace, name });
  }

  async data(): Promise<KiveData[]> {
    const { items } = await this.client.list(kiveDataType, { namespace: kiveDataNamespace });
    return items;
  }

  /** Waits until there are `count` KiveData, none of them being deleted. */
  dataCount(count: number): Promise<KiveData[]> {
    return until(`${count} KiveData`, async () => {
      const all = await this.data();
      return all.length === count && all.every(({ metadata }) => !metadata.deletionTimestamp) && all;
    });
  }

  async nodeStatuses(): Promise<KiveNodeStatus[]> {
    const { items } = await this.client.list(kiveNodeStatusType, { namespace: kiveDataNamespace });
    return items;
  }

  /** The nodes' reports on a policy. */
  async parts(policy: string, of: string = kiveDataNamespace): Promise<NodePart[]> {
    return (await this.nodeStatuses()).flatMap(({ metadata, policies }) =>
      policies
        .filter(({ namespace, name }) => namespace === of && name === policy)
        .map((part) => ({ ...part, node: metadata.name ?? '' })),
    );
  }

  async events(): Promise<KubeEvent[]> {
    const { items } = await this.client.list(events, { namespace: kiveDataNamespace });
    return items;
  }
}

function nodeInfo(bootID: string): object {
  const names = [
    'architecture',
    'containerRuntimeVersion',
    'kernelVersion',
    'kubeProxyVersion',
    'kubeletVersion',
    'machineID',
    'operatingSystem',
    'osImage',
    'systemUUID',
  ];
  return { ...Object.fromEntries(names.map((name) => [name, ''])), bootID };
}

/** Reads a file by another process: the agent's own accesses are no alerts. */
export function readByCat(path: string): void {
  execFileSync('cat', [path], { stdio: 'ignore' });
}

/**
 * Reads until there is an alert of it, and hands out that: between the KiveData and the sensor is a moment.
 */
export async function alertOf(
  node: TestNode,
  path: string,
  matches: (alert: KiveAlert) => boolean,
): Promise<KiveAlert> {
  return await until('an alert', async () => {
    readByCat(path);
    await delay(30);
    return node.alerts.find(matches);
  });
}
