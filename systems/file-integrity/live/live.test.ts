// Real files, the sensor of this machine, the agent as it is: what is known at once, and who it was.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { TestCluster } from '../node/node.fixture.ts';
import { run, untilFollowed, untilLine } from './live.fixture.ts';
import { liveOf } from './start-live.ts';

suite('known at once', { timeout: 60_000 }, () => {
  test('a file is written: the finding, with who it was', async (t) => {
    await using cluster = await TestCluster.start();
    const agent = await cluster.startAgent('n1', { live: liveOf() });
    await cluster.createIntegrity('fi', { config: { gracePeriod: 900 } });
    const detection = await untilFollowed(cluster);
    t.diagnostic(JSON.stringify(detection));
    const startMs = performance.now();
    const pid = await run('sh', ['-c', `echo more >> ${cluster.at('passwd')}; true`]);
    const line = await untilLine(agent.lines, 'a finding', ({ path }) => path === '/etc/passwd');
    t.diagnostic(`${Math.round(performance.now() - startMs)} ms`);
    assert.equal(line.seenBy, 'event');
    const result = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'failed');
    t.diagnostic(`${Math.round(performance.now() - startMs)} ms`);
  });
});
