/**
 * A cluster of one node on this machine, in which each guard has one object to guard: an API server, an
 * operator and an agent as processes that can be killed, and a real pod. The test does the work of
 * Kubernetes' own controllers.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';

import { guards } from '../../apps/guards.ts';
import { applyManifest } from '../../apps/agent/apply.fixture.ts';
import { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { Commands } from '../../apps/commands.fixture.ts';
import { installResources } from '../../apps/resources.ts';
import type { JsonReport } from '../../apps/status/found.fixture.ts';
import { systemNamespace } from '../../guard/guard.ts';
import { countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { cable } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { serverLabel } from '../../guards/policy-audit/server-label.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { deployments, pods } from '../../lib/kube/object/object.ts';
import { testMode } from '../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type Lab, startLab } from '../lab/lab.ts';

export const node = 'n1';
const high = { 'security-level': 'high' };
const serverName = 'policy-server-default';

/** By guard: the object that it has to guard. */
export const objects: Readonly<Record<string, object>> = {
  'file-access': {
    apiVersion: 'kivebpf.san7o.github.io/v1',
    kind: 'KivePolicy',
    metadata: { name: 'secrets', namespace: 'kivebpf-system' },
    spec: { traps: [{ path: '/etc/shadow', matchAny: [{ matchLabels: high }] }] },
  },
  'file-integrity': {
    apiVersion: 'fileintegrity.openshift.io/v1alpha1',
    kind: 'FileIntegrity',
    metadata: { name: 'machine', namespace: 'kivebpf-system' },
    spec: {
      config: { name: 'conf', namespace: 'kivebpf-system', key: 'aide.conf', gracePeriod: 10 },
      tolerations: [{ operator: 'Exists' }],
    },
  },
  'network-policy': {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'closed', namespace: 'default' },
    spec: { podSelector: { matchLabels: high }, policyTypes: ['Ingress'] },
  },
  'policy-audit': {
    apiVersion: 'policies.kubewarden.io/v1',
    kind: 'ClusterAdmissionPolicy',
    metadata: { name: 'no-root' },
    spec: {
      module: 'registry://registry.example/policies/cel-policy:v1',
      mutating: false,
      // Never written: the server that the API would call does not run here.
      rules: [{ apiGroups: ['batch'], apiVersions: ['v1'], resources: ['cronjobs'], operations: ['CREATE'] }],
      settings: { validations: [{ expression: 'object.metadata.name != "root"', message: 'no' }] },
    },
  },
  'bpf-programs': {
    apiVersion: 'bpfman.io/v1alpha1',
    kind: 'XdpProgram',
    metadata: { name: 'count' },
    spec: {
      bpffunctionname: 'xdp_count',
      nodeselector: {},
      interfaceselector: { interfaces: ['status0'] },
      priority: 50,
      bytecode: { path: countObject },
    },
  },
};

export interface Status {
  readonly code: number | null;
  readonly report: JsonReport;
  /** `guard kind`, of the problems. */
  readonly problems: readonly string[];
}

export class GuardedCluster implements AsyncDisposable {
  readonly #directory: TemporaryDirectory;
  readonly #stack: AsyncDisposableStack;
  readonly #kubeconfig: string;
  readonly #lab: Lab;
  readonly #commands = new Commands();
  readonly client: KubeClient;
  agent: RampartProcess | undefined;
  operator: RampartProcess | undefined;

  private constructor(
    stack: AsyncDisposableStack,
    directory: TemporaryDirectory,
    { kubeconfig, lab }: { readonly kubeconfig: string; readonly lab: Lab },
  ) {
    [this.#stack, this.#directory, this.#kubeconfig, this.#lab] = [stack, directory, kubeconfig, lab];
    this.client = stack.use(
      new KubeClient(findClusterAccess({ path: kubeconfig }), { perSecond: 1000, burst: 1000 }),
    );
    stack.defer(() => this.#commands[Symbol.asyncDispose]());
  }

  /** In a network namespace of the caller's. */
  static async start(): Promise<GuardedCluster> {
    const stack = new AsyncDisposableStack();
    try {
      const directory = stack.use(new TemporaryDirectory());
      mkdirSync(directory.at('bpffs'));
      execFileSync('mount', ['-t', 'bpf', 'bpf', directory.at('bpffs')]);
      stack.defer(() => void execFileSync('umount', [directory.at('bpffs')]));
      cable('status0', 'status1');
      const server = stack.use(
        await RampartProcess.apiServer('--data', directory.at('data'), '--listen', '127.0.0.1:0'),
      );
      const lab = stack.use(await startLab());
      const cluster = new GuardedCluster(stack, directory, { kubeconfig: await server.ready, lab });
      await cluster.#prepare();
      return cluster;
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    await installResources(this.client, guards, AbortSignal.timeout(60_000));
    const config = { 'aide.conf': `${this.#directory.at('watched')} p+s+sha256\n` };
    mkdirSync(this.#directory.at('watched'));
    const core = { apiVersion: 'v1' };
    await applyManifest(this.client, [
      ...[systemNamespace, 'kivebpf-system'].map((name) => ({
        ...core,
        kind: 'Namespace',
        metadata: { name },
      })),
      { ...core, kind: 'Node', metadata: { name: node } },
      { ...core, kind: 'ConfigMap', metadata: { name: 'conf', namespace: 'kivebpf-system' }, data: config },
      {
        apiVersion: 'policies.kubewarden.io/v1',
        kind: 'PolicyServer',
        metadata: { name: 'default' },
        spec: { image: 'rampart', replicas: 1 },
      },
    ]);
    const { uid, ip } = await this.#lab.runPod({ name: 'nginx-pod', labels: high });
    await this.#createPod('nginx-pod', 'default', ip, { labels: high, uid });
    await this.#createPod(serverName, systemNamespace, '10.9.9.9', { labels: { [serverLabel]: 'default' } });
  }

  /** As a kubelet mirrors it. */
  async #createPod(
    name: string,
    namespace: string,
    podIP: string,
    { labels, uid = name }: { readonly labels: Readonly<Record<string, string>>; readonly uid?: string },
  ): Promise<void> {
    const annotations = { 'kubernetes.io/config.hash': uid };
    await this.client.create(pods, {
      metadata: { name, namespace, labels, annotations },
      spec: { nodeName: node, containers: [{ name: 'nginx', image: 'lab' }] },
    });
    const conditions = [{ type: 'Ready', status: 'True' }];
    const body = { status: { phase: 'Running', podIP, podIPs: [{ ip: podIP }], conditions } };
    await this.client.patch(pods, { name, namespace, subresource: 'status' }, { type: 'merge', body });
  }

  startAgent(): void {
    const at = (name: string): string => this.#directory.at(name);
    this.agent = this.#stack.use(
      new RampartProcess([
        ...['agent', '--node-name', node, '--kubeconfig', this.#kubeconfig, '--mode', testMode()],
        ...[
          '--cri-socket',
          this.#lab.socketPath,
          '--spool',
          at('spool'),
          '--integrity-directory',
          at('integrity'),
        ],
        ...['--bpffs', at('bpffs'), '--bpf-state', at('bpf-state'), '--alerts-socket', at('alerts.sock')],
      ]),
    );
  }

  startOperator(): void {
    this.operator = this.#stack.use(
      new RampartProcess([
        ...['operator', '--kubeconfig', this.#kubeconfig, '--policy-server-image', 'rampart:test'],
        ...['--policy-modules', this.#directory.at('modules')],
      ]),
    );
  }

  /** Rules and programs stay when an agent is killed. */
  removeKernelState(): void {
    rmSync(this.#directory.at('bpffs/rampart'), { recursive: true, force: true });
    execFileSync('nft', ['delete', 'table', 'inet', 'rampart-network-policy']);
  }

  hasKernelState(): boolean {
    const { status } = spawnSync('nft', ['list', 'table', 'inet', 'rampart-network-policy']);
    return status === 0 && existsSync(this.#directory.at('bpffs/rampart'));
  }

  async apply(): Promise<void> {
    await applyManifest(this.client, Object.values(objects));
  }

  async status(): Promise<Status> {
    await this.#rollOut();
    const args = ['status', '--kubeconfig', this.#kubeconfig, '--format', 'json'];
    const { code, stdout, stderr } = await this.#commands.run(args);
    if (stdout === '') throw new Error(stderr);
    const report = JSON.parse(stdout) as JsonReport;
    return { code, report, problems: report.problems.map(({ guard, kind }) => `${guard} ${kind}`) };
  }

  /** Until these guards have problems of one kind each, and no others have any. */
  async until(problems: readonly string[], patienceMs?: number): Promise<Status> {
    let last: Status | undefined;
    try {
      return await until(
        problems.join() || 'all guarded',
        async () => {
          last = await this.status();
          return last.problems.toSorted().join() === problems.toSorted().join() && last;
        },
        patienceMs,
      );
    } catch (error) {
      const reported = [this.agent?.stderr, this.operator?.stderr].join('\n').slice(-4000);
      throw new Error(`${JSON.stringify(last?.report.problems)}\n${reported}`, { cause: error });
    }
  }

  /** As the controller of Deployments does once the pods are ready. */
  async #rollOut(): Promise<void> {
    const { items } = await this.client.list(deployments, { namespace: systemNamespace });
    for (const { metadata } of items) {
      const [{ generation: observedGeneration, name = '' }, one] = [metadata, 1];
      const status = {
        observedGeneration,
        replicas: one,
        updatedReplicas: one,
        readyReplicas: one,
        availableReplicas: one,
      };
      const target = { name, namespace: systemNamespace, subresource: 'status' };
      await this.client.patch(deployments, target, { type: 'merge', body: { status } });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
