/** Counts of objects for `rampart status`, as the operator keeps them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { systemNamespace } from '../../../guard/guard.ts';
import { runClusterGuards } from '../../../guard/part.fixture.ts';
import { type ConfigMap, configMaps } from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { policyAudit } from '../guard.ts';
import { ScanCluster } from '../scanner/scan.fixture.ts';
import { passLabel, readLastPass } from './last-pass.ts';

test('the present objects are counted between two passes, and nothing is written without a change', async () => {
  await using cluster = await ScanCluster.start();
  await cluster.createNamespace(systemNamespace);
  await cluster.setNamespace('shop', {});
  await cluster.setObject('configmaps', 'shop', 'old', {});
  const { client } = cluster;
  const stop = new AbortController();
  const running = runClusterGuards([policyAudit], {
    client,
    signal: stop.signal,
    logger: createLogger({ level: 'silent' }),
  });
  const kept = async (): Promise<ConfigMap | undefined> =>
    (await client.list(configMaps, { namespace: systemNamespace }, { labelSelector: passLabel })).items[0];
  const counted = async (): Promise<string> => {
    const found = await kept();
    const { objects, failing } = (found && readLastPass(found)) ?? {};
    return `${objects} objects, ${failing} failing`;
  };
  try {
    await until(async () => (await counted()) === '0 objects, 0 failing');
    await cluster.setPolicy('none', { expression: 'false' });
    await until(async () => (await counted()) === '1 objects, 1 failing');
    const before = await kept();
    // Longer than from one look at the counts to the next.
    await pause(2500);
    assert.deepEqual(await kept(), before);
    await cluster.deleteObject('configmaps', 'shop', 'old');
    await until(async () => (await counted()) === '0 objects, 0 failing');
  } finally {
    stop.abort();
    await running;
  }
});
