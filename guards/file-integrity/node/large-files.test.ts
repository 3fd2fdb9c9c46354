// A large file keeps nothing else waiting while it is read: neither what a scan finds in the others, nor what has changed meanwhile.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { noContainers } from '../../../lib/cri/container-source.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { skewed } from '../../../lib/time/clock.fixture.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { noEnvironment } from '../aide-conf/conf.ts';
import { readAideConf } from '../aide-conf/evaluate.ts';
import { reportOptionsOf } from '../aide-conf/report-options.ts';
import { FollowedTree } from '../live/followed-tree.ts';
import { JobWatch } from '../live/job-watch.ts';
import type { LiveJob } from '../live/live-job.ts';
import { CurrentFindings } from '../results/findings.ts';
import { HeldFile, heldFileBytes, heldFileSkip } from '../scan/held-file.fixture.ts';
import { NativeProvider } from './native-provider.ts';
import { TestCluster } from './node.fixture.ts';

const largeBytes = heldFileBytes / 2;

suite('a large file', { skip: heldFileSkip, timeout: 300_000 }, () => {
  test('is compared after the others: their findings come before it is read, and the result names it', async () => {
    await using cluster = await TestCluster.start();
    cluster.write('large', '');
    using large = await HeldFile.mount(cluster.at('large'));
    // Ten seconds, which is the shortest time between two scans, take one.
    const clock = skewed(systemClock, { rate: 10 });
    await cluster.startAgent('n1', { clock, largeBytes });
    await cluster.createIntegrity('fi');
    const first = await cluster.resultWhen('fi', ({ outcome }) => outcome.kind === 'succeeded');
    await large.hold();
    cluster.write('passwd', 'other');
    const second = await cluster.resultWhen('fi', ({ findings }) => findings.length > 0, first.sequence);
    assert.deepEqual(second.reading, { count: 1, files: ['/etc/large'] });
    assert.deepEqual(
      second.findings.map(({ path }) => path),
      ['/etc/passwd'],
    );
    // Scans go on meanwhile.
    cluster.write('hosts', 'other');
    const third = await cluster.resultWhen('fi', ({ findings }) => findings.length > 1, second.sequence);
    assert.deepEqual(third.reading, { count: 1, files: ['/etc/large'] });
    await large.release('b');
    const fourth = await cluster.resultWhen('fi', ({ findings }) => findings.length > 2, third.sequence);
    const [found] = fourth.findings;
    assert.deepEqual([found?.path, found?.attributes, found?.seenBy], ['/etc/large', ['sha256'], 'scan']);
    // As it was before.
    await large.release('a');
    await cluster.resultWhen('fi', ({ findings }) => findings.length === 2, fourth.sequence);
  });

  test('that has changed is compared beside a directory that has', async () => {
    using directory = new TemporaryDirectory();
    const host = directory.at('host');
    const at = (name: string): string => join(host, name);
    mkdirSync(at('data'), { recursive: true });
    mkdirSync(directory.at('job'));
    writeFileSync(at('large'), '');
    using large = await HeldFile.mount(at('large'));
    const text = '/ ftype+s+sha256\n';
    const job = {
      ...{ key: 'ns/fi', conf: { name: 'aide.conf', text }, root: { directory: host, prefix: '' } },
      ...{
        directory: directory.at('job'),
        signingKey: { scheme: 'hmac-sha256' as const, secret: Buffer.alloc(32, 1) },
        maxBackups: 0,
      },
    };
    const provider = new NativeProvider({ version: '0', workers: 1 });
    const { signal } = new AbortController();
    await provider.init(job, { signal });
    await using baseline = await provider.openBaseline(job);
    const conf = readAideConf('aide.conf', text, noEnvironment);
    const reported: string[] = [];
    const findings = new CurrentFindings({
      prefix: '',
      onChange: (changes) => reported.push(...changes.map(({ path }) => path)),
    });
    const live: LiveJob = {
      ...{ key: 'ns/fi', nodeName: 'n1', root: job.root, conf, reportOptions: reportOptionsOf(conf) },
      ...{
        baseline,
        findings,
        containers: noContainers,
        logger: createLogger({ level: 'silent' }),
        largeBytes,
      },
      ...{ isHeld: () => false, notify: () => undefined, requestScan: () => undefined },
    };
    const tree = new FollowedTree(live, 1000);
    await using _watch = new JobWatch(live, tree);
    await large.hold();
    tree.queue.add('/large', {});
    tree.onQueued?.();
    await large.isRead();
    writeFileSync(at('data/new'), 'new');
    tree.queue.add('/data', { below: true });
    tree.onQueued?.();
    await until('the directory is told', () => reported.includes('/data/new'));
    assert.deepEqual(reported, ['/data/new']);
    await large.release('b');
    await until('the file is told', () => reported.includes('/large'));
  });
});
