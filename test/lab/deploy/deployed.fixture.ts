/**
 * deploy/ on this machine: a server with all of it applied, and a lab as its only node, where the pods of its manifests run as
 * kubelet would run them.
 */
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

import type { V1PodSpec } from '@kubernetes/client-node';

import { systemNamespace } from '../../../guard/guard.ts';
import { Cluster } from '../../../apps/agent/deploy.fixture.ts';
import { kustomize, type Manifest } from '../../../scripts/kustomize.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { mountPublicCheckout, publicPath } from '../../../lib/testing/public-checkout.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  type ConfigMap,
  configMaps,
  deployments,
  nodes,
  pods as podType,
  type Secret,
  secrets,
} from '../../../lib/kube/object/object.ts';
import { images } from '../image.ts';
import { type ExecResult, type Lab, type LabContainer, type LabPod, startLab } from '../lab.ts';
import type { PodSpec } from '../pod-config.ts';
import { type KubeletPod, kubeletPod, type NodeFacts } from './kubelet.fixture.ts';
import { ServiceAccounts } from './service-accounts.fixture.ts';

/** An archive of the image, as made by `npm run image`; without one, the checkout replaces it. */
const { RAMPART_IMAGE: givenArchive } = process.env;
const program = '/opt/rampart/bin/rampart';
const checkout = join(import.meta.dirname, '../../..');
const nodeName = 'lab-node';

const PATIENCE_MS = 60_000;

type Workload = 'rampart-agent' | 'rampart-operator';

/** A pod of deploy/, with what kubelet knows of it. Disposing it kills it; the rest goes with the lab. */
export class DeployedPod implements AsyncDisposable {
  readonly pod: LabPod;
  readonly container: LabContainer;
  readonly probes: readonly { readonly path: string; readonly port: number }[];
  readonly #deployed: Deployed;

  constructor(deployed: Deployed, pod: LabPod, probes: DeployedPod['probes']) {
    [this.#deployed, this.pod, this.probes] = [deployed, pod, probes];
    const [container] = pod.containers.values();
    if (container === undefined) throw new Error(`pod ${pod.name} has no container`);
    this.container = container;
  }

  /** The container's output on one of its streams, in whole lines. */
  lines(stream: 'stdout' | 'stderr'): string[] {
    const { name, namespace, uid } = this.pod;
    const file = `pod-logs/${namespace}_${name}_${uid}/${this.container.name}_0.log`;
    // Time, stream, F for whole lines or P for parts of them, text (KEP "kubelet CRI logging").
    let line = '';
    return readFileSync(join(this.#deployed.lab.directory, file), 'utf8')
      .split('\n')
      .flatMap((record) => {
        const [, from, kind, part = ''] = /^\S+ (\S+) (\S+) (.*)$/.exec(record) ?? [];
        if (from !== stream) return [];
        line += part;
        if (kind === 'P') return [];
        const whole = line;
        line = '';
        return [whole];
      });
  }

  /** The command, in this container. */
  async rampart(...args: readonly string[]): Promise<ExecResult> {
    return await this.#deployed.lab.exec(this.container, [program, ...args]);
  }

  /** Waits for what it has to do; where it does not come, its log says why. */
  async until<T>(what: string, ask: Parameters<typeof until<T>>[1]): ReturnType<typeof until<T>> {
    try {
      return await until<T>(what, ask, PATIENCE_MS);
    } catch (error) {
      throw new Error(`${this.pod.name}: ${what}: in vain:\n${this.lines('stderr').join('\n')}`, {
        cause: error,
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#deployed.lab.stopContainer(this.container);
  }
}

/** Disposing it ends all pods and removes all files. */
export class Deployed implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly lab: Lab;
  readonly client: KubeClient;
  readonly nodeName: string = nodeName;
  readonly #accounts: ServiceAccounts;
  readonly #stack: AsyncDisposableStack;
  readonly #manifests: readonly Manifest[];
  /** In place of what the manifests name; `undefined`: the checkout. */
  #image: string | undefined;
  #pods = 0;

  private constructor(cluster: Cluster, lab: Lab, accounts: ServiceAccounts, stack: AsyncDisposableStack) {
    [this.cluster, this.lab, this.#accounts, this.#stack] = [cluster, lab, accounts, stack];
    this.#manifests = kustomize(cluster.deployed);
    this.client = cluster.client();
  }

  /**
   * Without any pod.
   *
   * @param kustomization - Default: deploy/, with every guard.
   * @param archive - Of the image that runs in its pods. Default: that of RAMPART_IMAGE; without one, the checkout.
   */
  static async start(kustomization?: string, archive = givenArchive): Promise<Deployed> {
    const stack = new AsyncDisposableStack();
    try {
      const cluster = stack.use(await Cluster.start(kustomization, new Set([nodeName])));
      const lab = stack.use(await startLab());
      await cluster.apply();
      const accounts = stack.use(await ServiceAccounts.start(cluster, lab));
      const deployed = new Deployed(cluster, lab, accounts, stack);
      await deployed.client.create(nodes, { metadata: { name: nodeName } });
      // As on a node: mounts are shared (kubelet refuses HostToContainer otherwise), and the socket is at its usual place.
      await deployed.onNode(
        'mount --make-rshared / && mkdir -p /run/containerd && touch /run/containerd/containerd.sock && mount --bind "$1" /run/containerd/containerd.sock',
        lab.socketPath,
      );
      if (archive === undefined) {
        // The operator's and the policy server's user is not the one that may own the checkout, and closed it to others.
        await deployed.#onNode([...mountPublicCheckout, 'true']);
      } else {
        const ctr = 'ctr --address /run/containerd/containerd.sock --namespace k8s.io images import "$1"';
        const said = await deployed.onNode(ctr, archive);
        deployed.#image = /^unpacking (\S+) /m.exec(said)?.[1];
        if (deployed.#image === undefined) throw new Error(`${archive}: ctr imported no image: ${said}`);
      }
      return deployed;
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  /** Runs a script among the node's mounts and in its network, which has to end well. Returns what it printed. */
  async onNode(script: string, ...args: readonly string[]): Promise<string> {
    return await this.#onNode(['sh', '-c', script, 'sh', ...args]);
  }

  async #onNode(command: readonly string[]): Promise<string> {
    const child = this.lab.spawn(command, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = once(child, 'close') as Promise<[number | null]>;
    const [out, err] = await Promise.all([textOf(child.stdout), textOf(child.stderr)]);
    const [code] = await ended;
    if (code !== 0) throw new Error(`${command.join(' ')}: exit code ${code}: ${err}`);
    return out;
  }

  /** The answers to kubelet's probes of a pod; an error if one fails. */
  async probe({ pod, probes }: DeployedPod): Promise<string[]> {
    const ask = 'busybox wget -q -O - "$1"';
    return await Promise.all(
      probes.map(({ path, port }) => this.onNode(ask, `http://${pod.ip || '127.0.0.1'}:${port}${path}`)),
    );
  }

  /**
   * The only container of a workload as its manifest has it.
   *
   * @param without - A capability that it is not given.
   */
  async runWorkload(name: Workload, without?: string): Promise<DeployedPod> {
    return this.#run(name, this.#kubeletPod(name, this.#podSpec(name)), without);
  }

  /**
   * Runs the only container of a Deployment of Rampart's namespace, with the present ConfigMaps and Secrets.
   */
  async runDeployment(name: string): Promise<DeployedPod> {
    const at = { name, namespace: systemNamespace };
    const { spec } = (await this.client.get(deployments, at)) as unknown as {
      readonly spec: { readonly template: { readonly spec: V1PodSpec } };
    };
    const podSpec = spec.template.spec;
    const directories = new Map<string, string>();
    for (const { configMap, secret } of podSpec.volumes ?? []) {
      const [kind, of] = configMap ? ['ConfigMap', configMap.name] : ['Secret', secret?.secretName];
      if (of === undefined) continue;
      const from = { name: of, namespace: systemNamespace };
      const { data = {} } = await this.client.get<ConfigMap | Secret>(configMap ? configMaps : secrets, from);
      const directory = join(this.cluster.directory, `${kind}-${of}`);
      mkdirSync(directory, { recursive: true });
      for (const [file, value] of Object.entries(data)) {
        writeFileSync(join(directory, file), Buffer.from(value, configMap ? 'utf8' : 'base64'));
      }
      directories.set(`${kind}/${of}`, directory);
    }
    const dataDirectory = (kind: string, of: string): string => directories.get(`${kind}/${of}`) ?? '';
    return this.#run(name, this.#kubeletPod(name, podSpec, dataDirectory));
  }

  async #run(
    name: string,
    { spec, directories, files, probes }: KubeletPod,
    without?: string,
  ): Promise<DeployedPod> {
    for (const directory of directories) await this.onNode('mkdir -p "$1"', directory);
    for (const file of files) await this.onNode('touch "$1"', file);
    const containers = (spec.containers ?? []).map((container) => {
      const { capabilities: given } = container.security ?? {};
      const addCapabilities = (given?.addCapabilities ?? []).filter((one) => one !== without);
      const security = { ...container.security, capabilities: { ...given, addCapabilities } };
      if (this.#image !== undefined) return { ...container, security, image: this.#image };
      const mounts = [...(container.mounts ?? []), ...productMounts];
      return { ...container, security, command: [program], image: images.nginx, mounts };
    });
    // As of a controller: another name each time.
    const pod = await this.runPod({ ...spec, name: `${name}-${++this.#pods}`, containers });
    return new DeployedPod(this, pod, probes);
  }

  /** The capabilities that the manifest gives to the agent. */
  get agentCapabilities(): readonly string[] {
    const [container] = this.#podSpec('rampart-agent').containers;
    // Two guards may name the same.
    return [...new Set(container?.securityContext?.capabilities?.add)];
  }

  /** Runs a pod, and makes its object as kubelet and the scheduler leave it. */
  async runPod(spec: PodSpec): Promise<LabPod> {
    const pod = await this.lab.runPod(spec);
    const { name, namespace, uid } = pod;
    const { labels = {} } = spec;
    const object = {
      metadata: { name, namespace, labels, annotations: { 'kubernetes.io/config.hash': uid } },
      spec: { nodeName, containers: [...pod.containers.keys()].map((one) => ({ name: one, image: 'lab' })) },
    };
    await this.client.create(podType, object);
    await this.client.patch(
      podType,
      { namespace, name, subresource: 'status' },
      { type: 'merge', body: { status: { phase: 'Running', podIP: pod.ip } } },
    );
    return pod;
  }

  #podSpec(name: Workload): V1PodSpec {
    const found = this.#manifests.find(
      ({ kind, metadata }) => metadata.name === name && (kind === 'DaemonSet' || kind === 'Deployment'),
    ) as unknown as { readonly spec: { readonly template: { readonly spec: V1PodSpec } } };
    return structuredClone(found.spec.template.spec);
  }

  #kubeletPod(name: string, spec: V1PodSpec, dataDirectory?: NodeFacts['dataDirectory']): KubeletPod {
    return kubeletPod(name, systemNamespace, spec, {
      nodeName,
      api: this.#accounts.api,
      serviceAccountDirectory: this.#accounts.directoryOf(
        spec.serviceAccountName ?? 'default',
        systemNamespace,
      ),
      emptyDirectory: (volume) => {
        const directory = join(this.cluster.directory, `${name}-${volume}`);
        mkdirSync(directory, { recursive: true });
        // As kubelet makes them: for whatever user the container has.
        chmodSync(directory, 0o777);
        return directory;
      },
      ...(dataDirectory && { dataDirectory }),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

async function textOf(stream: Readable | null): Promise<string> {
  return stream === null ? '' : await text(stream);
}

/** The image's parts of the product and of Debian, from this machine. */
const productMounts = [
  { containerPath: '/opt/rampart', hostPath: publicPath(checkout), readonly: true },
  ...['/usr/lib', '/usr/sbin', '/lib', '/lib64'].map((path) => ({
    containerPath: path,
    hostPath: path,
    readonly: true,
  })),
];
