// The operator's writes at rest, by the real clock.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { systemNamespace } from '../../guard/guard.ts';
import { operatorLease } from '../../guard/operator-lease.ts';
import { runClusterGuards } from '../../guard/part.fixture.ts';
import { leases } from '../../lib/kube/object/object.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Cluster } from '../agent/deploy.fixture.ts';
import { guards } from '../guards.ts';

test('at rest, an operator of all guards writes 30 times a minute at most', async () => {
  await using cluster = await Cluster.start();
  await cluster.install();
  const written = cluster.writesOf('rampart-operator');
  const stop = new AbortController();
  const logger = createLogger({ level: 'silent' });
  const client = cluster.client('rampart-operator');
  const running = runClusterGuards(guards, { client, logger, signal: stop.signal });
  try {
    const target = { namespace: systemNamespace, name: operatorLease };
    await until('the lease', async () => (await cluster.client().get(leases, target)).spec?.holderIdentity);
    // Its start does not count as rest.
    await delay(20_000);
    written.length = 0;
    await delay(60_000);
    assert.ok(written.length > 0 && written.length <= 30, written.join('\n'));
  } finally {
    stop.abort();
    await running;
  }
});
