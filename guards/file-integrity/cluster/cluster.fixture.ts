/**
 * A cluster for tests of the operator: the embedded API server, with agents that are played by writing what they write.
 */
import { type GivenProcess, runClusterGuards } from '../../../guard/part.fixture.ts';
import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import { events, type KubeEvent } from '../../../lib/kube/events/event-object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  type FileIntegrity,
  type FileIntegrityNodeStatus,
  type IntegrityTypes,
  names,
  released,
} from '../api.ts';
import { fileIntegrity } from '../guard.ts';
import { type Finding, noDetection } from '../model/finding.ts';
import { type ConfigMap, configMaps, type Node, nodes } from '../../../lib/kube/object/object.ts';
import type { NodeResult } from '../results/node-result.ts';
import { keptName, nodeStatusName } from '../results/object-names.ts';
import { resultConfigMap } from '../results/result-config-map.ts';

export const testNamespace = 'openshift-file-integrity';

export type Outcome = NodeResult['outcome'];
export const succeeded: Outcome = { kind: 'succeeded' };
export function failed(added: number, changed: number, removed: number, data = 'the log'): Outcome {
  return { kind: 'failed', added, changed, removed, log: { data, compressed: false, tooLarge: false } };
}
export function errored(message: string, reason?: string): Outcome {
  return { kind: 'errored', message, ...(reason !== undefined && { reason }) };
}
export const changedFile: Finding = {
  path: '/etc/passwd',
  change: 'changed',
  attributes: ['sha512'],
  seenMs: Date.UTC(2026, 0, 2),
  seenBy: 'event',
};

/** Disposing it stops all that was started and removes all that was made. */
export class TestCluster extends TestApi {
  readonly #sequences = new Map<string, number>();

  static async start(): Promise<TestCluster> {
    const cluster = new TestCluster(await startTestApi({ name: 'file-integrity', memory: true }));
    await cluster.createDefinitions(fileIntegrity.resources);
    await cluster.createNamespace(testNamespace);
    return cluster;
  }

  /** Returns what stops it. */
  startOperator(options: Partial<GivenProcess> = {}): () => Promise<void> {
    return this.run((signal) =>
      runClusterGuards([fileIntegrity], {
        client: this.newClient(),
        signal,
        logger: this.logger,
        ...options,
      }),
    );
  }

  createNode(name: string, labels: Record<string, string> = {}, spec: Node['spec'] = {}): Promise<Node> {
    return this.client.create(nodes, { metadata: { name, labels }, spec });
  }

  createIntegrity(
    name: string,
    spec: object = {},
    { types = released, namespace = testNamespace }: { types?: IntegrityTypes; namespace?: string } = {},
  ): Promise<FileIntegrity> {
    const object = { metadata: { name, namespace }, spec: { config: {}, ...spec } };
    return this.client.create(types.integrities, object as unknown as FileIntegrity);
  }

  integrity(name: string, types: IntegrityTypes = released): Promise<FileIntegrity> {
    return this.client.get(types.integrities, { namespace: testNamespace, name });
  }

  async annotate(name: string, annotations: Record<string, string | null>): Promise<void> {
    const body = { metadata: { annotations } };
    const target = { namespace: testNamespace, name };
    await this.client.patch(released.integrities, target, { type: 'merge', body });
  }

  status(
    integrity: string,
    node: string,
    types: IntegrityTypes = released,
  ): Promise<FileIntegrityNodeStatus | undefined> {
    const target = { namespace: testNamespace, name: nodeStatusName(integrity, node) };
    return gone(this.client.get(types.nodeStatuses, target));
  }

  configMap(name: string, namespace: string = testNamespace): Promise<ConfigMap | undefined> {
    return gone(this.client.get(configMaps, { namespace, name }));
  }

  kept(integrity: string, node: string): Promise<ConfigMap | undefined> {
    return this.configMap(keptName(integrity, node));
  }

  async createConfigMap(
    name: string,
    data: Record<string, string>,
    namespace = testNamespace,
  ): Promise<void> {
    await this.client.create(configMaps, { metadata: { name, namespace }, data });
  }

  /** The next result of a node's agent. */
  result(integrity: string, nodeName: string, outcome: Outcome, more: Partial<NodeResult> = {}): NodeResult {
    const key = `${integrity} ${nodeName}`;
    const sequence = more.sequence ?? (this.#sequences.get(key) ?? 0) + 1;
    this.#sequences.set(key, sequence);
    return {
      fileIntegrity: { namespace: testNamespace, name: integrity },
      nodeName,
      sequence,
      atMs: Date.now(),
      outcome,
      findings: outcome.kind === 'failed' ? [changedFile] : [],
      omittedFindings: 0,
      detection: { ...noDetection, events: 'sensor', reason: '', watchedDirectories: 3 },
      doneRequests: [],
      ...more,
    };
  }

  /** Writes it as the agent does. */
  async write(result: NodeResult): Promise<void> {
    const { namespace, name } = result.fileIntegrity;
    const owner = await gone(this.client.get(released.integrities, { namespace, name }));
    const { uid = '' } = owner?.metadata ?? {};
    const reference = { apiVersion: `${released.group}/v1alpha1`, kind: 'FileIntegrity', name, uid };
    const configMap = resultConfigMap(result, owner && reference);
    await this.client.apply(configMaps, configMap, { fieldManager: 'agent', force: true });
  }

  /** Writes it, and waits until it was taken. */
  async report(
    integrity: string,
    node: string,
    outcome: Outcome,
    more: Partial<NodeResult> = {},
  ): Promise<NodeResult> {
    const result = this.result(integrity, node, outcome, more);
    await this.write(result);
    await until('the result is taken', async () => (await this.temporary()).length === 0);
    return result;
  }

  async temporary(): Promise<readonly ConfigMap[]> {
    return (await this.client.list(configMaps, {}, { labelSelector: names.logLabel })).items;
  }

  async phase(name: string, wanted: string, types: IntegrityTypes = released): Promise<FileIntegrity> {
    return await until(`${name} is ${wanted}`, async () => {
      const integrity = await this.integrity(name, types);
      return integrity.status?.phase === wanted && integrity;
    });
  }

  async events(): Promise<readonly KubeEvent[]> {
    return (await this.client.list(events)).items;
  }

  /** The notes of events of this reason, one for each time it was reported. */
  async notes(reason: string): Promise<string[]> {
    const all = (await this.events()).filter((event) => event.reason === reason);
    return all.flatMap(({ note = '', series }) => Array.from({ length: series?.count ?? 1 }, () => note));
  }
}

/** Undefined for an object that does not exist. */
export async function gone<T>(asked: Promise<T>): Promise<T | undefined> {
  return await asked.catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
}
