// Where a change could be missed: while directories are watched, between two watches, when events were lost.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { released } from '../api.ts';
import type { Finding } from '../model/finding.ts';
import { namespace } from '../node/node.fixture.ts';
import { Followed, inotifyInstances } from './live.fixture.ts';
import { liveOf } from './start-live.ts';

suite('nothing is missed', { timeout: 300_000 }, () => {
  test('a large file that changes again just after it was checked', async () => {
    // inotify reports a change for the name that was used only, and only reports of one name are spaced.
    const live = liveOf({ mode: 'inotify' });
    await using followed = await Followed.start({ live }, { conf: '/hostroot/etc f n+i+sha256\n' });
    const { cluster } = followed;
    cluster.write('large', '');
    truncateSync(cluster.at('large'), 16 * 1024 * 1024);
    await followed.shell('ln "$1" "$2"', 'large', 'deep/link');
    await followed.newBaseline();
    followed.mark();
    await followed.shell('echo one >> "$1"', 'large');
    for (const path of ['/etc/large', '/etc/deep/link']) await followed.line('found', path);

    // Both are not checked again for nine times as long as the check took.
    followed.mark();
    await followed.shell('echo two >> "$1"', 'deep/link');
    for (const path of ['/etc/deep/link', '/etc/large']) await followed.line('found', path);
  });

  deepTest(
    'a large file that waits for its look while findings are accepted; who closes it did not write it',
    async (t) => {
      const end = new AbortController();
      t.after(() => end.abort());
      await using followed = await Followed.start({ live: liveOf({ signal: end.signal }) });
      const { cluster } = followed;
      cluster.write('large', '');
      truncateSync(cluster.at('large'), 512 * 1024 * 1024);
      await followed.newBaseline();
      followed.mark();
      await followed.shell('echo one >> "$1"; echo more >> "$2"', 'large', 'hosts');
      await followed.line('found', '/etc/hosts');
      await followed.line('found', '/etc/large');

      // It rests now, nine times as long as the look took.
      followed.mark();
      const pid = await followed.shell('exec 3>> "$1"; echo two >&3; sleep 1.2; exec 3>&-', 'large');
      await cluster.request('fi', {
        ...{ kind: 'accept', path: '/etc/hosts', author: 'me', reason: 'why', id: 'a1' },
      } as never);
      await followed.line('accepted', '/etc/hosts');
      assert.ok(!followed.lines().some(({ path }) => path === '/etc/large'), 'it was looked at too early');
      const line = await followed.line('found', '/etc/large');
      assert.deepEqual([line.seenBy, line.author?.pid], ['event', pid]);
    },
  );

  test('while findings are accepted, and the tree is not followed', async () => {
    const inner = liveOf();
    await using followed = await Followed.start({
      live: (job) => {
        const following = inner(job);
        return {
          [Symbol.asyncDispose]: async () => {
            await (following as AsyncDisposable)[Symbol.asyncDispose]();
            writeFileSync(join(job.root.directory, 'etc/passwd'), 'by nobody that was seen');
            // The clock of files has gone on by more than a tick when the baseline is made.
            await sleep(50);
          },
        };
      },
    });
    const { cluster } = followed;
    await followed.shell('echo more >> "$1"', 'hosts');
    await followed.line('found', '/etc/hosts');
    await cluster.resultWhen('fi', ({ findings }) => findings.length === 1);
    const request = { kind: 'accept', path: '/etc/hosts', author: 'me', reason: 'why', id: 'a1' };
    await cluster.request('fi', request as never);
    await followed.line('accepted', '/etc/hosts');
    const line = await followed.line('found', '/etc/passwd');
    assert.deepEqual([line.seenBy, line.author], ['event', undefined]);
  });

  deepTest('pseudo file systems are not watched after a loss of events either', async (t) => {
    const max = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
    if (max > 20_000) return t.skip('the queue is too long to fill it');
    const before = inotifyInstances();
    const inner = liveOf();
    let mounted = '';
    await using followed = await Followed.start({
      live: (job) => {
        mounted = join(job.root.directory, 'etc/made-up');
        mkdirSync(mounted, { recursive: true });
        spawnSync('mount', ['-t', 'mqueue', 'mqueue', mounted]);
        return inner(job);
      },
    });
    const { cluster } = followed;
    using stack = new DisposableStack();
    stack.defer(() => void spawnSync('umount', ['--lazy', mounted]));
    // This process waits meanwhile, so the events are not read.
    const program = 'for (1..$ARGV[0]) { open(my $h, ">", "f"); close $h; unlink "f" } mkdir "sub"';
    const cwd = cluster.at('deep');
    assert.equal(spawnSync('perl', ['-e', program, String(Math.ceil(max / 3))], { cwd }).status, 0);
    await cluster.resultWhen('fi', ({ detection }) => detection.lostEvents > 0);
    await followed.line('found', '/etc/deep/sub');
    assert.deepEqual(
      [...inotifyInstances()].filter(([fd]) => !before.has(fd)).map(([, count]) => count),
      [5],
    );
  });

  deepTest('counts records of authors that were dropped for lack of room', async () => {
    await using followed = await Followed.start({ live: liveOf() });
    const { cluster } = followed;
    // This process waits meanwhile, so the events are not read. Links: ext4 takes long to find an inode that
    // was not deleted recently.
    const program = 'open(my $h, ">", "f"); for (1..40000) { link "f", "f$_"; unlink "f$_" }';
    assert.equal(spawnSync('perl', ['-e', program], { cwd: cluster.at('deep') }).status, 0);
    const { detection } = await cluster.resultWhen('fi', (result) => result.detection.lostAuthors > 0);
    assert.equal(detection.directoriesWithoutAuthors, 0);
  });

  deepTest('changes while a restarted agent watches one directory after the other', async () => {
    const conf = '/hostroot/etc p+s\n';
    await using followed = await Followed.start({}, { conf, config: { gracePeriod: 900 } });
    const { cluster } = followed;
    // The scan that follows a start comes later than that.
    const body = { spec: { config: { initialDelay: 600 } } };
    await cluster.client.patch(released.integrities, { namespace, name: 'fi' }, { type: 'merge', body });
    const files = Array.from({ length: scaled(1500) }, (_, i) => `many/${i}/file`);
    for (const name of files) cluster.write(name, 'x');
    await followed.newBaseline();
    await followed.stop();

    const before = inotifyInstances();
    const starting = cluster.startAgent('n1', { live: liveOf() });
    await until('it has begun', () => [...inotifyInstances().keys()].some((fd) => !before.has(fd)));
    for (const name of files) cluster.write(name, 'changed');
    const agent = await starting;
    const paths = await until('all of them', () => {
      const found = new Set(
        agent.lines.map((line) => JSON.parse(line) as Finding).map((line) => `${line.seenBy} ${line.path}`),
      );
      if (found.size < files.length) throw new Error(`${found.size} of ${files.length}`);
      return found;
    });
    assert.deepEqual([...paths].sort(), files.map((name) => `event /etc/${name}`).sort());
  });
});
