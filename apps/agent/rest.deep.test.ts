// The agent's writes at rest, by the real clock.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { keepAgentLease } from '../../guard/agent-lease.ts';
import { systemNamespace } from '../../guard/guard.ts';
import { GuardStates } from '../../guard/guard-states.ts';
import { readKernelId } from '../../guard/kernel-id.ts';
import { runNodeGuards } from '../../guard/part.fixture.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import { GivenContainers } from '../../lib/cri/containers.fixture.ts';
import { leases } from '../../lib/kube/object/object.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Cluster } from './deploy.fixture.ts';

test('at rest, an agent that loads writes 6 times a minute at most', { skip: sensorSkip }, async () => {
  await using cluster = await Cluster.start(undefined, new Set(['n1']));
  await cluster.install();
  const written = cluster.writesOf('rampart-agent');
  const stop = new AbortController();
  const states = new GuardStates();
  const common = {
    client: cluster.client('rampart-agent'),
    nodeName: 'n1',
    signal: stop.signal,
    logger: createLogger({ level: 'silent' }),
  };
  const running = Promise.all([
    keepAgentLease({ ...common, identity: 'n1_1', states }),
    runNodeGuards(
      [fileAccess],
      { allowCallback: [], callbackSecret: [], mode: 'auto' },
      { ...common, containers: new GivenContainers(), directory: cluster.directory },
    ),
  ]);
  try {
    const target = { namespace: systemNamespace, name: readKernelId() };
    await until('the lease of the kernel', async () => {
      const lease = await cluster.client().get(leases, target);
      return lease.spec?.holderIdentity;
    });
    // Its start does not count as rest.
    await delay(10_000);
    written.length = 0;
    await delay(60_000);
    assert.ok(written.length > 0 && written.length <= 6, written.join('\n'));
  } finally {
    stop.abort();
    await running;
  }
});
