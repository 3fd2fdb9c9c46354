// Green means guarded, for each guard: by the real processes of a cluster, which are stopped, killed and started again.
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';

import { obstacle, ownNetwork } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { labObstacle } from '../lab/obstacle.ts';
import { GuardedCluster, node, objects } from './guarded-cluster.fixture.ts';

/** A lease of an agent lasts for 30 s; status has to be red within a minute. */
const RED_MS = 60_000;
const onNodes = ['file-access', 'file-integrity', 'network-policy', 'bpf-programs'];
const byOperator = ['file-integrity', 'policy-audit'];

suite('rampart status of a cluster', { skip: sensorSkip || labObstacle() || (obstacle() ?? false) }, () => {
  let cluster: GuardedCluster;
  before(async () => {
    ownNetwork();
    cluster = await GuardedCluster.start();
  });
  after(() => cluster[Symbol.asyncDispose]());

  async function green(): Promise<void> {
    const { code, report } = await cluster.until([]);
    assert.deepEqual([code, report.guarded], [0, true]);
    assert.deepEqual(
      report.guards.map(({ name, state, objects: count }) => [name, state, count]),
      Object.keys(objects).map((name) => [name, 'on', 1]),
    );
  }

  /** Each problem names the object, and the node if it is about one. */
  async function red(problems: readonly string[], of: string | null): Promise<void> {
    const { code, report } = await cluster.until(problems, RED_MS);
    assert.deepEqual([code, report.guarded], [1, false]);
    for (const { guard, object, node: where, next } of report.problems) {
      const { kind, metadata } = objects[guard] as {
        kind: string;
        metadata: { name: string; namespace?: string };
      };
      assert.deepEqual(object, { namespace: null, ...metadata, kind });
      assert.equal(where, of);
      assert.match(next, /^Start the (agent|operator)/);
    }
  }

  async function untilGreenAgain(signal: 'SIGTERM' | 'SIGKILL', kind: string): Promise<void> {
    cluster.agent?.signal(signal);
    await cluster.agent?.ended;
    await red(
      onNodes.map((guard) => `${guard} agent-${kind}`),
      node,
    );
    assert.ok(cluster.hasKernelState());
    cluster.removeKernelState();
    assert.ok(!cluster.hasKernelState());
    cluster.startAgent();
    await green();
    // The previous agent's report is not enough.
    assert.ok(cluster.hasKernelState());
    cluster.operator?.signal(signal);
    await cluster.operator?.ended;
    await red(
      byOperator.map((guard) => `${guard} operator-${kind}`),
      null,
    );
    cluster.startOperator();
    await green();
  }

  test('applied before anything runs: nothing is guarded; then all is', async () => {
    await cluster.apply();
    await cluster.until([
      'file-access agent-missing',
      'network-policy agent-missing',
      ...byOperator.map((guard) => `${guard} operator-missing`),
      ...['file-integrity', 'bpf-programs'].map((guard) => `${guard} agent-missing`),
    ]);
    cluster.startOperator();
    cluster.startAgent();
    await green();
  });

  deepTest('an agent and an operator that are stopped', () => untilGreenAgain('SIGTERM', 'stopped'));

  deepTest('an agent and an operator that are killed: red within a minute', () =>
    untilGreenAgain('SIGKILL', 'dead'),
  );
});
