import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { namespacedKind, pods } from '../../../lib/kube/object/object.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { clusterAdmissionPolicyGroupType, type PolicyServer, policyServerType } from '../api.ts';
import { modulePath, review, ServerFixture } from '../server/policy-server.fixture.ts';
import { Cluster, system } from './policy-servers.fixture.ts';
import { validatingType } from './webhooks.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const events = namespacedKind('events.k8s.io', 'events', 'Event');
const module = 'registry://registry.example/policies/denied:v1';
const denying = { module, settings: { denied: ['root'] } };

/** A pod of the cluster with a real server, which has what the operator gives it. */
class ServerPod implements AsyncDisposable {
  isRegistryAway: boolean;
  readonly #cluster: Cluster;
  readonly #name: string;
  #server: ServerFixture | undefined;

  private constructor(cluster: Cluster, name: string, isRegistryAway: boolean) {
    this.#cluster = cluster;
    this.#name = name;
    this.isRegistryAway = isRegistryAway;
  }

  static async start(cluster: Cluster, name: string, { isRegistryAway = false } = {}): Promise<ServerPod> {
    const pod = new ServerPod(cluster, name, isRegistryAway);
    pod.#server = await ServerFixture.start(await cluster.served(), {
      continueOnErrors: true,
      modules: {
        fetch: async () => {
          if (pod.isRegistryAway)
            throw new RampartError(errorCodes.API_UNREACHABLE, { what: 'no route to 10.1.2.3' });
          const bytes = readFileSync(fileURLToPath(modulePath('denied.wapc')));
          return { bytes, digest: digestOf(bytes) };
        },
      },
    });
    await cluster.setPod(name, pod.#server.readinessUrl);
    return pod;
  }

  get server(): ServerFixture {
    if (this.#server === undefined) throw new Error('it was not started');
    return this.#server;
  }

  /** As a changed ConfigMap has it, which makes it try again. */
  async reload(): Promise<void> {
    this.server.writePolicies(`${JSON.stringify(await this.#cluster.served())}\n\n`);
  }

  async delete(): Promise<void> {
    const target = { name: this.#name, namespace: system };
    await this.#cluster.client.delete(pods, target, { gracePeriodSeconds: 0 });
    await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]();
  }
}

async function reportedOf(cluster: Cluster, name: string): Promise<string> {
  const status = await cluster.statusOf(name);
  const active = status?.conditions?.find(({ type }) => type === 'PolicyActive');
  return `${status?.policyStatus} ${status?.mode} ${active?.reason}: ${active?.message}`;
}

async function loadedOf(cluster: Cluster): Promise<string | undefined> {
  const { status } = (await cluster.client.get(policyServerType, { name: 'default' })) as PolicyServer;
  const loaded = status?.conditions?.find(({ type }) => type === 'PoliciesLoaded');
  return loaded && `${loaded.status} ${loaded.reason}: ${loaded.message}`;
}

const reports = (cluster: Cluster, name: string, what: RegExp): Promise<string> =>
  until(async () => {
    await cluster.rollOut();
    const reported = await reportedOf(cluster, name);
    return what.test(reported) && reported;
  });

async function servedTo(cluster: Cluster, ...ids: readonly string[]): Promise<void> {
  await until(async () => {
    const served = await cluster.served();
    return ids.every((id) => id in served);
  });
}

suite('modules that pods of a policy server cannot fetch', () => {
  test('a policy that was active is not, on new pods without its module; one that was not refuses nothing', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default', { replicas: 2 });
    await cluster.setPolicy('cel');
    await cluster.setPolicy('denied', denying);
    cluster.startOperator();
    await servedTo(cluster, 'clusterwide-cel', 'clusterwide-denied');
    await using first = await ServerPod.start(cluster, 'first');
    await using second = await ServerPod.start(cluster, 'second', { isRegistryAway: true });
    assert.equal(
      await reports(cluster, 'denied', /PolicyCannotRun/),
      'pending unknown PolicyCannotRun: its PolicyServer does not evaluate it on 1 of 2 pods: its module is out of reach; ' +
        'the log of the pod second says more',
    );
    await reports(cluster, 'cel', /^active/);
    assert.equal(await cluster.webhook(validatingType, 'clusterwide-denied'), undefined);
    assert.equal(
      await loadedOf(cluster),
      'False PoliciesMissing: not evaluated by all pods: clusterwide-denied',
    );

    second.isRegistryAway = false;
    await second.reload();
    await reports(cluster, 'denied', /^active protect PolicyActive/);
    assert.notEqual(await cluster.webhook(validatingType, 'clusterwide-denied'), undefined);
    await until(async () => (await loadedOf(cluster))?.startsWith('True'));

    // The nodes restart while the registry is away.
    await first.delete();
    await second.delete();
    await using third = await ServerPod.start(cluster, 'third', { isRegistryAway: true });
    // The operator is not notified about pods; a Deployment changes as its pods do.
    await cluster.rollOut('default', 0);
    await reports(cluster, 'denied', /PolicyUnavailable/);
    assert.equal(
      await reportedOf(cluster, 'denied'),
      'pending unknown PolicyUnavailable: its PolicyServer does not evaluate it on 1 of 1 pod: its module is out of reach; ' +
        'the log of the pod third says more. What it applies to is refused there',
    );
    assert.notEqual(await cluster.webhook(validatingType, 'clusterwide-denied'), undefined);
    const { body } = await third.server.post('/validate/clusterwide-denied', review());
    assert.equal(body.response?.allowed, false);
    await reports(cluster, 'cel', /^active/);
    await until(async () => {
      const { items } = await cluster.client.list(events);
      return items.some((event) => 'reason' in event && event.reason === 'PolicyNotActive');
    });

    // If a pod does not answer, its last known states are used.
    await third.server[Symbol.asyncDispose]();
    await until(async () => (await loadedOf(cluster))?.startsWith('Unknown'));
    assert.match(
      String(await loadedOf(cluster)),
      /1 of 1 pod cannot be asked .*third: .*(?:ECONNREFUSED|ECONNRESET|hang up)/,
    );
    assert.match(await reportedOf(cluster, 'denied'), /^pending unknown PolicyUnavailable/);
  });

  deepTest('a group with such a member, an edit, and pods of a rolling update', async () => {
    await using cluster = await Cluster.start();
    await cluster.setServer('default');
    const group = (version: string): Promise<unknown> =>
      cluster.client.apply(
        clusterAdmissionPolicyGroupType,
        {
          apiVersion: 'policies.kubewarden.io/v1',
          kind: 'ClusterAdmissionPolicyGroup',
          metadata: { name: 'group' },
          spec: {
            rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
            expression: 'denied()',
            message: 'denied',
            policies: { denied: { ...denying, module: module.replace('v1', version) } },
          },
        } as never,
        { fieldManager: 'test', force: true },
      );
    const groupReported = async (): Promise<string> => {
      const { status } = await cluster.client.get(clusterAdmissionPolicyGroupType, { name: 'group' });
      const active = status?.conditions?.find(({ type }) => type === 'PolicyActive');
      return `${status?.policyStatus} ${active?.reason}: ${active?.message}`;
    };
    await group('v1');
    cluster.startOperator();
    const id = 'clusterwide-group-group';
    await servedTo(cluster, id);
    await using old = await ServerPod.start(cluster, 'old');
    await until(async () => {
      await cluster.rollOut();
      return (await groupReported()).startsWith('active');
    });

    await group('v2');
    await until(async () => JSON.stringify(await cluster.served()).includes(':v2'));
    // The previous pod evaluates the previous version still, which no status denies.
    old.isRegistryAway = true;
    await old.reload();
    await until(async () => (await fetch(new URL('/policies', old.server.readinessUrl))).ok);
    assert.match(await groupReported(), /^active/);
    // A new one is ready after five minutes without its module, before the rollout has ended.
    await using fresh = await ServerPod.start(cluster, 'fresh', { isRegistryAway: true });
    await cluster.client.patch(
      policyServerType,
      { name: 'default' },
      { type: 'merge', body: { metadata: { labels: { looked: 'at' } } } },
    );
    await until(async () => (await groupReported()).startsWith('pending'));
    assert.match(await groupReported(), /PolicyUnavailable: .* on 1 of 2 pods: its module is out of reach/);

    await old.delete();
    await until(async () => {
      await cluster.rollOut();
      return (await groupReported()).includes('on 1 of 1 pod');
    });
    fresh.isRegistryAway = false;
    await fresh.reload();
    await until(async () => (await groupReported()).startsWith('active PolicyActive'));
  });
});
