import assert from 'node:assert/strict';
import { test } from 'node:test';

import { findCondition } from '../../../lib/kube/object/conditions.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { ManualClock } from '../../../lib/time/clock.fixture.ts';
import { type ClusterAdmissionPolicy, clusterAdmissionPolicyType } from '../api.ts';
import { ScanCluster } from '../scanner/scan.fixture.ts';
import { policyActive } from './policy-status.ts';

test('a policy whose module takes long to fetch says since when, and what came of it', async () => {
  await using cluster = await ScanCluster.start();
  await cluster.client.create(clusterAdmissionPolicyType, {
    apiVersion: 'policies.kubewarden.io/v1',
    kind: 'ClusterAdmissionPolicy',
    metadata: { name: 'slow' },
    spec: {
      module: 'registry://registry.example/slow:1',
      rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
      mutating: false,
    },
  } as unknown as ClusterAdmissionPolicy);
  const asked = Promise.withResolvers<never>();
  const clock = new ManualClock();
  const { policies } = await cluster.startScanner({ clock, modules: { fetch: () => asked.promise } });
  const tried: string[] = [];
  using _listening = policies.onTried(({ metadata }) => void tried.push(metadata.name ?? ''));
  const active = async (): Promise<string> => {
    const { status } = await cluster.client.get(clusterAdmissionPolicyType, { name: 'slow' });
    const condition = findCondition(status?.conditions, policyActive);
    return `${status?.policyStatus} ${condition?.status} ${condition?.reason} ${condition?.message}`;
  };
  const begin = Date.now();
  await until(() => policies.opening.size > 0);
  const [sinceMs = 0] = policies.opening.values();
  assert.ok(sinceMs >= begin - 1000 && sinceMs <= Date.now());
  clock.advanceSync(5000);
  const reported = `pending False PolicyOpening its module has been fetched or compiled since ${new Date(sinceMs).toISOString()}`;
  await until(async () => (await active()) === reported);
  assert.deepEqual(tried, ['slow']);

  asked.reject(new Error('the registry is away'));
  await until(async () => (await active()).startsWith('pending False PolicyCannotRun the registry is away'));
  // Its own write of the status has it tried again at once.
  assert.ok(tried.length > 1 && tried.every((name) => name === 'slow'), tried.join());
});
