/**
 * A cluster for tests of the agent's part: the embedded API server, a directory as the host, and what the operator would do.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { type GivenNode, runGivenNode } from '../../../guard/part.fixture.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { noContainers } from '../../../lib/cri/container-source.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { configMaps, type KubeObject, nodes, type ResourceType } from '../../../lib/kube/object/object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  type IntegrityTypes,
  names,
  released,
  type WrittenFileIntegrity,
} from '../api.ts';
import { takeResult as takeNodeResult } from '../cluster/taken-result.ts';
import { fileIntegrity } from '../guard.ts';
import { type FileIntegrityNodeOptions, type NodeState, runFileIntegrityNode } from './run.ts';
import { type NodeRequest, type NodeResult, requestAnnotationPrefix } from '../results/node-result.ts';
import { nodeStatusName, temporaryName } from '../results/object-names.ts';
import { readResultConfigMap } from '../results/result-config-map.ts';
import type { IntegrityProvider } from '../provider/provider.ts';
import { hmacDataKey, keySecretName } from './key-follower.ts';
import { NativeProvider } from './native-provider.ts';

export const namespace = 'openshift-file-integrity';
export const conf = '/hostroot/etc p+u+g+n+s+ftype+sha256\n';

const secrets: ResourceType<KubeObject & { data: Record<string, string> }> = {
  ...configMaps,
  plural: 'secrets',
  kind: 'Secret',
} as never;

/** An agent scans with idle CPU only; here the test waits for it. A further thread takes longer to start. */
const quickProvider = (): IntegrityProvider => new NativeProvider({ version: '0', workers: 1 });

export interface TestAgent {
  readonly lines: string[];
  readonly state: () => NodeState | undefined;
  /** Ends it, as SIGTERM would. */
  stop(): Promise<void>;
}

/** Disposing it stops all that was started and removes all that was made. */
export class TestCluster extends TestApi {
  readonly host = join(this.directory, 'host');

  /** @param options - `memory: false` for a test that stops the API and starts it again. */
  static async start({ key = true, memory = true } = {}): Promise<TestCluster> {
    const cluster = new TestCluster(await startTestApi({ name: 'integrity-node', memory }));
    for (const name of ['hosts', 'passwd', 'shadow', 'deep/er/file']) cluster.write(name, name);
    await cluster.createNamespace(namespace);
    await cluster.createDefinitions(fileIntegrity.resources);
    if (key) await cluster.createKey();
    return cluster;
  }

  /** A file of /etc on the host. */
  write(name: string, content: string): void {
    const path = this.at(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }

  at(name: string): string {
    return join(this.host, 'etc', name);
  }

  async createKey(secret: Uint8Array = Buffer.alloc(32, 3)): Promise<void> {
    const metadata = { namespace, name: keySecretName };
    await this.client.create(secrets, {
      metadata,
      data: { [hmacDataKey]: Buffer.from(secret).toString('base64') },
    });
  }

  /** Another key in the place of the one before. */
  async replaceKey(secret: Uint8Array): Promise<void> {
    await this.client.delete(secrets, { namespace, name: keySecretName });
    await this.createKey(secret);
  }

  createNode(name: string, labels: Record<string, string> = {}, taints: object[] = []): Promise<unknown> {
    return this.client.create(nodes, { metadata: { name, labels }, spec: { taints } } as never);
  }

  /** A FileIntegrity, with what the operator makes of its configuration. */
  async createIntegrity(
    name: string,
    options: {
      readonly conf?: string;
      readonly types?: IntegrityTypes;
      readonly annotations?: Record<string, string>;
      readonly spec?: Partial<WrittenFileIntegrity['spec']>;
      readonly config?: Partial<WrittenFileIntegrity['spec']['config']>;
    } = {},
  ): Promise<FileIntegrity> {
    const { types = released, annotations, spec, config } = options;
    const written = {
      metadata: { namespace, name, ...(annotations && { annotations }) },
      spec: { config: { gracePeriod: 10, ...config }, ...spec },
    };
    const integrity = await this.client.create(types.integrities, written as unknown as FileIntegrity);
    await this.setConf(name, options.conf ?? conf);
    return integrity;
  }

  async setConf(name: string, text: string): Promise<void> {
    const metadata = { namespace, name, labels: { [names.aideConfLabel]: '' } };
    const data = { [names.confKey]: text };
    await this.client.apply(configMaps, { metadata, data }, { fieldManager: 'operator', force: true });
  }

  async annotate(name: string, annotations: Record<string, string | null>, types = released): Promise<void> {
    const body = { metadata: { annotations } };
    await this.client.patch(types.integrities, { namespace, name }, { type: 'merge', body });
  }

  /** The result that an agent has handed over; undefined without one. */
  async result(name: string, nodeName = 'n1'): Promise<NodeResult | undefined> {
    try {
      const target = { namespace, name: temporaryName(name, nodeName) };
      return readResultConfigMap(await this.client.get(configMaps, target));
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** A result that is later than `after`, if it is as it should be. */
  resultWhen(
    name: string,
    isRight: (result: NodeResult) => boolean,
    after = 0,
    nodeName = 'n1',
  ): Promise<NodeResult> {
    return until(`a result of ${name}`, async () => {
      const result = await this.result(name, nodeName);
      if (result === undefined || result.sequence <= after) return undefined;
      if (!isRight(result)) throw new Error(JSON.stringify(result));
      return result;
    });
  }

  /** As the operator does with a result: it takes it, and keeps what it says of the node. */
  async takeResult(name: string, nodeName = 'n1', types = released): Promise<NodeResult> {
    const result = await until('a result to take', () => this.result(name, nodeName));
    const { atMs, sequence, outcome } = result;
    const condition = { succeeded: 'Succeeded', failed: 'Failed', errored: 'Errored' }[outcome.kind];
    const seen = { condition, lastProbeTime: new Date(atMs).toISOString() };
    const { baseline } = takeNodeResult(result, undefined).fields;
    const fields = { nodeName, results: [seen], lastResult: seen, sequence, ...(baseline && { baseline }) };
    await this.#applyStatus(name, nodeName, types, fields);
    await this.client.delete(configMaps, { namespace, name: temporaryName(name, nodeName) });
    return result;
  }

  /** As the operator asks a node. */
  async request(name: string, request: NodeRequest, nodeName = 'n1', types = released): Promise<void> {
    const target = { namespace, name: nodeStatusName(name, nodeName) };
    const existing = await this.client.get(types.nodeStatuses, target).catch(() => undefined);
    if (existing === undefined) await this.#applyStatus(name, nodeName, types, { nodeName, results: [] });
    const annotations = { [`${requestAnnotationPrefix}${request.id}`]: JSON.stringify(request) };
    await this.client.patch(types.nodeStatuses, target, {
      type: 'merge',
      body: { metadata: { annotations } },
    });
  }

  async #applyStatus(name: string, nodeName: string, types: IntegrityTypes, fields: object): Promise<void> {
    const integrity = await this.client.get(types.integrities, { namespace, name });
    const { integrities: type } = types;
    const owner = {
      apiVersion: `${type.group}/${type.version}`,
      ...{ kind: type.kind, name, uid: integrity.metadata.uid ?? '' },
    };
    const metadata = { namespace, name: nodeStatusName(name, nodeName), ownerReferences: [owner] };
    const status = { metadata, ...fields } as unknown as FileIntegrityNodeStatus;
    await this.client.apply(types.nodeStatuses, status, { fieldManager: 'operator', force: true });
  }

  /** The directory of a job on a node. */
  jobDirectory(name: string, nodeName = 'n1'): string {
    return join(this.directory, nodeName, `${namespace}.${name}`);
  }

  /** Options of an agent; the data of a node stays where it is. */
  agentOptions(nodeName: string): Omit<GivenNode, 'client' | 'signal' | 'sink'> {
    return {
      nodeName,
      hostRoot: this.host,
      directory: join(this.directory, nodeName),
      containers: noContainers,
      logger: this.logger.child({ agent: nodeName }),
    };
  }

  async startAgent(
    nodeName = 'n1',
    options: Partial<FileIntegrityNodeOptions & GivenNode> = {},
  ): Promise<TestAgent> {
    const lines: string[] = [];
    let state: NodeState | undefined;
    const end = await this.runReady(
      (signal) =>
        runGivenNode(
          fileIntegrity,
          (context) =>
            runFileIntegrityNode(context, {
              onState: (now) => void (state = now),
              ...options,
              providers: { native: quickProvider, ...options.providers },
            }),
          {
            ...this.agentOptions(nodeName),
            client: this.newClient(),
            sink: (line) => void lines.push(line),
            signal,
            ...options,
          },
        ),
      () => state?.ready,
    );
    return { lines, state: () => state, stop: end };
  }
}
