/** The operator's part for policy servers against the embedded API, with the controllers of Deployments played by the test. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { type StartedApi, startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { runGivenCluster } from '../../../guard/part.fixture.ts';
import { operatorWorkload } from '../../../guard/removal.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import {
  type ConfigMap,
  configMaps,
  type Deployment,
  deployments,
  type KubeObject,
  namespaces,
  pods,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  type AnyKubewardenPolicy,
  type ClusterAdmissionPolicy,
  clusterAdmissionPolicyType,
  admissionPolicyType,
  policyServerType,
} from '../api.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import { policyAudit } from '../guard.ts';
import { AskedCluster } from '../policies/asked-cluster.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { runtimesOf } from '../policies/runtimes.ts';
import { serverLabel } from '../server-label.ts';
import { runPolicyServers } from './run-policy-servers.ts';
import { UnansweredWebhooks } from './webhook-calls.fixture.ts';

export const system = 'rampart-system';
const fieldManager = 'test';
const denied = readFileSync(join(import.meta.dirname, '../../../test/policies/denied.wapc.wasm'));

export interface Webhook {
  readonly name: string;
  readonly clientConfig: {
    readonly caBundle: string;
    readonly service: { readonly path: string; readonly name: string; readonly port: number };
  };
  readonly [field: string]: unknown;
}

export class Cluster extends TestApi {
  now = new Date();
  isRegistryAway = false;
  /** By the name of the PolicyServer, as the operator has it. */
  readyPods = (): ReadonlyMap<string, number> => new Map();

  /** Called while it has a client. */
  readonly webhooks: UnansweredWebhooks;

  private constructor(started: StartedApi, webhooks: UnansweredWebhooks) {
    super(started);
    this.webhooks = webhooks;
  }

  static async start(): Promise<Cluster> {
    const webhooks = new UnansweredWebhooks();
    const started = await startTestApi({ name: 'policy-servers', memory: true, admission: [webhooks] });
    const cluster = new Cluster(started, webhooks);
    await cluster.createDefinitions(policyAudit.resources);
    for (const name of [system, 'shop'])
      await cluster.client.apply(namespaces, { metadata: { name } }, { fieldManager });
    return cluster;
  }

  startOperator(): () => Promise<void> {
    return this.run((signal) =>
      runGivenCluster(
        policyAudit,
        async (context) => {
          const { client, logger } = context;
          const modules = {
            fetch: async () => {
              if (!this.isRegistryAway) return { bytes: denied, digest: 'sha256:denied' };
              throw new RampartError(errorCodes.API_UNREACHABLE, { what: 'the registry is away' });
            },
            registry: () => Promise.reject(new Error('there is none')),
            trustRoot: () => Promise.resolve(undefined),
          };
          const asked = new AskedCluster(new KubeClusterReader(client));
          const runtimes = runtimesOf({ modules: () => modules, client, logger, asked });
          const trials = new PolicySet({ context, runtimes, writesStatus: false });
          const exceptions = new ExceptionSet({ context, writesStatus: true });
          const servers = runPolicyServers(context, {
            ...{ namespace: system, trials, exceptions },
            image: async () => 'registry.example/rampart:1',
            now: () => this.now,
            askAgainMs: 50,
            readings: (readyPods) => {
              this.readyPods = readyPods;
              return { [Symbol.dispose]: () => undefined };
            },
          });
          await Promise.all([trials.run(), exceptions.run(), servers]);
        },
        { client: this.newClient(), signal, logger: this.logger, workload: operatorWorkload },
      ),
    );
  }

  async setServer(name: string, spec: object = {}): Promise<void> {
    const object = {
      apiVersion: 'policies.kubewarden.io/v1',
      kind: 'PolicyServer',
      metadata: { name },
      spec: { image: 'ghcr.io/kubewarden/policy-server:v1.30.0', replicas: 1, ...spec },
    } as KubeObject;
    await this.client.apply(policyServerType, object, { fieldManager, force: true });
  }

  async setPolicy(name: string, more: object = {}, namespace?: string): Promise<void> {
    const type = (
      namespace === undefined ? clusterAdmissionPolicyType : admissionPolicyType
    ) as ResourceType<AnyKubewardenPolicy>;
    await this.client.apply(
      type,
      {
        apiVersion: 'policies.kubewarden.io/v1',
        kind: type.kind,
        metadata: { name, ...(namespace !== undefined && { namespace }) },
        spec: {
          module: 'registry://registry.example/policies/cel-policy:v1',
          mutating: false,
          rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
          settings: {
            validations: [{ expression: 'object.metadata.name != "root"', message: 'root is denied' }],
          },
          ...more,
        },
      } as unknown as AnyKubewardenPolicy,
      { fieldManager, force: true },
    );
  }

  /** As the controllers of Kubernetes do it once the pods are ready. */
  async rollOut(server = 'default', given?: number): Promise<void> {
    const name = `policy-server-${server}`;
    const { metadata, spec } = (await until(() => this.find(deployments, name))) as Deployment;
    const replicas = spec?.replicas ?? 1;
    const ready = given ?? replicas;
    const status = {
      observedGeneration: metadata.generation,
      replicas,
      updatedReplicas: replicas,
      readyReplicas: ready,
      availableReplicas: ready,
    };
    await this.client.patch(
      deployments,
      { name, namespace: system, subresource: 'status' },
      { type: 'merge', body: { status } },
    );
  }

  /** A ready pod, whose readiness probe is here. As the kubelet reports it. */
  async setPod(name: string, probeUrl: string, server = 'default'): Promise<void> {
    const { hostname, port } = new URL(probeUrl);
    const target = { name, namespace: system };
    const image = 'registry.example/rampart:1';
    await this.client.create(pods, {
      metadata: { ...target, labels: { [serverLabel]: server } },
      spec: {
        containers: [{ name: 'server', image, ports: [{ name: 'readiness', containerPort: Number(port) }] }],
      },
    });
    const conditions = [{ type: 'Ready', status: 'True' }];
    await this.client.patch(
      pods,
      { ...target, subresource: 'status' },
      { type: 'merge', body: { status: { phase: 'Running', podIP: hostname, conditions } } },
    );
  }

  /** Whatever generation it comes to: until there is what the operator makes then. */
  async afterRollOut(type: ResourceType, id: string): Promise<Webhook> {
    return until(async () => {
      await this.rollOut();
      return this.webhook(type, id);
    });
  }

  async find(type: ResourceType, name: string): Promise<KubeObject | undefined> {
    try {
      return await this.client.get(type, { name, ...(type.namespaced && { namespace: system }) });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async webhook(type: ResourceType, id: string): Promise<Webhook | undefined> {
    const found = (await this.find(type, id)) as
      (KubeObject & { readonly webhooks: readonly Webhook[] }) | undefined;
    return found?.webhooks[0];
  }

  /** The files of its server. */
  async served(server = 'default'): Promise<Readonly<Record<string, unknown>>> {
    const found: ConfigMap | undefined = await this.find(configMaps, `policy-server-${server}`);
    return JSON.parse(found?.data?.['policies.yml'] ?? '{}') as Record<string, unknown>;
  }

  async statusOf(
    name: string,
    namespace?: string,
  ): Promise<NonNullable<ClusterAdmissionPolicy['status']> | undefined> {
    const { client } = this;
    return namespace === undefined
      ? (await client.get(clusterAdmissionPolicyType, { name })).status
      : (await client.get(admissionPolicyType, { name, namespace })).status;
  }
}
