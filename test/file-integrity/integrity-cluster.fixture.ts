/**
 * A cluster whose nodes are directories: `rampart apiserver`, what deploy/ installs, `rampart operator`, and for each node a
 * `rampart agent` with a host root of its own. All of it real processes.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { applyManifest } from '../../apps/agent/apply.fixture.ts';
import { kustomize } from '../../scripts/kustomize.ts';
import { overlay } from '../../apps/agent/overlay.fixture.ts';
import { Commands } from '../../apps/commands.fixture.ts';
import { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import { events } from '../../lib/kube/events/event-object.ts';
import { type ConfigMap, configMaps, namespaces } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type PolicyReport, policyReportType } from '../../guard/reports/policy-reports.ts';
import {
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  type IntegrityTypes,
  names,
  released,
  type ScanResult,
} from '../../guards/file-integrity/api.ts';
import { fileIntegrity as guard } from '../../guards/file-integrity/guard.ts';
import type { Finding } from '../../guards/file-integrity/model/finding.ts';
import { keptName, nodeStatusName } from '../../guards/file-integrity/results/object-names.ts';
import { AgentProcess } from '../lab/file-access/agent-process.fixture.ts';

const deploy = join(import.meta.dirname, '../../deploy');
export const namespace = 'openshift-file-integrity';
const KUBECTL_MS = 60_000;

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A line that the agent writes to stdout. */
export interface FindingLine extends Finding {
  readonly kind: string;
  readonly fileIntegrity: string;
  readonly node: { readonly name: string };
  readonly state: 'found' | 'gone' | 'accepted';
}

export interface NodeOptions {
  /** More options of `rampart agent`. */
  readonly args?: readonly string[];
  readonly criSocket?: string;
  /** For baselines. Default: one of the test. */
  readonly integrityDirectory?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** A node: its files, and its agent, which runs until it is stopped. */
export class IntegrityNode {
  readonly name: string;
  readonly agent: AgentProcess;
  /** Root of its host. */
  readonly root: string;
  /** Where its baselines are. */
  readonly integrityDirectory: string;

  constructor(name: string, agent: AgentProcess, root: string, integrityDirectory: string) {
    [this.name, this.agent, this.root, this.integrityDirectory] = [name, agent, root, integrityDirectory];
  }

  /** A path of the node, as the test reaches it. */
  at(path: string): string {
    return join(this.root, path);
  }

  /** Writes a file of the node; its directories are made. */
  write(path: string, content: string | Uint8Array): void {
    mkdirSync(dirname(this.at(path)), { recursive: true });
    writeFileSync(this.at(path), content);
  }

  /** Its findings of file integrity. */
  findings(): FindingLine[] {
    return this.agent.reported
      .map(({ line }) => JSON.parse(line) as FindingLine)
      .filter(({ kind }) => kind === 'IntegrityFinding');
  }

  /** The directory of the baselines of a FileIntegrity. */
  directoryOf({ metadata }: FileIntegrity): string {
    return join(this.integrityDirectory, `${metadata.namespace}.${metadata.name}`);
  }
}

/** Disposing it ends all processes and removes all files. */
export class IntegrityCluster implements AsyncDisposable {
  readonly directory = new TemporaryDirectory();
  readonly #stack = new AsyncDisposableStack();
  readonly #commands = this.#stack.use(new Commands());
  #kubeconfig = '';
  #client: KubeClient | undefined;
  #operator: RampartProcess | undefined;
  /** Guards of operator and agents. */
  readonly #guards: readonly string[];

  private constructor(isAlone: boolean) {
    this.#guards = isAlone ? ['--guards', 'file-integrity'] : [];
  }

  /**
   * With an operator, without a node.
   *
   * @param options.before what is in the cluster already when ours is installed; who gives it starts the operator
   * @param options.isAlone whether no other guard is installed, and operator and agents run none; all take twice the CPU time
   */
  static async start({
    before,
    isAlone = true,
  }: {
    readonly before?: (cluster: IntegrityCluster) => Promise<void>;
    readonly isAlone?: boolean;
  } = {}): Promise<IntegrityCluster> {
    const cluster = new IntegrityCluster(isAlone);
    try {
      const args = ['--data', cluster.directory.at('data'), '--listen', '127.0.0.1:0'];
      const server = cluster.#stack.use(await RampartProcess.apiServer(...args));
      cluster.#kubeconfig = await server.ready;
      const access = findClusterAccess({ path: cluster.#kubeconfig });
      cluster.#client = cluster.#stack.use(new KubeClient(access, { perSecond: 1000, burst: 1000 }));
      await cluster.client.create(namespaces, { metadata: { name: namespace } });
      await before?.(cluster);
      using alone = overlay([guard]);
      await cluster.apply(kustomize(isAlone ? alone.path : deploy));
      await cluster.apply(kustomize(join(deploy, 'policy-reports')));
      if (before === undefined) cluster.startOperator();
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  get kubeconfig(): string {
    return this.#kubeconfig;
  }

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error('there is no API');
    return this.#client;
  }

  startOperator(): void {
    const args = ['--kubeconfig', this.kubeconfig, '--metrics', '0', ...this.#guards];
    this.#operator = new RampartProcess(['operator', ...args]);
  }

  async killOperator(): Promise<void> {
    await this.#operator?.kill();
  }

  /** In order: the next one need not wait for its lease to end. */
  async stopOperator(): Promise<void> {
    const ended = await this.#operator?.stop();
    if (ended?.code !== 0) throw new Error(`the operator ended with ${ended?.code}: ${ended?.stderr}`);
  }

  /** The operator's metrics, as text. @throws while it does not serve them */
  async operatorMetrics(): Promise<string> {
    const url = /metrics on (\S+\/metrics)/.exec(this.#operator?.stderr ?? '')?.[1];
    if (url === undefined) throw new Error('it serves no metrics yet');
    return await (await fetch(url, { signal: AbortSignal.timeout(5000) })).text();
  }

  /** The Node object and the directories; the agent is started by whoever has put the files there. */
  async addNode(name: string, options: NodeOptions = {}): Promise<IntegrityNode> {
    const { args = [], labels = {}, criSocket = this.directory.at('no-runtime.sock') } = options;
    const root = this.directory.at(`host-${name}`);
    const integrityDirectory = options.integrityDirectory ?? this.directory.at(`integrity-${name}`);
    mkdirSync(root);
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } };
    await this.apply(node);
    const agent = new AgentProcess({
      nodeName: name,
      kubeconfig: this.kubeconfig,
      criSocket,
      spool: this.directory.at(`spool-${name}`),
      alertsSocket: this.directory.at(`${name}.sock`),
      args: [...this.#guards, '--host-root', root, '--integrity-directory', integrityDirectory, ...args],
    });
    return new IntegrityNode(name, this.#stack.use(agent), root, integrityDirectory);
  }

  /** Runs kubectl, whatever it answers. */
  async tryKubectl(args: readonly string[], input = ''): Promise<Ran> {
    const child = spawn('kubectl', ['--kubeconfig', this.kubeconfig, ...args], {
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: KUBECTL_MS,
      // Its cache of the discovery would outlive the server.
      env: { PATH: process.env['PATH'], HOME: this.directory.path },
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    // It may end before it has read everything.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, stdout, stderr };
  }

  /** Runs kubectl, which has to succeed. Returns what it wrote to stdout. */
  async kubectl(args: readonly string[], input?: string): Promise<string> {
    const { code, stdout, stderr } = await this.tryKubectl(args, input);
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: exit code ${code}\n${stderr}`);
    return stdout.trimEnd();
  }

  async apply(manifest: string | object): Promise<void> {
    await applyManifest(this.client, manifest);
  }

  /** Runs a command of ours against this cluster. */
  rampart(...args: readonly string[]): Promise<Ran> {
    return this.#commands.run([...args, '--kubeconfig', this.kubeconfig]);
  }

  /** @param annotation - `name=value`, or `name-` */
  async annotate(fi: string, annotation: string, { integrities }: IntegrityTypes = released): Promise<void> {
    const [, name = '', value = null] = /^([^=]*)(?:=(.*)|-)$/.exec(annotation) ?? [];
    const body = { metadata: { annotations: { [name]: value } } };
    await this.client.patch(integrities, { namespace, name: fi }, { type: 'merge', body });
  }

  integrity(fi: string, { integrities }: IntegrityTypes = released): Promise<FileIntegrity> {
    return this.client.get(integrities, { namespace, name: fi });
  }

  async phase(fi: string, phase: string, types = released): Promise<FileIntegrity> {
    return await until(`${fi} to be ${phase}`, async () => {
      const integrity = await this.integrity(fi, types);
      return integrity.status?.phase === phase && integrity;
    });
  }

  async status(fi: string, node: string, types = released): Promise<FileIntegrityNodeStatus | undefined> {
    return await ifThere(this.client.get(types.nodeStatuses, { namespace, name: nodeStatusName(fi, node) }));
  }

  /** The status of a node when its latest result is so. */
  async condition(
    fi: string,
    node: string,
    condition: ScanResult['condition'],
    types = released,
    fits: (status: FileIntegrityNodeStatus) => boolean = () => true,
  ): Promise<FileIntegrityNodeStatus & { readonly lastResult: ScanResult }> {
    let last: FileIntegrityNodeStatus | undefined;
    try {
      return await until(async () => {
        last = await this.status(fi, node, types);
        const { lastResult } = last ?? {};
        if (last === undefined || lastResult?.condition !== condition || !fits(last)) return undefined;
        return { ...last, lastResult };
      });
    } catch (error) {
      const reported = JSON.stringify({
        ...{ annotations: last?.metadata.annotations, sequence: last?.sequence, last: last?.lastResult },
        findings: last?.findings?.length,
      });
      throw new Error(`${fi} on ${node} to be ${condition}: ${reported}`, { cause: error });
    }
  }

  /** Failed with these numbers. */
  async failed(
    fi: string,
    node: string,
    [added, changed, removed]: readonly [number, number, number],
    types = released,
  ): Promise<FileIntegrityNodeStatus & { readonly lastResult: ScanResult }> {
    return await this.condition(fi, node, 'Failed', types, ({ lastResult }) => {
      const { filesAdded = 0, filesChanged = 0, filesRemoved = 0 } = lastResult ?? {};
      return filesAdded === added && filesChanged === changed && filesRemoved === removed;
    });
  }

  /** The log that is kept of the latest Failed. */
  kept(fi: string, node: string): Promise<ConfigMap | undefined> {
    return this.configMap(keptName(fi, node));
  }

  configMap(name: string): Promise<ConfigMap | undefined> {
    return ifThere(this.client.get(configMaps, { namespace, name }));
  }

  /** Results that the operator has not taken yet. */
  async temporary(fi?: string): Promise<readonly ConfigMap[]> {
    const labelSelector = fi === undefined ? names.logLabel : `${names.logLabel},${names.ownerLabel}=${fi}`;
    return (await this.client.list(configMaps, { namespace }, { labelSelector })).items;
  }

  report(fi: string, node: string): Promise<PolicyReport | undefined> {
    return ifThere(this.client.get(policyReportType, { namespace, name: nodeStatusName(fi, node) }));
  }

  /** The notes of events with this reason. */
  async notes(reason: string): Promise<string[]> {
    const { items } = await this.client.list(events);
    return items.filter((event) => event.reason === reason).map(({ note = '' }) => note);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#operator?.[Symbol.asyncDispose]();
      await this.#stack.disposeAsync();
    } finally {
      this.directory[Symbol.dispose]();
    }
  }
}

async function ifThere<T>(asked: Promise<T>): Promise<T | undefined> {
  return await asked.catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
}

/** The manifest of a FileIntegrity of the released group. */
export function fileIntegrity(name: string, spec: object): object {
  const type = { apiVersion: 'fileintegrity.openshift.io/v1alpha1', kind: 'FileIntegrity' };
  return { ...type, metadata: { name, namespace }, spec };
}
