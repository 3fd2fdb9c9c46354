import assert from 'node:assert/strict';
import { test } from 'node:test';

import { systemNamespace } from '../../../guard/guard.ts';
import {
  agentGuardsAnnotation,
  agentLeaseLabel,
  agentLeaseName,
  agentNodeAnnotation,
} from '../../../guard/agent-lease-names.ts';
import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { leases } from '../../../lib/kube/object/object.ts';
import { patience, until } from '../../../lib/testing/until.fixture.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { nodeFacts } from '../results/node-facts.ts';
import { succeeded, TestCluster, testNamespace } from './cluster.fixture.ts';
import { NodeProgress } from './node-progress.ts';

const since = '2026-11-27T12:00:00.000Z';

/** As the agent of the node says it. */
async function notify(cluster: TestCluster, node: string, object: string, entries: number): Promise<void> {
  const progress = { object, step: 'init', since, entries, entriesPerSecond: 40 } as const;
  const guards = {
    'file-integrity': { state: 'running', reason: '', facts: nodeFacts({ followed: [], progress }) },
  };
  const metadata = {
    ...{ namespace: systemNamespace, name: agentLeaseName(node) },
    labels: { [agentLeaseLabel]: node },
    annotations: { [agentNodeAnnotation]: node, [agentGuardsAnnotation]: JSON.stringify(guards) },
  };
  await cluster.client.apply(leases, { metadata }, { fieldManager: 'agent', force: true });
}

test('the progress of nodes that initialize is in the condition until they have a result', async () => {
  await using cluster = await TestCluster.start();
  await cluster.createNamespace(systemNamespace);
  for (const node of ['n1', 'n2']) await cluster.createNode(node);
  await notify(cluster, 'n1', `${testNamespace}/fi`, 1200);
  await notify(cluster, 'n2', `${testNamespace}/other`, 7);
  await cluster.createIntegrity('fi');
  cluster.startOperator();
  const complete = async (): Promise<string> => {
    const { status } = await cluster.integrity('fi');
    const found = findCondition(status?.conditions, 'Complete');
    return `${found?.status} ${found?.reason}: ${found?.message}`;
  };
  const both = `Unknown NotScanned: Not scanned yet: n1 (baseline since ${since}: 1200 entries, 40 per second), n2.`;
  await until(async () => (await complete()) === both);
  await cluster.write(cluster.result('fi', 'n1', succeeded));
  await until(async () => (await complete()) === 'Unknown NotScanned: Not scanned yet: n2.');
  await cluster.write(cluster.result('fi', 'n2', succeeded));
  await until(async () => (await complete()) === 'True AllFilesRead: ');
});

test('leaves out the progress of an agent that no longer renews its lease', async () => {
  await using cluster = await TestCluster.start();
  await cluster.createNamespace(systemNamespace);
  const clock = new ManualClock();
  const nodes = new NodeProgress({ client: cluster.client, clock });
  const entries = async (): Promise<number | undefined> => {
    const found = await nodes.of('ns/fi', ['n1', 'absent'], patience());
    return found.get('n1')?.entries;
  };
  await notify(cluster, 'n1', 'ns/fi', 10);
  assert.equal(await entries(), 10);
  clock.advanceSync(29_000);
  assert.equal(await entries(), 10);
  clock.advanceSync(10_000);
  assert.equal(await entries(), undefined);
  await notify(cluster, 'n1', 'ns/fi', 20);
  clock.advanceSync(9999);
  assert.equal(await entries(), undefined, 'asked at most every 10 s');
  clock.advanceSync(1);
  assert.equal(await entries(), 20);
});
