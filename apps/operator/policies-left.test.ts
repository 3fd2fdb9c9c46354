/** What Kubewarden's controller leaves on policies, once the operator has taken over (docs/moving.md). */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isNotFound } from '../../shared/kube/client-errors.ts';
import { until } from '../../shared/observe/until.fixture.ts';
import { clusterAdmissionPolicyType } from '../../systems/policy-audit/api.ts';
import { clusterPolicy, ScanCluster } from '../../systems/policy-audit/scanner/scan.fixture.ts';
import { RampartProcess } from '../apiserver/rampart-process.fixture.ts';

test('policies that Kubewarden gave finalizers can be deleted; finalizers of others stay', async () => {
  await using cluster = await ScanCluster.start();
  await cluster.createNamespace('kivebpf-system');
  const others = 'example.com/keeps';
  for (const [name, ...finalizers] of [
    ['old', 'kubewarden'],
    ['recent', 'kubewarden.io/finalizer'],
    ['kept', 'kubewarden.io/finalizer', others],
    ['stays', 'kubewarden.io/finalizer'],
  ]) {
    const policy = clusterPolicy(name ?? '', {});
    await cluster.client.create(clusterAdmissionPolicyType, {
      ...policy,
      metadata: { ...policy.metadata, finalizers },
    });
  }
  // Before the operator, and while it runs.
  await cluster.deletePolicy('old');
  await using _operator = new RampartProcess([
    ...['operator', '--guards', 'policy-audit', '--kubeconfig', cluster.kubeconfig],
  ]);
  const finalizersOf = async (name: string): Promise<readonly string[]> =>
    (await cluster.client.get(clusterAdmissionPolicyType, { name })).metadata.finalizers ?? [];
  const isGone = async (name: string): Promise<boolean> =>
    await finalizersOf(name).then(
      () => false,
      (error: unknown) => isNotFound(error),
    );
  await until('old is gone', () => isGone('old'));
  for (const name of ['recent', 'kept']) await cluster.deletePolicy(name);
  await until('recent is gone', () => isGone('recent'));
  await until('that of others stays', async () => (await finalizersOf('kept')).join() === others);
  assert.deepEqual(await finalizersOf('stays'), ['kubewarden.io/finalizer']);
});
