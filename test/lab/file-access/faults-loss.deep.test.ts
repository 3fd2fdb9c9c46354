// Fault 11 of Kive: records without room in the ring are lost silently.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { GuardedLab } from '../guarded-lab.fixture.ts';
import { labObstacle } from '../obstacle.ts';

/** Many, because a process gets 1,000 alerts at once for a file and no more. */
const FILES = 20;
/** Number of each. With a kilobyte of arguments in each record, this is twice the size of the ring. */
const OPENS = 750;

suite('11: a flood', { skip: sensorSkip || labObstacle() }, () => {
  test('loses records without room in the ring, counts them exactly, and reports the loss', async () => {
    await using guarded = await GuardedLab.start();
    const { container } = await guarded.run({ name: 'flood' });
    const files = Array.from({ length: FILES }, (_, index) => `/root/file-${index}`);
    await guarded.setPolicy(
      'flood',
      files.map((path) => ({ path, create: true, matchAny: [{ pod: 'flood' }] })),
    );
    await guarded.dataCount('flood', FILES);
    const paths = files.map((path) => guarded.pathIn(container, path));
    const script = `
      const { closeSync, openSync } = require('node:fs');
      const paths = ${JSON.stringify(paths)};
      for (let i = 0; i < ${OPENS}; i++) for (const path of paths) closeSync(openSync(path));`;
    // While the ring is not read.
    process.kill(guarded.standalone.pid, 'SIGSTOP');
    try {
      const { status, stderr } = spawnSync(process.execPath, ['-e', script, 'x'.repeat(1000)]);
      assert.equal(status, 0, String(stderr));
    } finally {
      process.kill(guarded.standalone.pid, 'SIGCONT');
    }
    const made = FILES * OPENS;
    const counts = async () => ({
      reported: guarded.standalone.stdout.match(/"kive-policy-name":"flood"/g)?.length ?? 0,
      lost: await guarded.metric('file_access_lost_total'),
      folded: await guarded.metric('file_access_folded_total'),
    });
    await until('all to be accounted for', async () => {
      const { reported, lost, folded } = await counts();
      return reported + lost + folded >= made;
    });
    const { reported, lost, folded } = await counts();
    assert.deepEqual({ sum: reported + lost + folded, folded }, { sum: made, folded: 0 });
    assert.ok(lost > 0 && reported > 0, `${lost} lost, ${reported} told`);
    await until('an event on the policy', () => {
      const { stdout } = guarded.standalone.kubectl(
        'get',
        'events',
        '-A',
        '-o',
        'jsonpath={.items[*].message}',
      );
      return /lost/.test(stdout);
    });
    // And it goes on.
    const alerts = await guarded.alertsOf(async () => await guarded.sh(container, `cat ${files.join(' ')}`));
    assert.deepEqual(
      alerts.map(({ metadata }) => metadata.path),
      files,
    );
  });
});
