import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { suite, test } from 'node:test';

import { startTestApi, TestApi } from '../../../lib/apiserver/test-api.fixture.ts';
import { runGivenCluster } from '../../../guard/part.fixture.ts';
import { isNotFound } from '../../../lib/kube/client/client-errors.ts';
import {
  type ConfigMap,
  configMaps,
  type KubeObject,
  namespaces,
  type Secret,
  secrets,
  type ResourceType,
} from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  type AnyKubewardenPolicy,
  type ClusterAdmissionPolicy,
  clusterAdmissionPolicyType,
  admissionPolicyType,
  type PolicyServer,
  policyServerType,
} from '../api.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import { policyAudit } from '../guard.ts';
import { AskedCluster } from '../policies/asked-cluster.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { runtimesOf } from '../policies/runtimes.ts';
import { review } from '../server/policy-server.fixture.ts';
import { runPolicyServer } from '../server/run-policy-server.ts';
import { runPolicyServers } from './run-policy-servers.ts';
import { budgetType, deploymentType } from './server-objects.ts';
import { mutatingType, validatingType } from './webhooks.ts';

const system = 'kivebpf-system';
const fieldManager = 'test';
const denied = readFileSync(join(import.meta.dirname, '../../../test/policies/denied.wapc.wasm'));

interface Webhook {
  readonly name: string;
  readonly clientConfig: {
    readonly caBundle: string;
    readonly service: { readonly path: string; readonly name: string; readonly port: number };
  };
  readonly [field: string]: unknown;
}

class Cluster extends TestApi {
  now = new Date();

  static async start(): Promise<Cluster> {
    const cluster = new Cluster(await startTestApi({ name: 'policy-servers', memory: true }));
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
            fetch: () => Promise.resolve({ bytes: denied, digest: 'sha256:denied' }),
            registry: () => Promise.reject(new Error('there is none')),
            trustRoot: () => Promise.resolve(undefined),
          };
          const asked = new AskedCluster(new KubeClusterReader(client));
          const runtimes = runtimesOf({ modules: () => modules, client, logger, asked });
          const trials = new PolicySet({ context, runtimes, writesStatus: false });
          const servers = runPolicyServers(context, {
            ...{ namespace: system, trials },
            image: async () => 'registry.example/rampart:1',
            now: () => this.now,
          });
          await Promise.all([trials.run(), servers]);
        },
        { client: this.newClient(), signal, logger: this.logger },
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
  async rollOut(server = 'default'): Promise<void> {
    const name = `policy-server-${server}`;
    const { metadata } = await until(() => this.find(deploymentType, name));
    const status = {
      observedGeneration: metadata.generation,
      replicas: 1,
      updatedReplicas: 1,
      readyReplicas: 1,
      availableReplicas: 1,
    };
    await this.client.patch(
      deploymentType,
      { name, namespace: system, subresource: 'status' },
      { type: 'merge', body: { status } },
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

  async statusOf(name: string): Promise<NonNullable<ClusterAdmissionPolicy['status']> | undefined> {
    return (await this.client.get(clusterAdmissionPolicyType, { name })).status;
  }
}

suite('policy servers in a cluster', () => {
  test('from a PolicyServer and a policy to a webhook that answers', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default', {
      env: [{ name: 'A', value: 'b' }],
      namespacedPoliciesCapabilities: ['net/*'],
      sigstoreTrustConfig: 'trust',
    });
    await cluster.setPolicy('root', {
      message: 'no roots',
      matchConditions: [{ name: 'c', expression: 'true' }],
    });
    await cluster.setPolicy('own', { failurePolicy: 'Ignore', matchPolicy: 'Exact' }, 'shop');
    cluster.startOperator();
    const configuration = (await until(async () =>
      cluster.find(configMaps, 'policy-server-default'),
    )) as ConfigMap;
    const policies = JSON.parse(configuration.data?.['policies.yml'] ?? '') as Record<
      string,
      Record<string, unknown>
    >;
    assert.deepEqual(Object.keys(policies), ['clusterwide-root', 'namespaced-shop-own']);
    assert.deepEqual(policies['clusterwide-root']?.['hostCapabilities'], ['*']);
    assert.deepEqual(policies['namespaced-shop-own']?.['hostCapabilities'], ['net/*']);
    // Nobody is asked before there is somebody to ask.
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-root'), undefined);
    await until(async () => (await cluster.statusOf('root'))?.policyStatus === 'pending');

    const webhook = await cluster.afterRollOut(validatingType, 'clusterwide-root');
    assert.equal(webhook.name, 'clusterwide-root.kubewarden.admission');
    assert.equal(webhook['failurePolicy'], 'Fail');
    assert.equal(webhook['matchPolicy'], 'Equivalent');
    assert.deepEqual(webhook['matchConditions'], [{ name: 'c', expression: 'true' }]);
    assert.deepEqual(webhook['namespaceSelector'], {
      matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: [system] }],
    });
    const own = await cluster.afterRollOut(validatingType, 'namespaced-shop-own');
    assert.equal(own['failurePolicy'], 'Ignore');
    assert.equal(own['matchPolicy'], 'Exact');
    assert.deepEqual(own['namespaceSelector'], { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } });
    const status = await until(async () => {
      const found = await cluster.statusOf('root');
      return found?.policyStatus === 'active' && found;
    });
    assert.equal(status.mode, 'protect');
    const deployment = await cluster.find(deploymentType, 'policy-server-default');
    assert.equal(deployment?.metadata.labels?.['app.kubernetes.io/instance'], 'policy-server-default');
    const { volumes, containers } = (deployment as unknown as Deployment).spec.template.spec;
    const [container] = containers;
    assert.deepEqual(
      [
        volumes.find(({ name }) => name === 'sigstore-trust-config')?.configMap?.name,
        container?.volumeMounts.find(({ name }) => name === 'sigstore-trust-config')?.mountPath,
        container?.env.find(({ name }) => name === 'KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH')?.value,
      ],
      ['trust', '/sigstore-trust', '/sigstore-trust/sigstore-trust-config'],
    );

    // What it made is what a server can be run with, and what the webhook trusts.
    const secret = (await cluster.find(secrets, 'policy-server-default')) as Secret;
    const { body } = await askServer(configuration, secret, webhook);
    assert.equal(body.response.status.message, 'no roots');
  });

  test('what changes: another rollout, a mutating policy, a policy that goes; and a server that goes takes its webhooks first', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    await cluster.setPolicy('root');
    const stop = cluster.startOperator();
    await cluster.afterRollOut(validatingType, 'clusterwide-root');
    const deployed = await cluster.find(deploymentType, 'policy-server-default');

    await cluster.setPolicy('root', { mutating: true });
    await until(async () => {
      const now = await cluster.find(deploymentType, 'policy-server-default');
      return now?.metadata.generation !== deployed?.metadata.generation;
    });
    // The pods from before answer still.
    assert.notEqual(await cluster.webhook(validatingType, 'clusterwide-root'), undefined);
    await cluster.afterRollOut(mutatingType, 'clusterwide-root');
    await until(async () => (await cluster.webhook(validatingType, 'clusterwide-root')) === undefined);

    // While nobody looks.
    await stop();
    await cluster.client.delete(clusterAdmissionPolicyType, { name: 'root' });
    cluster.startOperator();
    await until(async () => (await cluster.webhook(mutatingType, 'clusterwide-root')) === undefined);

    await cluster.setPolicy('other');
    await until(async () => {
      const { data } = (await cluster.find(configMaps, 'policy-server-default')) as ConfigMap;
      return data?.['policies.yml']?.includes('clusterwide-other');
    });
    await cluster.afterRollOut(validatingType, 'clusterwide-other');
    await cluster.client.delete(policyServerType, { name: 'default' });
    await until(async () => (await cluster.webhook(validatingType, 'clusterwide-other')) === undefined);
    await until(async () => (await cluster.find(policyServerType as ResourceType, 'default')) === undefined);
    const status = await until(async () => {
      const found = await cluster.statusOf('other');
      return found?.policyStatus === 'scheduled' && found;
    });
    assert.match(JSON.stringify(status.conditions), /there is no PolicyServer default/);
  });

  test('a policy that cannot run keeps no other from being asked, and is asked as it was before', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    const condition = (expression: string): object => ({ matchConditions: [{ name: 'c', expression }] });
    await cluster.setPolicy('bad', condition('object.'));
    await cluster.setPolicy('turns', condition('true'));
    cluster.startOperator();
    const before = await cluster.afterRollOut(validatingType, 'clusterwide-turns');
    const told = async (name: string): Promise<string> => {
      const status = await cluster.statusOf(name);
      return JSON.stringify([
        status?.policyStatus,
        status?.conditions?.map(({ reason, message }) => [reason, message]),
      ]);
    };
    await until(async () => (await told('bad')).includes('pending'));
    assert.match(
      await told('bad'),
      /PolicyCannotRun.*spec.matchConditions\[0\].expression: .*compilation failed/,
    );
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-bad'), undefined);

    await cluster.setPolicy('turns', { ...condition('object.metadata.'), failurePolicy: 'Ignore' });
    await until(async () => (await told('turns')).includes('FormerPolicyActive'));
    assert.match(await told('turns'), /^\["active"/);
    await cluster.rollOut();
    await cluster.setPolicy('other');
    await cluster.afterRollOut(validatingType, 'clusterwide-other');
    assert.deepEqual(await cluster.webhook(validatingType, 'clusterwide-turns'), before);
  });

  test('one whose module refuses its settings is not active, and why is what the module says', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    const settings = (names: readonly string[]): object => ({
      module: 'registry://registry.example/policies/denied:v1',
      settings: { denied: names },
    });
    await cluster.setPolicy('names', settings([]));
    cluster.startOperator();
    const reason = await until(async () => {
      await cluster.rollOut();
      const conditions = (await cluster.statusOf('names'))?.conditions;
      return conditions?.find((one) => one.reason === 'PolicyCannotRun')?.message;
    });
    assert.match(reason, /denied/);
    assert.equal((await cluster.statusOf('names'))?.policyStatus, 'pending');
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-names'), undefined);

    await cluster.setPolicy('names', settings(['root']));
    await cluster.afterRollOut(validatingType, 'clusterwide-names');
    await until(async () => (await cluster.statusOf('names'))?.policyStatus === 'active');
  });

  test('its status says of each part of a server whether it is there', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default', { minAvailable: 1 });
    cluster.startOperator();
    const conditionsOf = async (name: string): Promise<readonly string[]> => {
      const { status } = (await cluster.client.get(policyServerType, { name })) as PolicyServer;
      return (status?.conditions ?? [])
        .map(({ type, status: is, reason }) => `${type} ${is} ${reason}`)
        .toSorted();
    };
    const whole = ['CertSecret', 'ConfigMap', 'Deployment', 'PodDisruptionBudget', 'Service'].map(
      (part) => `${part}Reconciled True ReconciliationSucceeded`,
    );
    await until(async () => (await conditionsOf('default')).length === whole.length);
    assert.deepEqual(await conditionsOf('default'), whole);
    assert.notEqual(await cluster.find(budgetType, 'policy-server-default'), undefined);
    await cluster.client.patch(
      policyServerType,
      { name: 'default' },
      { type: 'merge', body: { spec: { minAvailable: null } } },
    );
    await until(async () => (await cluster.find(budgetType, 'policy-server-default')) === undefined);

    await cluster.setServer('broken', { affinity: { nodeAffinity: 'here' } });
    const failed = await until(async () => {
      const conditions = await conditionsOf('broken');
      return conditions.some((one) => one.includes('False')) && conditions;
    });
    assert.deepEqual(failed, [
      'CertSecretReconciled True ReconciliationSucceeded',
      'ConfigMapReconciled True ReconciliationSucceeded',
      'DeploymentReconciled False ReconciliationFailed',
      'ServiceReconciled True ReconciliationSucceeded',
    ]);
  });

  test('certificates are replaced before their end, and nobody stops trusting meanwhile', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    await cluster.setPolicy('root');
    let stop = cluster.startOperator();
    const first = await cluster.afterRollOut(validatingType, 'clusterwide-root');
    const certificateOf = async (): Promise<string> => {
      const { data } = (await cluster.find(secrets, 'policy-server-default')) as Secret;
      return Buffer.from(data?.['tls.crt'] ?? '', 'base64').toString();
    };
    const certificate = await certificateOf();
    assert.ok(new X509Certificate(certificate).checkHost(`policy-server-default.${system}.svc`));

    await stop();
    cluster.now = new Date(cluster.now.getTime() + 300 * 24 * 3600_000);
    stop = cluster.startOperator();
    await until(async () => (await certificateOf()) !== certificate);
    assert.equal(
      (await cluster.webhook(validatingType, 'clusterwide-root'))?.clientConfig.caBundle,
      first.clientConfig.caBundle,
    );

    await stop();
    cluster.now = new Date(cluster.now.getTime() + 2500 * 24 * 3600_000);
    cluster.startOperator();
    const next = await until(async () => {
      const webhook = await cluster.webhook(validatingType, 'clusterwide-root');
      return webhook?.clientConfig.caBundle !== first.clientConfig.caBundle && webhook;
    });
    const bundle = Buffer.from(next.clientConfig.caBundle, 'base64').toString();
    assert.equal(bundle.match(/BEGIN CERTIFICATE/g)?.length, 2);
    assert.ok(bundle.includes(Buffer.from(first.clientConfig.caBundle, 'base64').toString().trim()));
  });
});

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly volumes: readonly {
          readonly name: string;
          readonly configMap?: { readonly name: string };
        }[];
        readonly containers: readonly {
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
          readonly env: readonly { readonly name: string; readonly value: string }[];
        }[];
      };
    };
  };
}

interface Answer {
  readonly body: { readonly response: { readonly status: { readonly message: string } } };
}

/** Runs a server with what was made for it, and asks it as the API server would. */
async function askServer({ data }: ConfigMap, secret: Secret, { clientConfig }: Webhook): Promise<Answer> {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-policy-servers-'));
  const stop = new AbortController();
  try {
    const file = (name: string, text: string): string => {
      writeFileSync(join(directory, name), text);
      return join(directory, name);
    };
    const pem = (key: string): string => Buffer.from(secret.data?.[key] ?? '', 'base64').toString();
    const { promise: listening, resolve } = Promise.withResolvers<number>();
    const { promise: ready, resolve: isReady } = Promise.withResolvers<void>();
    const running = runPolicyServer({
      policiesFile: file('policies.yml', data?.['policies.yml'] ?? ''),
      address: { host: '127.0.0.1', port: 0 },
      certificates: {
        certFile: file('tls.crt', pem('tls.crt')),
        keyFile: file('tls.key', pem('tls.key')),
        clientCaFiles: [],
      },
      modules: { fetch: () => Promise.reject(new Error('no modules here')) },
      hostCalls: () => ({ call: () => Promise.reject(new Error('not granted')) }),
      deadlineMs: 2000,
      continueOnErrors: true,
      logger: createLogger({ level: 'silent' }),
      signal: stop.signal,
      listening: ({ address }) => resolve(address.port),
      ready: () => isReady(),
    });
    const port = await Promise.race([listening, running.then(() => 0)]);
    await ready;
    const request = httpsRequest({
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: clientConfig.service.path,
      servername: `${clientConfig.service.name}.${system}.svc`,
      ca: Buffer.from(clientConfig.caBundle, 'base64'),
      agent: false,
      headers: { 'content-type': 'application/json' },
    });
    request.end(JSON.stringify(review({}, 'root')));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const body = (await json(response)) as Answer['body'];
    stop.abort();
    await running;
    return { body };
  } finally {
    stop.abort();
    rmSync(directory, { recursive: true, force: true });
  }
}
