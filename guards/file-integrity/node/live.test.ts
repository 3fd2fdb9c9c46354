// The seam for what watches files between the scans.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { names } from '../api.ts';
import { type ChangeAuthor, type Detection, noDetection } from '../model/finding.ts';
import { describeDifference } from '../report/describe.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { conf, TestCluster } from './node.fixture.ts';
import type { LiveJob } from '../live/live-job.ts';

const author: ChangeAuthor = {
  ...{ binary: '/usr/bin/sed', arguments: '-i x', cwd: '/', uid: 0, gid: 0, pid: 7, ppid: 1 },
  ...{ parentBinary: '/bin/sh', relation: 'host' },
};
const bySensor: Detection = {
  ...noDetection,
  ...{ events: 'sensor', reason: '', watchedDirectories: 3 },
};
/** As the result has it: the host of the test is no node with packages. */
const withoutPackages: Detection = { ...bySensor, packagesReason: 'the node has no database of dpkg' };

suite('between the scans', { timeout: 300_000 }, () => {
  test('a watch gets the baseline, reports findings, and starts again with each baseline', async () => {
    await using cluster = await TestCluster.start();
    const jobs: LiveJob[] = [];
    let disposed = 0;
    const agent = await cluster.startAgent('n1', {
      live: (job) => {
        jobs.push(job);
        job.notify(bySensor);
        return { [Symbol.dispose]: () => void disposed++ };
      },
    });
    await cluster.createIntegrity('fi', { config: { gracePeriod: 900 } });
    const first = await cluster.resultWhen('fi', ({ detection }) => detection.events === 'sensor');
    assert.deepEqual([first.outcome.kind, first.detection], ['succeeded', withoutPackages]);
    const [job] = jobs;
    assert.ok(job !== undefined && disposed === 0);

    // As events of a change and of one that is taken back.
    const path = '/hostroot/etc/passwd';
    const old = (await job.baseline.find([path, '/hostroot/etc/none'])).get(path);
    assert.ok(old !== undefined);
    const now = { ...old, sizeBytes: 5 };
    const { setOf } = await import('../model/attributes.ts');
    const difference = { kind: 'changed' as const, path, old, now, changed: setOf('s') };
    const change = describeDifference(difference, job.reportOptions);
    job.findings.update([{ path, change, author }], 1234);
    const second = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'failed', first.sequence);
    assert.deepEqual(second.findings, [
      { path: '/etc/passwd', change: 'changed', attributes: ['size'], seenMs: 1234, seenBy: 'event', author },
    ]);
    assert.ok(second.outcome.kind === 'failed');
    assert.match(second.outcome.log.data, /changed: \/hostroot\/etc\/passwd|f.*: \/hostroot\/etc\/passwd/);
    assert.match(
      agent.lines[0] ?? '',
      /"state":"found".*"path":"\/etc\/passwd".*"author":\{"binary":"\/usr\/bin\/sed"/,
    );
    job.findings.update([{ path, change: undefined }], 1235);
    const third = await cluster.resultWhen(
      'fi',
      ({ outcome }) => outcome.kind === 'succeeded',
      second.sequence,
    );
    assert.deepEqual(third.detection, withoutPackages);

    // Events were lost: only a scan can find the change.
    cluster.write('hosts', 'other');
    job.requestScan('events were lost');
    const fourth = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'failed', third.sequence);
    assert.deepEqual(
      fourth.findings.map(({ path: found, seenBy }) => [found, seenBy]),
      [['/etc/hosts', 'scan']],
    );

    assert.equal(job.isHeld(), false);
    await cluster.annotate('fi', { [names.holdoff]: '' });
    await until('it is held', () => job.isHeld());
    await cluster.request('fi', { kind: 're-init', id: 'a1', by: 'annotation' });
    const fifth = await cluster.resultWhen(
      'fi',
      ({ doneRequests }) => doneRequests.includes('a1'),
      fourth.sequence,
    );
    assert.equal(fifth.outcome.kind, 'succeeded');
    await until('it is begun anew', () => jobs.length === 2);
    assert.equal(disposed, 1);
    assert.notEqual(jobs[1]?.baseline.digest, job.baseline.digest);
    assert.equal(jobs[1]?.findings, job.findings);
    await agent.stop();
    assert.equal(disposed, 2);
  });

  test('while no scan is possible, events report changes, but never success', async () => {
    await using cluster = await TestCluster.start();
    const jobs: LiveJob[] = [];
    await cluster.startAgent('n1', {
      live: (job) => {
        jobs.push(job);
        job.notify(bySensor);
        return { [Symbol.dispose]: () => undefined };
      },
    });
    cluster.write('../usr/share/aide/more', '');
    const included = `@@include /hostroot/usr/share/aide ^more$ /hostroot\n${conf}`;
    await cluster.createIntegrity('fi', { conf: included, config: { gracePeriod: 900 } });
    const first = await cluster.resultWhen('fi', ({ detection }) => detection.events === 'sensor');
    const [job] = jobs;
    assert.ok(job !== undefined);
    cluster.write('../usr/share/aide/more', 'no option\n');
    job.requestScan('events were lost');
    const second = await cluster.resultWhen(
      'fi',
      ({ outcome }) => outcome.kind === 'errored',
      first.sequence,
    );

    const path = '/hostroot/etc/passwd';
    const old = (await job.baseline.find([path])).get(path);
    assert.ok(old !== undefined);
    const difference = { kind: 'removed' as const, path, old };
    const change = describeDifference(difference, job.reportOptions);
    job.findings.update([{ path, change }], 1234);
    const third = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'failed', second.sequence);
    job.findings.update([{ path, change: undefined }], 1235);
    const { outcome } = await cluster.resultWhen('fi', () => true, third.sequence);
    assert.equal(outcome.kind, 'errored');
  });

  test('scans run although the watch cannot start', async () => {
    await using cluster = await TestCluster.start();
    await cluster.startAgent('n1', {
      live: () => {
        throw new Error('no');
      },
    });
    await cluster.createIntegrity('fi', { config: { initialDelay: 1 } });
    const first = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'succeeded');
    cluster.write('hosts', 'other');
    const second = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'failed', first.sequence);
    assert.equal(second.detection.events, 'none');
  });
});
