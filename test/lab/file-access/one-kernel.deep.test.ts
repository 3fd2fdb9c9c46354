// Two nodes on one kernel, as with kind: one agent is the loader for both.
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { loaderLease } from '../../../guards/file-access/node/loader-election.ts';
import { labObstacle } from '../obstacle.ts';
import type { ReportedAlert } from './agent-process.fixture.ts';
import {
  accessOf,
  type GuardedContainer,
  LabCluster,
  type LabNode,
  pathIn,
  readNumbered,
} from './lab-cluster.fixture.ts';

const secret = '/secret.txt';
/** After that another may take over, at the latest. */
const TAKE_OVER_MS = 15_000;
/** For a machine that has much else to do. */
const BUSY_MS = 5000;
/** Both pods and both markers. */
const WATCHED = 4;

/** Two nodes with a pod each, and accesses that are counted. */
class Kind implements AsyncDisposable {
  readonly cluster: LabCluster;
  readonly nodes: readonly [LabNode, LabNode];
  readonly pods: readonly [GuardedContainer, GuardedContainer];
  #made = 0;

  private constructor(
    cluster: LabCluster,
    nodes: readonly [LabNode, LabNode],
    pods: readonly [GuardedContainer, GuardedContainer],
  ) {
    [this.cluster, this.nodes, this.pods] = [cluster, nodes, pods];
  }

  /** The first node's agent is the loader. */
  static async start(): Promise<Kind> {
    const cluster = await LabCluster.start();
    try {
      const first = await cluster.addNode('n1');
      await first.agent.untilLoader();
      const second = await cluster.addNode('n2');
      const labels = { app: 'web' };
      const pods = [
        await first.run({ name: 'web-1', labels }),
        await second.run({ name: 'web-2', labels }),
      ] as const;
      await cluster.setPolicy('p', [{ path: secret, create: true, matchAny: [{ matchLabels: labels }] }]);
      await cluster.dataCount('p', 2);
      const kind = new Kind(cluster, [first, second], pods);
      await kind.untilWatchedBy(first);
      return kind;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  async untilWatchedBy({ agent, name }: LabNode): Promise<void> {
    await until(`${name} to watch all`, async () => (await agent.metric('file_access_watched')) === WATCHED);
  }

  /** One access in each pod. Returns their numbers. */
  access(): [number, number] {
    const [a, b] = this.pods.map(({ container }) => {
      readNumbered(pathIn(container, secret), ++this.#made);
      return this.#made;
    }) as [number, number];
    return [a, b];
  }

  /** The alerts of both agents, without the marker. */
  reported(): ReportedAlert[] {
    return this.nodes.flatMap(({ agent }) =>
      agent.reported.filter(({ alert }) => alert['kive-policy-name'] === 'p'),
    );
  }

  timesReported(number: number): number {
    return this.reported().filter(({ alert }) => accessOf(alert) === String(number)).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }
}

/** Asserts that only `loader` has programs attached. */
function onlyAttached(kind: Kind, loader: LabNode): void {
  for (const node of kind.nodes) assert.equal(node.agent.attachments() > 0, node === loader, node.name);
}

/** Accesses both files and asserts that each is reported once, by `loader`, with its own node. */
async function eachOnce(kind: Kind, loader: LabNode): Promise<void> {
  const [first, second] = kind.nodes;
  await first.mark(loader.agent);
  const numbers: [number, number][] = [];
  for (let i = 0; i < 5; i++) numbers.push(kind.access());
  await second.mark(loader.agent);
  for (const [a, b] of numbers) {
    for (const [number, node, { pod, container }] of [
      [a, first, kind.pods[0]],
      [b, second, kind.pods[1]],
    ] as const) {
      const reported = kind.reported().filter(({ alert }) => accessOf(alert) === String(number));
      assert.deepEqual(
        reported.map(({ alert }) => [alert.node.name, alert.pod.name, alert.pod.ip, alert.pod.container.id]),
        [[node.name, pod.name, pod.ip, `containerd://${container.id}`]],
        `access ${number}`,
      );
    }
  }
}

async function noDataLost(kind: Kind, names: readonly string[]): Promise<void> {
  const data = await kind.cluster.dataCount('p', 2);
  assert.deepEqual(new Set(data.map(({ metadata }) => metadata.uid)), new Set(names));
}

/** Accesses every 100 ms until `node` is the loader. Returns how long that took and which were made after. */
async function untilTakenOver(kind: Kind, node: LabNode): Promise<number> {
  const beganMs = performance.now();
  await until(`${node.name} to take over`, () => node.agent.isLoader(), TAKE_OVER_MS + BUSY_MS);
  const tookMs = performance.now() - beganMs;
  await kind.untilWatchedBy(node);
  return tookMs;
}

suite('two nodes on one kernel', { skip: sensorSkip || labObstacle() }, () => {
  test('one loader for both; stopped in order, the other goes on at once', async (t: TestContext) => {
    await using kind = await Kind.start();
    const { cluster } = kind;
    const [first, second] = kind.nodes;
    const uids = (await cluster.dataCount('p', 2)).map(({ metadata }) => metadata.uid ?? '');
    assert.match(await cluster.holder(), /^n1_/);
    assert.equal(await second.agent.isLoader(), false);
    await eachOnce(kind, first);
    assert.equal(second.agent.reported.length, 0);
    onlyAttached(kind, first);

    assert.equal(await first.agent.stop(), 0);
    const orderlyMs = await untilTakenOver(kind, second);
    t.diagnostic(`stopped: taken over after ${Math.round(orderlyMs)} ms`);
    assert.ok(orderlyMs < loaderLease.leaseDurationSeconds * 1000, 'it waited for the lease to end');
    await noDataLost(kind, uids);
    await eachOnce(kind, second);
    await cluster.deletePolicy('p');
  });

  test('killed, halted and resumed: the other goes on', async (t: TestContext) => {
    await using kind = await Kind.start();
    const { cluster } = kind;
    const [first, second] = kind.nodes;
    const uids = (await cluster.dataCount('p', 2)).map(({ metadata }) => metadata.uid ?? '');

    // Killed.
    await first.agent.kill();
    t.diagnostic(`killed: taken over after ${Math.round(await untilTakenOver(kind, second))} ms`);
    await noDataLost(kind, uids);
    await eachOnce(kind, second);
    first.agent.start();
    await until('the first to be back', async () => (await first.agent.metric('agent_ready')) === 1);
    assert.equal(await first.agent.isLoader(), false);
    onlyAttached(kind, second);
    await eachOnce(kind, second);
    await noDataLost(kind, uids);

    // Halted, and resumed after the other has taken over: for a moment both report.
    second.agent.signal('SIGSTOP');
    t.diagnostic(`halted: taken over after ${Math.round(await untilTakenOver(kind, first))} ms`);
    const meanwhile = kind.access();
    await until('the other to tell', () => meanwhile.every((number) => kind.timesReported(number) === 1));
    second.agent.signal('SIGCONT');
    const resumedMs = performance.now();
    await until('the second to see the other', async () => !(await second.agent.isLoader()));
    onlyAttached(kind, first);
    t.diagnostic(`resumed: it had seen the other after ${Math.round(performance.now() - resumedMs)} ms`);
    await eachOnce(kind, first);
    // Accesses while it was halted are in its ring: reported again, with other ids, once.
    await delay(100);
    assert.ok(meanwhile.every((number) => kind.timesReported(number) <= 2));
    assert.match(await cluster.holder(), /^n1_/);
    await noDataLost(kind, uids);
    await cluster.deletePolicy('p');
  });
});
