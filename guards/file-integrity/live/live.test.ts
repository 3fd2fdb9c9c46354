// Real files, the sensor of this machine, and the real agent: changes are known at once, with their author.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { names } from '../api.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { namespace } from '../node/node.fixture.ts';
import type { LiveJob } from './live-job.ts';
import { Followed, inotifyInstances, type Line, run, untilFollowed } from './live.fixture.ts';
import { liveOf } from './start-live.ts';

suite('known at once', { timeout: 300_000 }, () => {
  test('each kind of change, with who made it; put back, it is gone', async (t) => {
    await using followed = await Followed.start();
    const { cluster, detection } = followed;
    assert.deepEqual([detection.events, detection.reason, detection.watchedDirectories], ['sensor', '', 4]);

    await t.test('written: binary, arguments, user, parent', async () => {
      chmodSync(cluster.at('hosts'), 0o666);
      await followed.line('found', '/etc/hosts', ({ attributes }) => attributes.includes('perm'));
      followed.mark();
      const startMs = performance.now();
      const args = ['-c', 'echo more >> "$0"', cluster.at('hosts')];
      const pid = await run('sh', args, { uid: 1234, gid: 1235 });
      const line = await followed.line('found', '/etc/hosts');
      t.diagnostic(`line ${Math.round(performance.now() - startMs)} ms after the process was started`);
      assert.deepEqual([line.change, line.seenBy], ['changed', 'event']);
      assert.deepEqual(line.author, {
        ...{ binary: '/usr/bin/dash', arguments: args.join(' '), cwd: '/', uid: 1234, gid: 1235, pid },
        ...{ ppid: process.pid, parentBinary: process.execPath, relation: 'host' },
      });
      const { sequence } = await cluster.resultWhen('fi', ({ findings }) => findings[0]?.author?.pid === pid);
      t.diagnostic(`result ${Math.round(performance.now() - startMs)} ms after that`);
      assert.ok(sequence > 0);
      await followed.shell('cat "$2" > "$1"; chmod 644 "$1"', 'hosts', 'hosts');
    });

    await t.test('created, with its directory that has another size or links; then deleted', async () => {
      followed.mark();
      await followed.shell('mkdir "$1"', 'made');
      const line = await followed.line('found', '/etc/made');
      assert.deepEqual([line.change, line.author?.binary], ['added', '/usr/bin/mkdir']);
      const parent = await followed.line('found', '/etc');
      assert.ok(parent.attributes.includes('link_count'), parent.attributes.join());
      await followed.shell('rmdir "$1"', 'made');
      await followed.line('gone', '/etc/made');
      await followed.line('gone', '/etc');
    });

    await t.test('deleted, and put back', async () => {
      followed.mark();
      await followed.shell('rm "$1"', 'passwd');
      const line = await followed.line('found', '/etc/passwd');
      assert.deepEqual([line.change, line.author?.binary], ['removed', '/usr/bin/rm']);
      writeFileSync(cluster.at('passwd'), 'passwd');
      await followed.line('gone', '/etc/passwd');
    });

    await t.test('renamed, and its mode', async () => {
      followed.mark();
      await followed.shell('mv "$1" "$2"', 'shadow', 'shadow-');
      const [from, to] = [
        await followed.line('found', '/etc/shadow'),
        await followed.line('found', '/etc/shadow-'),
      ];
      assert.deepEqual([from.change, from.author?.binary], ['removed', '/usr/bin/mv']);
      assert.deepEqual([to.change, to.author?.binary], ['added', '/usr/bin/mv']);
      await followed.shell('mv "$2" "$1"; chmod 4755 "$1"', 'shadow', 'shadow-');
      await followed.line('gone', '/etc/shadow-');
      const mode = await followed.line('found', '/etc/shadow', ({ change }) => change === 'changed');
      assert.deepEqual([mode.attributes, mode.author?.binary], [['perm'], '/usr/bin/chmod']);
    });

    await t.test('a tree that is moved here, written to, and moved away', async () => {
      followed.mark();
      const outside = join(cluster.directory, 'outside');
      mkdirSync(join(outside, 'a/b'), { recursive: true });
      writeFileSync(join(outside, 'a/b/c'), 'c');
      await run('mv', [outside, cluster.at('tree')]);
      const line = await followed.line('found', '/etc/tree/a/b/c');
      assert.deepEqual([line.change, line.author?.binary], ['added', '/usr/bin/mv']);
      await followed.shell('echo d > "$1"', 'tree/a/b/d');
      const inside = await followed.line('found', '/etc/tree/a/b/d');
      assert.deepEqual([inside.change, inside.author?.binary], ['added', '/usr/bin/dash']);
      await run('mv', [cluster.at('tree'), join(cluster.directory, 'away')]);
      for (const path of ['/etc/tree/a/b/c', '/etc/tree/a/b/d', '/etc/tree/a/b', '/etc/tree'])
        await followed.line('gone', path);
      await run('mv', [cluster.at('deep'), join(cluster.directory, 'deep')]);
      const gone = await followed.line('found', '/etc/deep/er/file');
      assert.deepEqual([gone.change, gone.author?.binary], ['removed', '/usr/bin/mv']);
      await run('mv', [join(cluster.directory, 'deep'), cluster.at('deep')]);
      await followed.line('gone', '/etc/deep/er/file');
    });

    await t.test('a new directory with what is in it', async () => {
      followed.mark();
      await followed.shell('mkdir -p "$1" && echo x > "$1/file" && rm -r "$2"', 'new/er', 'deep/er');
      await followed.line('found', '/etc/new/er/file');
      // Its directory may be compared first; the process that emptied it is unknown.
      const removed = await followed.line('found', '/etc/deep/er/file', ({ author }) => author !== undefined);
      assert.deepEqual([removed.change, removed.author?.binary], ['removed', '/usr/bin/rm']);
    });
  });

  test('who changed the content stays its author, whoever touches the file later', async (t) => {
    // As AIDE's group R: what every touch changes is compared.
    const conf = '/hostroot/etc p+u+g+n+s+m+c+ftype+caps+xattrs+sha256\n';
    await using followed = await Followed.start({}, { conf });
    const { cluster } = followed;
    const script = join(cluster.directory, 'evil.sh');
    writeFileSync(script, '#!/bin/sh\necho evil >> "$1"\n', { mode: 0o755 });
    const path = cluster.at('hosts');
    await run(script, [path]);
    const isByEvil = ({ author }: Line): boolean => author?.arguments === `${script} ${path}`;
    const first = await followed.line('found', '/etc/hosts', ({ attributes }) =>
      attributes.includes('sha256'),
    );
    assert.ok(isByEvil(first), first.author?.arguments);
    for (const [command, ...args] of [
      ['chmod', '644'],
      ['chown', '0:0'],
      ['setfattr', '-n', 'user.touched', '-v', 'x'],
      ['setcap', 'cap_chown=ep'],
      ['chattr', '+A'],
    ] as const) {
      const probe = join(cluster.directory, 'probe');
      writeFileSync(probe, '');
      if (spawnSync(command, [...args, probe]).status !== 0) {
        t.diagnostic(`${command} is not installed, or not for this file system`);
        continue;
      }
      followed.mark();
      // AIDE compares whole seconds.
      const second = Math.trunc(statSync(path).ctimeMs / 1000);
      await until('another second', () => Math.trunc(Date.now() / 1000) > second);
      await run(command, [...args, path]);
      const touched = await followed.line('found', '/etc/hosts', ({ last }) =>
        (last?.author?.binary ?? '').endsWith(`/${command}`),
      );
      assert.ok(isByEvil(touched), `${command}: ${touched.author?.arguments}`);
      assert.equal(touched.seenMs, first.seenMs);
      assert.ok((touched.last?.seenMs ?? 0) > first.seenMs);
    }
    const { findings } = await cluster.resultWhen('fi', ({ findings: all }) =>
      all.some(({ last }) => last !== undefined),
    );
    assert.equal(findings.find((one) => one.path === '/etc/hosts')?.seenMs, first.seenMs);

    // In one moment, before any comparison.
    followed.mark();
    const other = cluster.at('passwd');
    await followed.shell(`"${script}" "$1"; chmod 644 "$1"`, 'passwd');
    const both = await followed.line('found', '/etc/passwd', ({ attributes }) =>
      attributes.includes('sha256'),
    );
    assert.equal(both.author?.arguments, `${script} ${other}`);
  });

  deepTest(
    'ignores unselected files; handles names that are not text, a holdoff and hard links',
    async () => {
      const conf = '!/hostroot/etc/not\n/hostroot/etc ftype+p+n+i+sha256\n';
      const jobs = new Map<string, LiveJob>();
      const inner = liveOf();
      const live = (job: LiveJob): ReturnType<typeof inner> => {
        jobs.set(job.key, job);
        return inner(job);
      };
      await using followed = await Followed.start({ live }, { conf });
      const { cluster } = followed;
      const odd = Buffer.concat([Buffer.from(`${cluster.at('')}/`), Buffer.from([0xff, 0x0a, 0x22])]);
      writeFileSync(cluster.at('not'), 'x');
      writeFileSync(join(cluster.host, 'other'), 'x');
      writeFileSync(odd, 'x');
      await until('the odd name', () => followed.lines().some(({ path }) => path.includes('\\')));
      assert.deepEqual(
        followed.lines().map(({ path }) => path.replaceAll(/[^/]*\\.*/g, 'odd')),
        ['/etc/odd'],
      );

      // Both names are in the next baseline.
      await followed.shell('ln "$1" "$2"', 'hosts', 'deep/link');
      await followed.newBaseline();
      followed.mark();
      await followed.shell('echo more >> "$1"', 'hosts');
      const [one, other] = [
        await followed.line('found', '/etc/hosts'),
        await followed.line('found', '/etc/deep/link'),
      ];
      assert.deepEqual([one.author?.binary, other.author], ['/usr/bin/dash', one.author]);

      // Another one that is not held sees the same changes, no earlier.
      await cluster.createIntegrity('other', {
        config: { gracePeriod: 900 },
        conf: '/hostroot/etc f sha256\n',
      });
      await untilFollowed(cluster, 'other');
      followed.mark();
      await cluster.annotate('fi', { [names.holdoff]: '' });
      await until('it is held', () => jobs.get(`${namespace}/fi`)?.isHeld());
      writeFileSync(cluster.at('passwd'), 'held');
      await followed.line('found', '/etc/passwd', ({ fileIntegrity }) => fileIntegrity.endsWith('/other'));
      assert.ok(!followed.lines().some(({ fileIntegrity }) => fileIntegrity.endsWith('/fi')));
      await cluster.annotate('fi', { [names.holdoff]: null });
      const held = await followed.line('found', '/etc/passwd', ({ fileIntegrity }) =>
        fileIntegrity.endsWith('/fi'),
      );
      assert.deepEqual([held.seenBy, held.author], ['scan', undefined]);
    },
  );

  test('a rotated log is not a finding if its rule allows it; otherwise it is', async () => {
    const conf = '/hostroot/etc/log f ftype+p+u+g+i+I+ANF+ARF\n/hostroot/etc f p+sha256\n';
    await using followed = await Followed.start({}, { conf });
    const { cluster } = followed;
    for (const name of ['log/a', 'log/a.1', 'log/b', 'log/mark']) cluster.write(name, name);
    await followed.newBaseline();
    // Differences next to the mark are checked together with it; its mode is a finding.
    for (const step of [
      'mv "$2" "$3"; mv "$1" "$2"; echo new > "$1"; chmod 600 "$5"',
      'echo more >> "$1"; chmod 640 "$5"',
      'rm "$4"; chmod 604 "$5"',
    ]) {
      followed.mark();
      await followed.shell(step, 'log/a', 'log/a.1', 'log/a.2', 'log/b', 'log/mark');
      await followed.line('found', '/etc/log/mark', ({ author }) => author !== undefined);
      const reported = followed.lines().map(({ path, change }) => `${change} ${path}`);
      assert.deepEqual([...new Set(reported)], ['changed /etc/log/mark']);
    }
  });

  test('where the sensor is refused: no author, and why; directories for which no watch is left are counted', async () => {
    await using followed = await Followed.start({ live: liveOf({ mode: 'inotify', maxDirectories: 2 }) });
    const { events, reason, watchedDirectories, unwatchedDirectories, packagesReason } = followed.detection;
    assert.deepEqual([events, reason], ['inotify', 'the sensor is turned off']);
    assert.equal(packagesReason, 'the author of changes is unknown');
    assert.deepEqual([watchedDirectories, unwatchedDirectories], [2, 2]);
    await followed.shell('echo more >> "$1"', 'hosts');
    const line = await followed.line('found', '/etc/hosts');
    assert.deepEqual([line.seenBy, line.author], ['event', undefined]);
  });

  deepTest('changes are seen also if the kernel lacks the configured mode', async () => {
    await using followed = await Followed.start({ live: liveOf({ mode: 'kprobe' }) });
    const { events, reason } = followed.detection;
    if (events === 'inotify') assert.match(reason, /kprobe: /);
    else assert.equal(events, 'sensor');
    await followed.shell('echo more >> "$1"', 'hosts');
    assert.equal((await followed.line('found', '/etc/hosts')).seenBy, 'event');
  });

  deepTest('more than can be looked at one by one is scanned, and counted', async () => {
    await using followed = await Followed.start({ live: liveOf({ maxQueued: 20 }) });
    const { cluster } = followed;
    const program = 'for $i (1..1000) { open F, ">", "$ARGV[0]/f$i"; print F $i; close F }';
    // While this process, the agent too, waits: files that come one by one, as slowly as they can be looked at, are no loss.
    execFileSync('perl', ['-e', program, cluster.at('deep')]);
    const result = await until('all of them', async () => {
      const now = await cluster.result('fi');
      return now?.outcome.kind === 'failed' && now.outcome.added === 1000 && now.detection.lostEvents > 0
        ? now
        : assert.fail(JSON.stringify({ ...now, findings: now?.findings.length }));
    });
    assert.equal(result.detection.events, 'sensor');
  });

  deepTest('two of one tree share a watch; it outlives a new baseline, and ends with the last', async () => {
    const before = inotifyInstances();
    const mine = (): [string, number][] => [...inotifyInstances()].filter(([fd]) => !before.has(fd));
    const end = new AbortController();
    await using followed = await Followed.start({ live: liveOf({ signal: end.signal }) });
    const { cluster } = followed;
    await cluster.createIntegrity('other', {
      config: { gracePeriod: 900 },
      conf: '/hostroot/etc/deep p+sha256\n',
    });
    await untilFollowed(cluster, 'other');
    assert.deepEqual(
      mine().map(([, count]) => count),
      [4],
    );
    const [instance] = mine();
    followed.mark();
    await followed.shell('echo more >> "$1"; echo more >> "$2"', 'deep/er/file', 'hosts');
    await followed.line('found', '/etc/deep/er/file', ({ fileIntegrity }) => fileIntegrity.endsWith('/fi'));
    await followed.line('found', '/etc/deep/er/file', ({ fileIntegrity }) =>
      fileIntegrity.endsWith('/other'),
    );
    await followed.line('found', '/etc/hosts');
    assert.ok(
      !followed
        .lines()
        .some(({ path, fileIntegrity }) => path === '/etc/hosts' && fileIntegrity.endsWith('/other')),
    );

    followed.mark();
    const accepted = { kind: 'accept', path: '/etc/hosts', author: 'me', reason: 'why', id: 'a1' };
    await cluster.resultWhen('fi', ({ findings }) => findings.length === 2);
    await cluster.request('fi', accepted as never);
    await followed.line('accepted', '/etc/hosts');
    await followed.newBaseline();
    await followed.line('accepted', '/etc/deep/er/file');
    assert.deepEqual(mine(), [instance]);
    followed.mark();
    await followed.shell('echo again >> "$1"', 'hosts');
    const line = await followed.line('found', '/etc/hosts');
    assert.deepEqual([line.seenBy, line.author?.binary], ['event', '/usr/bin/dash']);
    end.abort();
    await followed.stop();
    assert.deepEqual(mine(), []);
  });

  deepTest('changes between the baseline and the first watch are found too', async () => {
    const inner = liveOf();
    let host = '';
    await using followed = await Followed.start({
      live: (job) => {
        host = job.root.directory;
        writeFileSync(join(host, 'etc/passwd'), 'before it is watched');
        return inner(job);
      },
    });
    const line = await followed.line('found', '/etc/passwd');
    assert.deepEqual([line.seenBy, line.author], ['event', undefined]);
    assert.equal(readFileSync(followed.cluster.at('passwd'), 'utf8'), 'before it is watched');
  });
});
