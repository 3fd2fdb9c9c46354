import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { startTestApi, TestApi } from '../lib/apiserver/test-api.fixture.ts';
import { IndexedCache } from '../lib/kube/cache/indexed-cache.ts';
import { type Lease, leases, nodes } from '../lib/kube/object/object.ts';
import { ManualClock } from '../lib/time/clock.fixture.ts';
import { keepAgentLease } from './agent-lease.ts';
import { GuardStates } from './guard-states.ts';
import { systemNamespace } from './guard.ts';
import { LeftLeases } from './left-leases.ts';
import { patience } from '../lib/testing/until.fixture.ts';

class Scene extends TestApi {
  readonly clock = new ManualClock();
  readonly #nodes = new IndexedCache({ type: nodes });
  readonly left: LeftLeases;

  private constructor(api: ConstructorParameters<typeof TestApi>[0]) {
    super(api);
    const { client, clock, logger } = this;
    const { signal } = new AbortController();
    this.left = new LeftLeases({ client, nodes: this.#nodes, clock, logger, signal });
  }

  static async start(...names: readonly string[]): Promise<Scene> {
    const scene = new Scene(await startTestApi({ name: 'left-leases', memory: true }));
    await scene.createNamespace(systemNamespace);
    for (const name of names) scene.#nodes.put(await scene.client.create(nodes, { metadata: { name } }));
    return scene;
  }

  async deleteNode(name: string): Promise<void> {
    await this.client.delete(nodes, { name });
    const node = this.#nodes.get(name);
    if (node !== undefined) this.#nodes.remove(node);
  }

  /** The operator's cache is behind. */
  async recreateNode(name: string): Promise<void> {
    await this.client.create(nodes, { metadata: { name } });
  }

  /** As an agent writes it at its start; with `stopped` as it gives it back. */
  async agent(nodeName: string, kernelId: string, { stopped = false } = {}): Promise<void> {
    const stop = new AbortController();
    const states = new GuardStates();
    const common = { client: this.client, nodeName, kernelId, states, logger: this.logger };
    const kept = keepAgentLease({
      ...common,
      identity: `${nodeName}_1`,
      signal: stop.signal,
      clock: new ManualClock(),
    });
    for (;;) {
      const lease = await this.client
        .get(leases, { namespace: systemNamespace, name: `rampart-agent-${nodeName}` })
        .catch(() => undefined);
      if (lease?.spec?.holderIdentity) break;
    }
    if (stopped) {
      stop.abort();
      await kept;
    }
  }

  async kernel(kernelId: string): Promise<void> {
    const metadata = {
      namespace: systemNamespace,
      name: kernelId,
      labels: { 'rampart.dev/kernel': kernelId },
    };
    await this.client.create(leases, { metadata, spec: { holderIdentity: 'n_1' } });
  }

  async touch(name: string): Promise<void> {
    const body = { metadata: { annotations: { touched: String(this.clock.monotonicMs()) } } };
    await this.client.patch(leases, { namespace: systemNamespace, name }, { type: 'merge', body });
  }

  /** The remaining leases after a look, without the prefix of agents. */
  async look(): Promise<string[]> {
    await this.left.reconcile('leases', patience());
    const { items } = await this.client.list<Lease>(leases, { namespace: systemNamespace });
    return items.map(({ metadata }) => (metadata.name ?? '').replace('rampart-agent-', '')).toSorted();
  }
}

suite('leases that are no longer renewed', () => {
  test('the lease of a gone node goes after 30 s without a renewal, then that of its kernel; others stay', async () => {
    await using scene = await Scene.start('n1', 'n2', 'n3');
    await scene.agent('n1', 'k1');
    await scene.agent('n2', 'k2');
    await scene.agent('n3', 'k1');
    for (const kernel of ['k1', 'k2', 'k-before']) await scene.kernel(kernel);
    await scene.client.create(leases, {
      metadata: { namespace: systemNamespace, name: 'rampart-operator' },
      spec: { holderIdentity: 'o_1' },
    });
    const kept = ['k1', 'n1', 'n3', 'rampart-operator'];
    await scene.deleteNode('n2');
    assert.deepEqual(await scene.look(), ['k-before', 'k2', 'n2', ...kept].toSorted());
    scene.clock.advanceSync(20_000);
    // Its agent works still.
    await scene.touch('rampart-agent-n2');
    await scene.look();
    scene.clock.advanceSync(20_000);
    assert.deepEqual(await scene.look(), ['n2', ...kept].toSorted());
    scene.clock.advanceSync(11_000);
    assert.deepEqual(await scene.look(), kept.toSorted());
    // A lease of two nodes on one kernel.
    await scene.deleteNode('n1');
    await scene.look();
    scene.clock.advanceSync(31_000);
    assert.deepEqual(await scene.look(), ['k1', 'n3', 'rampart-operator']);
    // Without any Node nothing is said about nodes.
    await scene.deleteNode('n3');
    scene.clock.advanceSync(60_000);
    assert.equal((await scene.look()).length, 3);
  });

  test('one that was given back goes at once; that of a node that was created again stays', async () => {
    await using scene = await Scene.start('n1', 'n2', 'n3');
    await scene.agent('n1', 'k1', { stopped: true });
    await scene.agent('n2', 'k2');
    await scene.deleteNode('n1');
    await scene.deleteNode('n2');
    assert.deepEqual(await scene.look(), ['n2']);
    await scene.recreateNode('n2');
    scene.clock.advanceSync(60_000);
    assert.deepEqual(await scene.look(), ['n2']);
  });
});
