import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { suite, test } from 'node:test';

import {
  type ConfigMap,
  configMaps,
  deployments,
  type ResourceType,
  type Secret,
  secrets,
} from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import {
  clusterAdmissionPolicyType,
  policyExceptionType,
  type PolicyServer,
  policyServerType,
} from '../api.ts';
import { SigstoreFixture } from '../../../lib/oci/signatures/sigstore.fixture.ts';
import { review } from '../server/policy-server.fixture.ts';
import { runPolicyServer } from '../server/run-policy-server.ts';
import { Cluster, system, type Webhook } from './policy-servers.fixture.ts';
import { budgetType, serviceType } from './server-objects.ts';
import { mutatingType, validatingType } from './webhooks.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

suite('policy servers in a cluster', () => {
  test('from a PolicyServer and a policy to a webhook that answers', async () => {
    await using cluster = await Cluster.start();
    await cluster.client.create(configMaps, {
      metadata: { name: 'trust', namespace: system },
      data: { 'sigstore-trust-config': JSON.stringify(new SigstoreFixture().trustRoot) },
    });
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
    const policies = (await until(async () => {
      const served = await cluster.served();
      return Object.keys(served).length === 2 && served;
    })) as Record<string, Record<string, unknown>>;
    const configuration = (await cluster.find(configMaps, 'policy-server-default')) as ConfigMap;
    assert.deepEqual(Object.keys(policies), ['clusterwide-root', 'namespaced-shop-own']);
    assert.deepEqual(policies['clusterwide-root']?.['hostCapabilities'], ['*']);
    assert.deepEqual(policies['namespaced-shop-own']?.['hostCapabilities'], ['net/*']);
    // There is no webhook before a server can answer.
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-root'), undefined);
    await until(async () => (await cluster.statusOf('root'))?.policyStatus === 'pending');
    assert.deepEqual(cluster.readyPods(), new Map([['default', 0]]));

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
    assert.deepEqual(cluster.readyPods(), new Map([['default', 1]]));
    const deployment = await cluster.find(deployments, 'policy-server-default');
    assert.equal(deployment?.metadata.labels?.['app.kubernetes.io/instance'], 'policy-server-default');
    const { volumes, containers } = (deployment as unknown as Deployment).spec.template.spec;
    const [container] = containers;
    assert.equal(container?.resources.limits.memory, '1000Mi');
    assert.deepEqual(
      [
        volumes.find(({ name }) => name === 'sigstore-trust-config')?.configMap?.name,
        container?.volumeMounts.find(({ name }) => name === 'sigstore-trust-config')?.mountPath,
        container?.env.find(({ name }) => name === 'KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH')?.value,
      ],
      ['trust', '/sigstore-trust', '/sigstore-trust/sigstore-trust-config'],
    );

    // Its objects can run a server, and the webhook trusts its certificate.
    const secret = (await cluster.find(secrets, 'policy-server-default')) as Secret;
    const { body } = await askServer(configuration, secret, webhook);
    assert.equal(body.response.status.message, 'no roots');
  });

  test('its ports and labels; policies that also apply in the namespace of the servers', async () => {
    await using cluster = await Cluster.start();
    const ports = { webhookPort: 8080, readinessProbePort: 9081, metricsPort: 9090 };
    await cluster.setServer('default', {
      ...ports,
      labels: { team: 'a', 'app.kubernetes.io/component': 'mine' },
    });
    await assert.rejects(
      cluster.setServer('other', { webhookPort: 8081 }),
      /readinessProbePort must differ from webhookPort/,
    );
    const everywhere = { allowInsideAdmissionControllerNamespace: true };
    await cluster.setPolicy('everywhere', everywhere);
    await cluster.setPolicy('changes', { ...everywhere, mutating: true });
    cluster.startOperator();
    const { namespaceSelector } = await cluster.afterRollOut(validatingType, 'clusterwide-everywhere');
    assert.deepEqual(namespaceSelector, {});
    const changes = await cluster.afterRollOut(mutatingType, 'clusterwide-changes');
    assert.deepEqual(changes['namespaceSelector'], {
      matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system'] }],
    });

    const deployment = await cluster.find(deployments, 'policy-server-default');
    const { labels } = (deployment as unknown as Deployment).spec.template.metadata;
    assert.deepEqual(
      [deployment?.metadata.labels?.['team'], labels['team'], labels['app.kubernetes.io/component']],
      ['a', 'a', 'policy-server'],
    );
    const [container] = (deployment as unknown as Deployment).spec.template.spec.containers;
    const portOf = (name: string) => container?.ports.find((one) => one.name === name)?.containerPort;
    assert.deepEqual(
      [portOf('policy-server'), portOf('readiness'), portOf('metrics')],
      // The user has taken that of metrics.
      [8080, 9081, 8081],
    );
    assert.deepEqual(container?.args, ['policy-server', '--metrics', '0.0.0.0:8081']);
    assert.equal(container.readinessProbe.httpGet.port, 9081);
    assert.equal(container.env.find(({ name }) => name === 'KUBEWARDEN_PORT')?.value, '8080');
    const service = await cluster.find(serviceType, 'policy-server-default');
    assert.deepEqual(
      (service as unknown as Service).spec.ports.map(({ port, targetPort }) => [port, targetPort]),
      [
        [443, 8080],
        [9090, 8081],
      ],
    );
  });

  test('a server is given the exceptions from its policies, without new pods', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    await cluster.setPolicy('root');
    cluster.startOperator();
    await cluster.afterRollOut(validatingType, 'clusterwide-root');
    const deployed = await cluster.find(deployments, 'policy-server-default');
    const except = (name: string, policy: string, kind: string) =>
      cluster.client.create(policyExceptionType, {
        metadata: { name, namespace: 'shop' },
        spec: {
          policies: [{ kind: 'ClusterAdmissionPolicy', name: policy }],
          match: { kinds: [kind] },
          reason: 'a test',
        },
      });
    // A policy that cannot be read is given to no server: it would spoil the others.
    await except('broken', 'root', '[z-a]');
    await except('other', 'other', 'Pod');
    await except('own', 'root', 'Pod');
    const given = await until(async () => {
      const { data } = (await cluster.find(configMaps, 'policy-server-default')) as ConfigMap;
      const found = JSON.parse(data?.['exceptions.yml'] ?? '') as { metadata: { name: string } }[];
      return found.length > 0 && found.map(({ metadata }) => metadata.name);
    });
    assert.deepEqual(given, ['own']);
    const now = await cluster.find(deployments, 'policy-server-default');
    assert.equal(now?.metadata.generation, deployed?.metadata.generation);
  });

  test('changes: another rollout, a mutating policy, a policy that goes; a server that goes removes its webhooks first', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    await cluster.setPolicy('root');
    const stop = cluster.startOperator();
    await cluster.afterRollOut(validatingType, 'clusterwide-root');
    const deployed = await cluster.find(deployments, 'policy-server-default');

    await cluster.setPolicy('root', { mutating: true });
    await until(async () => {
      const now = await cluster.find(deployments, 'policy-server-default');
      return now?.metadata.generation !== deployed?.metadata.generation;
    });
    // The pods from before answer still.
    assert.notEqual(await cluster.webhook(validatingType, 'clusterwide-root'), undefined);
    await cluster.afterRollOut(mutatingType, 'clusterwide-root');
    await until(async () => (await cluster.webhook(validatingType, 'clusterwide-root')) === undefined);

    // While no operator runs.
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
      return JSON.stringify(found).includes('not enforced: there is no PolicyServer default') && found;
    });
    assert.equal(status.policyStatus, 'scheduled');

    await cluster.setPolicy('bad', { matchConditions: [{ name: 'c', expression: 'object.' }] });
    const said = async (): Promise<string> =>
      JSON.stringify((await cluster.statusOf('bad'))?.conditions ?? []);
    await until(async () => (await said()).includes('there is no PolicyServer'));
    await cluster.setServer('default');
    await until(async () => (await said()).includes('PolicyCannotRun'));
    assert.doesNotMatch(await said(), /there is no PolicyServer/);
  });

  test('a policy that cannot run does not affect others, and its previous version stays in use', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    const condition = (expression: string): object => ({ matchConditions: [{ name: 'c', expression }] });
    await cluster.setPolicy('bad', condition('object.'));
    await cluster.setPolicy('turns', condition('true'));
    cluster.startOperator();
    const before = await cluster.afterRollOut(validatingType, 'clusterwide-turns');
    const reported = async (name: string): Promise<string> => {
      const status = await cluster.statusOf(name);
      return JSON.stringify([
        status?.policyStatus,
        status?.conditions?.map(({ reason, message }) => [reason, message]),
      ]);
    };
    await until(async () => (await reported('bad')).includes('pending'));
    assert.match(
      await reported('bad'),
      /PolicyCannotRun.*spec.matchConditions\[0\].expression: .*compilation failed/,
    );
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-bad'), undefined);

    await cluster.setPolicy('turns', { ...condition('object.metadata.'), failurePolicy: 'Ignore' });
    await until(async () => (await reported('turns')).includes('FormerPolicyActive'));
    assert.match(await reported('turns'), /^\["active"/);
    await cluster.rollOut();
    await cluster.setPolicy('other');
    await cluster.afterRollOut(validatingType, 'clusterwide-other');
    assert.deepEqual(await cluster.webhook(validatingType, 'clusterwide-turns'), before);
  });

  test('a policy whose module cannot be opened is not active, and its previous version stays in use', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    const settings = (names: readonly string[], version = 'v1'): object => ({
      module: `registry://registry.example/policies/denied:${version}`,
      settings: { denied: names },
    });
    await cluster.setPolicy('names', settings([]));
    await cluster.setPolicy('key', { module: 'file:///pki/tls.key' }, 'shop');
    const stop = cluster.startOperator();
    const refusal = async (name: string, reason: string, namespace?: string): Promise<string> =>
      until(async () => {
        await cluster.rollOut();
        const conditions = (await cluster.statusOf(name, namespace))?.conditions;
        return conditions?.find((one) => one.reason === reason)?.message;
      });
    assert.match(await refusal('names', 'PolicyCannotRun'), /denied/);
    assert.match(await refusal('key', 'PolicyCannotRun', 'shop'), /namespaced policies may not read files/);
    assert.equal((await cluster.statusOf('names'))?.policyStatus, 'pending');
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-names'), undefined);
    assert.deepEqual(await cluster.served(), {});

    await cluster.setPolicy('names', settings(['root']));
    await cluster.afterRollOut(validatingType, 'clusterwide-names');
    await until(async () => (await cluster.statusOf('names'))?.policyStatus === 'active');

    cluster.isRegistryAway = true;
    const before = await cluster.served();
    await cluster.setPolicy('names', settings(['root'], 'v2'));
    await cluster.setPolicy('new', settings(['root']));
    assert.match(await refusal('names', 'FormerPolicyActive'), /the registry is away/);
    assert.match(await refusal('new', 'PolicyCannotRun'), /the registry is away/);
    assert.deepEqual(await cluster.served(), before);
    assert.notEqual(await cluster.webhook(validatingType, 'clusterwide-names'), undefined);
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-new'), undefined);

    // An operator that starts meanwhile has no module, and takes nothing away.
    await stop();
    cluster.startOperator();
    await cluster.setPolicy('later');
    await cluster.afterRollOut(validatingType, 'clusterwide-later');
    assert.deepEqual((await cluster.served())['clusterwide-names'], before['clusterwide-names']);
    assert.notEqual(await cluster.webhook(validatingType, 'clusterwide-names'), undefined);
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
    const whole = [
      ...['CertSecret', 'ConfigMap', 'Deployment', 'PodDisruptionBudget'].map(
        (part) => `${part}Reconciled True ReconciliationSucceeded`,
      ),
      'Ready False NoReadyPods',
      'ServiceReconciled True ReconciliationSucceeded',
    ];
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

  deepTest('certificates are replaced before their end, and stay trusted meanwhile', async () => {
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
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly volumes: readonly {
          readonly name: string;
          readonly configMap?: { readonly name: string };
        }[];
        readonly containers: readonly {
          readonly args: readonly string[];
          readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
          readonly readinessProbe: { readonly httpGet: { readonly port: number } };
          readonly resources: { readonly limits: { readonly memory: string } };
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
          readonly env: readonly { readonly name: string; readonly value: string }[];
        }[];
      };
    };
  };
}

interface Service {
  readonly spec: { readonly ports: readonly { readonly port: number; readonly targetPort: number }[] };
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
        of: 'the policy server',
        certFile: file('tls.crt', pem('tls.crt')),
        keyFile: file('tls.key', pem('tls.key')),
        clientCaFiles: [],
      },
      modules: { fetch: () => Promise.reject(new Error('no modules here')) },
      hostCalls: () => ({ call: () => Promise.reject(new Error('not granted')) }),
      deadlineMs: 2000,
      continueOnErrors: true,
      findings: { write: () => undefined },
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
