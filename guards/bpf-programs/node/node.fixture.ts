/** The parts of this guard with an API of their own and a kernel that a test looks into. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type ApiServer, startApiServer } from '../../../lib/apiserver/server.ts';
import type { ContainerSource, SourceContainer } from '../../../lib/cri/container-source.ts';
import { runClusterGuards, runGivenNode } from '../../../guard/part.fixture.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { kubeconfigAccess } from '../../../lib/kube/access/cluster-access.ts';
import { customResourceDefinitions, established } from '../../../lib/kube/crd/established.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import { loadKubeconfig } from '../../../lib/kube/access/kubeconfig.ts';
import {
  type KubeObject,
  namespaces,
  nodes,
  pods,
  type ResourceType,
  scopedAs,
  secrets,
} from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { systemNamespace } from '../../../guard/guard.ts';
import { inGuest } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  allNodeTypes,
  type Api,
  bpfApplicationOf,
  bpfResources,
  type NodeObject,
  nodeTypes,
  parentKinds,
  type ParentObject,
} from '../api.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { bpfPrograms } from '../guard.ts';
import type { PassesOptions } from './passes.ts';
import { runBpfProgramsNode } from './run.ts';
import type { PullBytecode } from './bytecode.ts';
import type { BytecodeVerification } from './bytecode-verification.ts';
import type { FixtureKernel } from '../program-host.fixture.ts';
import type { Scope } from '../schema-parts.ts';

/** With any content: what a manifest of ours is like, its own type says. */
const crdType: ResourceType = customResourceDefinitions;

const clearedTypes: readonly ResourceType[] = [
  ...parentKinds.map(({ type }) => type),
  ...allNodeTypes,
  ...[pods, nodes, secrets],
];

const noImages: PullBytecode = () => Promise.reject(new Error('The registry is down.'));

/** Containers that a test starts and ends. */
export class FixtureContainers implements ContainerSource {
  readonly synced: Promise<void>;
  readonly answer: () => void;
  readonly #all = new Map<string, SourceContainer>();
  readonly #listeners = new Set<(id: string) => void>();

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>();
    [this.synced, this.answer] = [promise, resolve];
  }

  list(): Iterable<SourceContainer> {
    return this.#all.values();
  }

  get(id: string): SourceContainer | undefined {
    return this.#all.get(id);
  }

  reported(id: string): SourceContainer | undefined {
    return this.#all.get(id);
  }

  subscribe(listener: (id: string) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  set(id: string, container: SourceContainer | undefined): void {
    if (container === undefined) this.#all.delete(id);
    else this.#all.set(id, container);
    for (const listener of this.#listeners) listener(id);
  }
}

export interface ClusterOptions {
  /** Whose BpfApplication is served. */
  readonly api?: Api;
  readonly pull?: PullBytecode;
}

/** An API server, the operator's part and the parts of nodes, each with a kernel. */
export class BpfCluster implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-bpf-test-'));
  readonly client: KubeClient;
  containers = new FixtureContainers();
  pull: PullBytecode;
  /** Configuration of the agents that are started next. */
  verification: BytecodeVerification | undefined;
  /** Lines of findings of all nodes. */
  lines: string[] = [];
  readonly #server: ApiServer;
  #running: { readonly stop: AbortController; readonly ended: Promise<unknown> }[] = [];

  private constructor(server: ApiServer, { pull = noImages }: ClusterOptions) {
    this.#server = server;
    const config = loadKubeconfig({ env: { KUBECONFIG: server.kubeconfig } });
    if (config === undefined) throw new TypeError('no kubeconfig');
    this.client = new KubeClient(kubeconfigAccess(config));
    this.pull = pull;
    writeFileSync(this.object, 'not looked into');
  }

  static async start(options: ClusterOptions = {}): Promise<BpfCluster> {
    const server = await startApiServer({
      dataDirectory: undefined,
      listen: { host: '127.0.0.1', port: 0 },
      version: '0.0.0',
      logger: createLogger({ level: 'silent' }),
      // An emulated kernel may take longer than that for one handshake.
      ...(inGuest && { limits: { authenticateMs: 120_000, headersTimeoutMs: 120_000 } }),
    });
    const cluster = new BpfCluster(server, options);
    // Those of v0.5.5, unless a test is about the others.
    const { resource: applications, kind } = bpfApplicationOf[options.api ?? 'v0.5'];
    const resources = bpfResources.map((one) => (one.kind === kind ? applications : one));
    for (const resource of resources) {
      await cluster.client.apply(crdType, crdManifest(resource), {
        fieldManager: 'test',
        force: true,
      });
    }
    for (const { plural, group } of resources) {
      await established(cluster.client, `${plural}.${group}`, {
        timeoutMs: 30_000,
        signal: AbortSignal.timeout(60_000),
      });
    }
    for (const name of [systemNamespace, 'acme', 'other']) {
      await cluster.client.create(namespaces, { metadata: { name } });
    }
    return cluster;
  }

  /** As it is when it has been started: nothing runs, and nothing is left of what a test has made. */
  async clear({ pull = noImages }: ClusterOptions = {}): Promise<void> {
    await this.#stop();
    for (const cleared of clearedTypes) {
      for (const object of (await this.client.list<KubeObject>(cleared)).items) {
        const { metadata } = object;
        // The same name has another scope in the other version of the API.
        const type = scopedAs(cleared, object);
        const target = { name: metadata.name ?? '', namespace: metadata.namespace };
        const body = { metadata: { finalizers: null } };
        if (metadata.finalizers !== undefined)
          await this.client.patch(type, target, { type: 'merge', body }).catch(unlessGone);
        await this.client.delete(type, target, { gracePeriodSeconds: 0 }).catch(unlessGone);
      }
    }
    this.containers = new FixtureContainers();
    this.pull = pull;
    this.verification = undefined;
    this.lines = [];
    writeFileSync(this.object, 'not looked into');
  }

  /** A file that is there. */
  get object(): string {
    return join(this.directory, 'count.bpf.o');
  }

  async addNode(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const all = { 'kubernetes.io/hostname': name, ...labels };
    await this.client.create(nodes, { metadata: { name, labels: all } });
  }

  operator(): Disposable {
    return this.#run((signal) =>
      runClusterGuards([bpfPrograms], {
        client: this.client,
        signal,
        logger: createLogger({ level: 'silent' }),
      }),
    );
  }

  /** The part of a node; disposing it ends it as a crash would: nothing is taken away. */
  agent(
    nodeName: string,
    kernel: FixtureKernel,
    openHost: PassesOptions['openHost'] = async () => kernel.open(),
  ): Disposable {
    const { verification } = this;
    const pull: PullBytecode = (...args) => this.pull(...args);
    return this.#run((signal) =>
      runGivenNode(bpfPrograms, (context) => runBpfProgramsNode(context, { openHost, pull, verification }), {
        client: this.client,
        signal,
        logger: createLogger({ level: 'silent' }),
        sink: (line) => void this.lines.push(line),
        nodeName,
        containers: this.containers,
      }),
    );
  }

  #run(begin: (signal: AbortSignal) => Promise<void>): Disposable {
    const stop = new AbortController();
    const ended = begin(stop.signal).catch((error: unknown) => error);
    this.#running.push({ stop, ended });
    return { [Symbol.dispose]: () => stop.abort() };
  }

  create(kind: string, name: string, spec: object, namespace?: string): Promise<ParentObject> {
    const { type } = parentKind(kind);
    const metadata = { name, ...(namespace !== undefined && { namespace }) };
    return this.client.create(type, { metadata, spec } as unknown as ParentObject);
  }

  /** Changes the spec. */
  async change(kind: string, name: string, spec: object): Promise<void> {
    await this.client.patch(parentKind(kind).type, { name }, { type: 'merge', body: { spec } });
  }

  async get(kind: string, name: string, namespace?: string): Promise<ParentObject | undefined> {
    try {
      return await this.client.get(parentKind(kind).type, { name, namespace });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async objects(scope: Scope = 'Cluster'): Promise<NodeObject[]> {
    return (await this.client.list(nodeTypes[scope])).items;
  }

  /** The one condition of a parent, when it is of this type and says this. */
  async untilCondition(
    kind: string,
    name: string,
    type: string,
    namespace?: string,
    says = /^/,
  ): Promise<string> {
    let message = '';
    await until(async () => {
      const [condition, ...more] = (await this.get(kind, name, namespace))?.status?.conditions ?? [];
      message = condition?.message ?? '';
      return condition?.type === type && more.length === 0 && says.test(message);
    });
    return message;
  }

  async untilObjects(
    holds: (objects: readonly NodeObject[]) => boolean,
    scope: Scope = 'Cluster',
  ): Promise<readonly NodeObject[]> {
    let found: readonly NodeObject[] = [];
    await until(async () => holds((found = await this.objects(scope))));
    return found;
  }

  async #stop(): Promise<void> {
    for (const { stop } of this.#running) stop.abort();
    await Promise.all(this.#running.map(({ ended }) => ended));
    this.#running = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
    this.client[Symbol.dispose]();
    await this.#server[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function unlessGone(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
