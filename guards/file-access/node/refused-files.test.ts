import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { GuardFacts } from '../../../guard/agent-lease-names.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { trapOn } from '../policy/policy.fixture.ts';
import { readRefused } from '../status/refused-files.ts';
import { TestCluster } from './node.fixture.ts';

test(
  'an agent says which policies ask for files that its sensor has no room for',
  { skip: sensorSkip },
  async () => {
    await using cluster = await TestCluster.start();
    cluster.startOperator();
    let facts: () => GuardFacts = () => ({});
    const node = await cluster.startNode('n1', {
      sensor: { capacity: 1 },
      reportFacts: (reported) => {
        facts = typeof reported === 'function' ? reported : () => reported;
      },
    });
    await cluster.createPod(node, { name: 'a', labels: { app: 'web' }, files: { '/one': '', '/two': '' } });
    const web = { matchLabels: { app: 'web' } };
    await cluster.createPolicy('first', trapOn('/one', web));
    await cluster.dataCount(1);
    await until('the file is watched', () => facts()['loads'] === true);
    assert.equal(readRefused(facts()), undefined);

    await cluster.createPolicy('second', trapOn('/two', web));
    const refused = await until('a file is refused', () => readRefused(facts()));
    assert.deepEqual([refused.count, [...(refused.policies ?? [])]], [1, ['kivebpf-system/second']]);
    assert.match(refused.why, /capacity|limit|1 files?/);

    await cluster.deletePolicy('first');
    await until('there is room', () => readRefused(facts()) === undefined);
  },
);
