// A tenant's policy on a node with pods of others: the files found, reported and alerted. The real sensor,
// the embedded API.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { suite, test } from 'node:test';

import { pods } from '../../../lib/kube/object/object.ts';
import { events } from '../../../lib/kube/events/event-object.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { type KivePolicy, kivePolicyType, type KiveTrap } from '../api.ts';
import { PolicyScope } from '../policy/policy-scope.ts';
import { alertOf, readByCat, TestCluster, type TestContainer, type TestNode } from './node.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const everything = [{ containerName: '.*' }];
const secret: KiveTrap = { path: '/secret.txt', matchAny: everything };

/** A pod `web` of the tenant and one of another, on one node. */
class Scene implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly roots = new Map<string, TestContainer>();
  node!: TestNode;

  constructor(cluster: TestCluster) {
    this.cluster = cluster;
  }

  static async start(scope?: PolicyScope): Promise<Scene> {
    const scene = new Scene(await TestCluster.start());
    await scene.cluster.createNamespace('tenant');
    await scene.startNode(scope);
    for (const namespace of ['tenant', 'default']) {
      const files = { '/secret.txt': namespace };
      const [container] = await scene.cluster.createPod(scene.node, {
        ...{ name: 'web', namespace, files },
        labels: { app: 'web' },
      });
      assert.ok(container);
      scene.roots.set(namespace, container);
    }
    return scene;
  }

  async startNode(policyScope?: PolicyScope): Promise<void> {
    this.node = await this.cluster.startNode('n1', {
      ...(policyScope && { policyScope }),
      ...(this.node && { containers: this.node.containers }),
    });
  }

  create(name: string, ...traps: readonly KiveTrap[]): Promise<KivePolicy> {
    return this.cluster.client.create(kivePolicyType, {
      metadata: { name, namespace: 'tenant' },
      spec: { traps },
    });
  }

  path(namespace: string): string {
    return join(this.roots.get(namespace)?.root ?? '', 'secret.txt');
  }

  /** The namespaces of the pods with KiveData that are not being deleted. */
  async found(): Promise<string[]> {
    return (await this.cluster.data())
      .map(({ metadata }) => metadata.annotations?.['namespace'] ?? '')
      .sort();
  }

  untilFound(...namespaces: readonly string[]): Promise<true> {
    return until(
      `KiveData in ${namespaces.join()}`,
      async () => (await this.found()).join() === namespaces.join(),
    );
  }

  /** The alerts for accesses in both pods: the tenant's is the mark that the others would have come. */
  async alerted(): Promise<string[]> {
    this.node.lines.length = 0;
    readByCat(this.path('default'));
    await alertOf(this.node, this.path('tenant'), ({ pod }) => pod.namespace === 'tenant');
    return [...new Set(this.node.alerts.map(({ pod }) => pod.namespace))].sort();
  }

  async condition(name: string, reason: string): Promise<string> {
    return await until(`${name} is ${reason}`, async () => {
      const { status } = await this.cluster.client.get(kivePolicyType, { namespace: 'tenant', name });
      return status?.conditions?.find((one) => one.reason === reason)?.message;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }
}

suite('a policy of a tenant', { skip: sensorSkip }, () => {
  test('finds, counts and alerts files of its own namespace only, whichever item its blocks have', async () => {
    await using scene = await Scene.start();
    scene.cluster.startOperator();
    const ip = '10.0.0.9';
    const blocks = [{ pod: 'web' }, { ip }, { matchLabels: { app: 'web' } }, { containerName: 'main' }];
    await scene.create('p', { ...secret, matchAny: blocks });
    await scene.untilFound('tenant');
    assert.deepEqual(await scene.alerted(), ['tenant']);
    const message = await scene.condition('p', 'Watching');
    assert.match(message, /^1 file in 1 container is watched/);
    const { status } = await scene.cluster.client.get(kivePolicyType, { namespace: 'tenant', name: 'p' });
    assert.equal(status?.scope, 'Namespace');
    assert.deepEqual(await scene.found(), ['tenant']);
  });

  test('a policy that names another namespace has a condition and an event', async () => {
    await using scene = await Scene.start();
    scene.cluster.startOperator();
    await scene.create('p', { ...secret, matchAny: [{ namespace: 'default' }] });
    const why =
      /spec\.traps\[0\]\.matchAny\[0\]\.namespace: .*"default".* tenant .*--kive-policy-namespaces tenant/;
    assert.match(await scene.condition('p', 'TrapsRefused'), why);
    const note = await until('the event', async () => {
      const { items } = await scene.cluster.client.list(events, { namespace: 'tenant' });
      return items.find(({ reason }) => reason === 'TrapRefused')?.note;
    });
    assert.match(note, why);
    // An edit and a pod that comes later change nothing about it.
    await scene.cluster.client.patch(
      kivePolicyType,
      { namespace: 'tenant', name: 'p' },
      { type: 'merge', body: { spec: { traps: [{ ...secret, matchAny: [{ pod: 'later' }] }] } } },
    );
    await scene.cluster.createPod(scene.node, { name: 'later', files: { '/secret.txt': '' } });
    assert.match(
      await scene.condition('p', 'NoMatch'),
      /^No running container in tenant matches\. To match pods of other namespaces, .*--kive-policy-namespaces tenant/,
    );
    assert.deepEqual(await scene.found(), []);
  });

  test('a pod that gets the label of a policy is matched in its namespace only', async () => {
    await using scene = await Scene.start();
    await scene.create('p', { ...secret, matchAny: [{ matchLabels: { watched: 'yes' } }] });
    const body = { metadata: { labels: { watched: 'yes' } } };
    for (const namespace of ['default', 'tenant']) {
      await scene.cluster.client.patch(pods, { namespace, name: 'web' }, { type: 'merge', body });
    }
    await scene.untilFound('tenant');
    assert.deepEqual(await scene.alerted(), ['tenant']);
  });

  deepTest(
    'restarted with another option, the agent deletes KiveData that are no longer allowed, and finds those that are',
    async () => {
      const wide = new PolicyScope(['tenant']);
      await using scene = await Scene.start(wide);
      await scene.create('p', secret);
      await scene.untilFound('default', 'tenant');
      assert.deepEqual(await scene.alerted(), ['default', 'tenant']);
      // KiveData stay when an agent ends.
      for (const [scope, expected] of [
        [undefined, ['tenant']],
        [wide, ['default', 'tenant']],
      ] as const) {
        await scene.node.stop();
        await scene.startNode(scope);
        await scene.untilFound(...expected);
        await until('the loader to have it', async () => {
          await delay(30);
          return (await scene.alerted()).join() === expected.join();
        });
      }
    },
  );
});
