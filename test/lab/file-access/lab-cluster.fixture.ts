/**
 * A cluster on this machine: `rampart apiserver`, `rampart operator`, and nodes, each a lab with a `rampart
 * agent`. The kubelet's part, the Pod objects, is done here.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

import { RampartProcess } from '../../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { installResources } from '../../../apps/resources.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { type Lease, leases, namespaces } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';
import {
  type KiveData,
  kiveDataNamespace,
  kiveDataType,
  type KivePolicy,
  kivePolicyType,
  type KiveTrap,
} from '../../../guards/file-access/api.ts';
import { pods as podType } from '../../../lib/kube/object/object.ts';
import { fileAccess } from '../../../guards/file-access/guard.ts';
import { readKernelId } from '../../../guard/kernel-id.ts';
import { type Lab, type LabContainer, type LabPod, startLab } from '../lab.ts';
import type { PodSpec } from '../pod-config.ts';
import { AgentProcess, type ReportedAlert } from './agent-process.fixture.ts';

const markerPolicy = 'marker';
const markerPath = '/marker';

export interface GuardedContainer {
  readonly pod: LabPod;
  readonly container: LabContainer;
}

/** The last argument of the process in an alert: which access of the test it is. */
export function accessOf({ process }: KiveAlert): string {
  return process.arguments.split(' ')[1] ?? '';
}

/** Reads a file by a process of its own with `number` among its arguments; see {@link accessOf}. */
export function readNumbered(path: string, number: number): void {
  const { status, stderr } = spawnSync('head', ['-n', String(number), path], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

/** A path of a container, as the host reaches it. */
export function pathIn({ pid }: LabContainer, path: string): string {
  return `/proc/${pid}/root${path}`;
}

/** A lab and the agent that guards it. */
export class LabNode implements AsyncDisposable {
  readonly name: string;
  readonly lab: Lab;
  readonly agent: AgentProcess;
  readonly #cluster: LabCluster;
  #marker: LabContainer | undefined;

  constructor(name: string, lab: Lab, agent: AgentProcess, cluster: LabCluster) {
    [this.name, this.lab, this.agent, this.#cluster] = [name, lab, agent, cluster];
  }

  /** Runs a pod and makes its object in the API. */
  async run(spec: PodSpec): Promise<GuardedContainer> {
    const pod = await this.lab.runPod(spec);
    await this.createObject(pod, spec);
    const [container] = pod.containers.values();
    if (container === undefined) throw new Error(`pod ${spec.name} has no container`);
    return { pod, container };
  }

  /** The object of a pod that the runtime has, as kubelet makes it of what it has not from the API. */
  async createObject(pod: LabPod, { labels = {} }: PodSpec): Promise<void> {
    const { client } = this.#cluster;
    const { name, namespace, uid } = pod;
    const object = {
      metadata: { name, namespace, labels, annotations: { 'kubernetes.io/config.hash': uid } },
      spec: {
        nodeName: this.name,
        containers: [...pod.containers.keys()].map((container) => ({ name: container, image: 'lab' })),
      },
    };
    await client.create(podType, object);
    const body = { status: { phase: 'Running', podIP: pod.ip } };
    await client.patch(podType, { namespace, name, subresource: 'status' }, { type: 'merge', body });
  }

  /** Ends a pod and deletes its object. */
  async remove({ pod }: GuardedContainer): Promise<void> {
    await this.lab.removePod(pod);
    await this.#cluster.client.delete(podType, { namespace: pod.namespace, name: pod.name });
  }

  async placeMarker(): Promise<void> {
    const { container } = await this.run({ name: `marker-${this.name}`, labels: { marker: 'yes' } });
    this.#marker = container;
  }

  /**
   * Reads the marker and waits for its alert: the sensor reports accesses in their order, so that all earlier
   * ones by the same process have been reported. Returns its place among the alerts of `by`.
   */
  async mark(by: AgentProcess = this.agent): Promise<number> {
    const before = by.reported.length;
    this.touchMarker();
    const isIt = (reported: ReportedAlert): boolean => this.#isMark(reported);
    await until(`the marker of ${this.name}`, () => by.reported.slice(before).some(isIt));
    return by.reported.findIndex((reported, at) => at >= before && isIt(reported));
  }

  /** The same, until one is reported: the agent may just have been started. */
  async markUntilReported(by: AgentProcess = this.agent, patienceMs?: number): Promise<void> {
    const before = by.reported.length;
    await until(
      `a marker of ${this.name}`,
      async () => {
        this.touchMarker();
        await delay(50);
        return by.reported.slice(before).some((reported) => this.#isMark(reported));
      },
      patienceMs,
    );
  }

  touchMarker(): void {
    if (this.#marker === undefined) throw new Error('no marker');
    readFileSync(pathIn(this.#marker, markerPath));
  }

  #isMark({ alert }: ReportedAlert): boolean {
    return (
      alert['kive-policy-name'] === markerPolicy &&
      alert.pod.name === `marker-${this.name}` &&
      alert.process.tgid === process.pid
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
    await this.lab[Symbol.asyncDispose]();
  }
}

export function isMarker({ alert }: ReportedAlert): boolean {
  return alert['kive-policy-name'] === markerPolicy;
}

/** Disposing it ends all processes and pods and removes all files. */
export class LabCluster implements AsyncDisposable {
  readonly directory = new TemporaryDirectory();
  readonly kernelId = readKernelId();
  readonly #stack = new AsyncDisposableStack();
  #server: RampartProcess | undefined;
  #operator: RampartProcess | undefined;
  #client: KubeClient | undefined;
  #port = '0';
  #pods = 0;

  /** Without a node. */
  static async start(): Promise<LabCluster> {
    const cluster = new LabCluster();
    try {
      await cluster.startApi();
      await installResources(cluster.client, [fileAccess], AbortSignal.timeout(60_000));
      cluster.#operator = new RampartProcess([
        ...['operator', '--guards', 'file-access', '--kubeconfig', cluster.kubeconfig, '--metrics', '0'],
      ]);
      await until('the namespace', () =>
        cluster.client.get(namespaces, { name: kiveDataNamespace }).then(
          () => true,
          (error: unknown) => !isNotFound(error),
        ),
      );
      await cluster.setPolicy(markerPolicy, [
        { path: markerPath, create: true, matchAny: [{ matchLabels: { marker: 'yes' } }] },
      ]);
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  get kubeconfig(): string {
    return this.directory.at('data/kubeconfig');
  }

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error('there is no API');
    return this.#client;
  }

  get operator(): RampartProcess {
    if (this.#operator === undefined) throw new Error('there is no operator');
    return this.#operator;
  }

  /** Starts the API server, again at the same port over the same data. */
  async startApi(): Promise<void> {
    const args = ['--data', this.directory.at('data'), '--listen', `127.0.0.1:${this.#port}`];
    for (let tries = 0; ; tries++) {
      try {
        this.#server = await RampartProcess.apiServer(...args);
        break;
      } catch (error) {
        // While nothing listens there, the port may be the near end of a connection of any other process.
        if (tries === 60 || !String(error).includes('EADDRINUSE')) throw error;
        await delay(500);
      }
    }
    const access = findClusterAccess({ path: this.kubeconfig });
    this.#port = access.server.port;
    this.#client?.[Symbol.dispose]();
    this.#client = new KubeClient(access, { perSecond: 1000, burst: 1000 });
  }

  async killApi(): Promise<void> {
    await this.#server?.kill();
  }

  /** SIGSTOP and SIGCONT: meanwhile connections are open without answers. */
  signalApi(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#server?.signal(signal);
  }

  /** Starts a lab and its agent; returns when the agent runs and the marker's file is there. */
  async addNode(name: string, ...args: readonly string[]): Promise<LabNode> {
    const lab = this.#stack.use(await startLab());
    const agent = new AgentProcess({
      nodeName: name,
      kubeconfig: this.kubeconfig,
      criSocket: lab.socketPath,
      spool: this.directory.at(`spool-${name}`),
      alertsSocket: this.directory.at(`${name}.sock`),
      args: ['--guards', 'file-access', ...args],
    });
    const node = this.#stack.use(new LabNode(name, lab, agent, this));
    agent.start();
    await node.placeMarker();
    this.#pods++;
    await this.dataCount(markerPolicy, this.#pods);
    return node;
  }

  /** Creates a policy for pods of all namespaces, or puts its traps in place of those it has. */
  async setPolicy(name: string, traps: readonly KiveTrap[]): Promise<KivePolicy> {
    const policy = { metadata: { name, namespace: kiveDataNamespace }, spec: { traps } };
    return await this.client.apply(kivePolicyType, policy, { fieldManager: 'test', force: true });
  }

  /** Undefined when it is gone. */
  async policy(name: string): Promise<KivePolicy | undefined> {
    try {
      return await this.client.get(kivePolicyType, { namespace: kiveDataNamespace, name });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Returns when the policy and all of its KiveData are gone. */
  async deletePolicy(name: string): Promise<void> {
    await this.client.delete(kivePolicyType, { namespace: kiveDataNamespace, name });
    await until(
      `${name} to be gone`,
      async () => (await this.policy(name)) === undefined && (await this.data(name)).length === 0,
    );
  }

  async data(policy: string): Promise<KiveData[]> {
    const { items } = await this.client.list(kiveDataType, { namespace: kiveDataNamespace });
    return items.filter(({ metadata }) => metadata.annotations?.['kive-policy-name'] === policy);
  }

  /** The KiveData of a policy when there are `count` of them and none is being deleted. */
  async dataCount(policy: string, count: number): Promise<KiveData[]> {
    return await until(`${count} KiveData of ${policy}`, async () => {
      const data = await this.data(policy);
      return data.length === count && data.every(({ metadata }) => !metadata.deletionTimestamp) && data;
    });
  }

  /** Lease of the loader of this kernel. */
  async lease(): Promise<NonNullable<Lease['spec']>> {
    const lease = await this.client.get(leases, { namespace: systemNamespace, name: this.kernelId });
    return lease.spec ?? {};
  }

  async holder(): Promise<string> {
    return (await this.lease()).holderIdentity ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
    this.#client?.[Symbol.dispose]();
    await this.#operator?.[Symbol.asyncDispose]();
    await this.#server?.[Symbol.asyncDispose]();
    this.directory[Symbol.dispose]();
  }
}
