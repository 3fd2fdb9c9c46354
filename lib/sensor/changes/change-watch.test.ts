// The change watch as a whole: directories that come and go, losses, limits, and the end.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { deepTest, scaled } from '../../testing/depth.fixture.ts';
import { RampartError } from '../../errors/errors.ts';
import { until } from '../../testing/until.fixture.ts';
import { sensorSkip } from '../sensor.fixture.ts';
import { ChangeWatch } from './change-watch.ts';
import { changeOf, describeChange, perl, perlBeside, watched, withoutNeed } from './change-watch.fixture.ts';

const skip = sensorSkip;

suite('the reported changes', { skip }, () => {
  deepTest('a file written in a loop now and then, and once after the last write', async () => {
    using all = watched({ settleMs: 50, paceMs: 500 });
    const started = performance.now();
    const pid = await perlBeside(
      all.scratch.at('w'),
      `open(my $h, '>>', 'log') or die; my $end = time + 2; my $n = 0; until (time > $end) { syswrite($h, "x"); $n++ } syswrite($h, 'end')`,
    );
    await all.watch.settled();
    const seconds = (performance.now() - started) / 1000;
    const reported = all.watch.watch.stats();
    assert.ok(reported.reported <= 10 + 2 * 2 * seconds, `${reported.reported} times in ${seconds} s`);
    const { sensor } = reported;
    assert.ok(sensor !== undefined && sensor.emitted <= 60 + 40 * seconds, JSON.stringify(sensor));
    assert.ok(pid > 0);
  });

  deepTest('include the last write, however soon after an earlier report', async () => {
    const path = '/w/file';
    const contents: string[] = [];
    using all = watched({
      settleMs: 20,
      paceMs: 300,
      onChange: (change) => {
        if (change.path === path) contents.push(readFileSync(all.scratch.at('w', 'file'), 'utf8'));
      },
    });
    for (let i = 0; i < 20; i++) {
      writeFileSync(all.scratch.at('w', 'file'), `${i}`);
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
    all.watch.changes.length = 0;
    if (contents.at(-1) !== '19') await all.watch.until((change) => change.path === path);
    assert.equal(contents.at(-1), '19');
    assert.ok(contents.length < 20, contents.join(' '));
  });

  deepTest(
    'include a change that waits long for its report, with its author',
    { timeout: 60_000 },
    async () => {
      // Longer than what was seen is kept otherwise.
      using all = watched({ paceMs: 6000 });
      writeFileSync(all.scratch.at('w', 'file'), '');
      await all.watch.settled();
      const { pid } = perl(all.scratch.at('w'), `open(my $h, '>>', 'file') or die; syswrite($h, 'x')`);
      const change = await all.watch.until(({ path }) => path === '/w/file');
      if (all.known) assert.equal(change.author?.pid, pid);
    },
  );

  test('thousands of changes at once, each with its author or as a loss', { timeout: 120_000 }, async () => {
    using all = watched();
    const files = scaled(4000, 300);
    const pid = await perlBeside(
      all.scratch.at('w'),
      `for my $i (1 .. $ARGV[0]) { open(my $h, '>', "f$i") or die; print $h $i; close $h; } unlink("f$_") for 1 .. $ARGV[0]`,
      String(files),
    );
    const changes = await all.watch.settled();
    const reported = new Set(changes.filter(({ path }) => path.startsWith('/w/f')).map(({ path }) => path));
    const lost = all.watch.losses.some(({ what }) => what === 'changes');
    assert.ok(reported.size === files || lost, `${reported.size} of ${files}`);
    for (const change of changes) {
      assert.ok([pid, undefined].includes(change.author?.pid), describeChange(change));
    }
    const authorsLost = all.watch.losses.some(({ what }) => what === 'authors');
    if (all.known && !authorsLost) assert.deepEqual(withoutNeed(changes), []);
  });

  deepTest('that changes were lost, when directories are watched again', { timeout: 120_000 }, async (t) => {
    const max = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
    if (max > 20_000) return t.skip('the queue is too long to fill it');
    using all = watched({ wants: () => true });
    // This process waits meanwhile, so the ring is not read.
    perl(
      all.scratch.at('w'),
      `for my $i (1 .. $ARGV[0]) { open(my $h, '>', "f$i") or die; print $h $i; close $h; unlink "f$i" } mkdir 'sub' or die`,
      String(Math.ceil(max / 3)),
    );
    await all.watch.untilLost('changes');
    writeFileSync(all.scratch.at('w', 'sub', 'file'), 'x');
    changeOf(await all.watch.settled(), '/w/sub/file');
    assert.ok(all.watch.watch.stats().overflows > 0);
  });

  deepTest('nothing is kept of a storm when it is over', { timeout: 120_000 }, async () => {
    using all = watched();
    perl(
      all.scratch.at('w'),
      `for my $i (1 .. 5000) { open(my $h, '>', "f$i") or die; print $h $i; close $h }`,
    );
    const changes = await all.watch.settled();
    assert.ok(changes.length > 0);
    assert.ok(all.watch.watch.stats().kept >= changes.length);
    await until('all to be let go', () => all.watch.watch.stats().kept === 0);
  });

  test('include names that are not UTF-8', async () => {
    using all = watched();
    perl(all.scratch.at('w'), `open(my $h, '>', "a\\xff\\n\\xc3") or die; mkdir "\\xfe" or die`);
    const changes = await all.watch.settled();
    changeOf(changes, '/w/a\xff\n\xc3');
    changeOf(changes, '/w/\xfe');
    assert.equal(all.watch.watch.watchDirectory('/w/\xfe'), 'watched');
  });
});

suite('directories', { skip }, () => {
  test('that appear are watched when they are wanted, with all that is in them by then', async () => {
    using all = watched({ wants: (path) => !path.endsWith('/unwanted') });
    const { scratch, watch } = all;
    const made = perl(
      scratch.at('w'),
      `mkdir 'a'; mkdir 'a/b'; mkdir 'a/b/c'; mkdir 'a/unwanted'; open(my $h, '>', 'a/b/c/early')`,
    );
    const changes = await watch.settled();
    const a = changes.filter(({ path }) => path === '/w/a');
    assert.ok(a.some(({ below }) => below));
    assert.ok(a.every(({ author }) => author === undefined || author.pid === made.pid));
    assert.equal(watch.watch.stats().directories, 2 + 3);
    perl(scratch.at('w'), `open(my $h, '>', 'a/b/c/late'); open(my $i, '>', 'a/unwanted/file')`);
    const later = await watch.settled();
    changeOf(later, '/w/a/b/c/late');
    assert.equal(
      later.some(({ path }) => path === '/w/a/unwanted/file'),
      false,
    );
  });

  deepTest('that are moved are watched under their new path, and no longer where they are gone', async () => {
    using all = watched({ wants: () => true });
    const { scratch, watch } = all;
    perl(scratch.at('out'), `mkdir 'tree'; mkdir 'tree/deep'`);
    renameSync(scratch.at('out', 'tree'), scratch.at('w', 'in'));
    assert.ok((await watch.settled()).some(({ path, below }) => path === '/w/in' && below));
    renameSync(scratch.at('w', 'in'), scratch.at('w', 'again'));
    await watch.settled();
    writeFileSync(scratch.at('w', 'again', 'deep', 'file'), 'x');
    changeOf(await watch.settled(), '/w/again/deep/file');
    renameSync(scratch.at('w', 'again'), scratch.at('out', 'away'));
    await watch.settled();
    assert.equal(watch.watch.stats().directories, 2);
    writeFileSync(scratch.at('out', 'away', 'deep', 'other'), 'x');
    assert.deepEqual(await watch.settled(), []);
    rmSync(scratch.at('w'), { recursive: true });
    assert.ok(changeOf(await watch.settled(), '/w').kinds.includes('deleted'));
    assert.equal(watch.watch.stats().directories, 1);
  });

  deepTest('that are exchanged are both watched, each where it is now', async () => {
    using all = watched({ wants: () => true });
    const { scratch, watch } = all;
    for (const name of ['a', 'b']) mkdirSync(scratch.at('w', name, `of-${name}`), { recursive: true });
    await watch.settled();
    const renameat2 = process.arch === 'x64' ? 316 : 276;
    const [here, exchange] = [-100, 2];
    perl(
      scratch.at('w'),
      `my ($a, $b) = ('a', 'b'); syscall(${renameat2}, ${here}, $a, ${here}, $b, ${exchange}) == 0 or die $!`,
    );
    const changes = await watch.settled();
    for (const path of ['/w/a', '/w/b'])
      assert.ok(changes.some((change) => change.path === path && change.below));
    const files = ['/w/a/x', '/w/a/of-b/x', '/w/b/x', '/w/b/of-a/x'];
    for (const path of files) writeFileSync(scratch.at(path), '');
    const later = await watch.settled();
    for (const path of files) changeOf(later, path);
  });

  test('beyond the limit are counted, and can be watched once there is room', () => {
    using all = watched({ maxDirectories: 2 });
    const { watch } = all.watch;
    assert.equal(watch.watchDirectory('/out'), 'limit');
    assert.equal(watch.stats().unwatchedDirectories, 1);
    assert.equal(all.watch.problems.length, 1);
    assert.match(String(all.watch.problems.pop()), /max_user_watches/);
    assert.equal(watch.unwatch('/w'), true);
    assert.equal(watch.unwatch('/w'), false);
    assert.equal(watch.watchDirectory('/out'), 'watched');
    assert.equal(watch.stats().unwatchedDirectories, 0);
  });

  deepTest('beyond the limit are counted no more once they are gone', async () => {
    using all = watched({ maxDirectories: 2, wants: () => true });
    const { scratch, watch } = all;
    mkdirSync(scratch.at('w', 'deep', 'er'), { recursive: true });
    assert.equal(watch.watch.watchDirectory('/w/deep/er'), 'limit');
    for (const name of ['one', 'two']) mkdirSync(scratch.at('w', name));
    await watch.settled();
    assert.equal(watch.watch.stats().unwatchedDirectories, 4);
    assert.equal(watch.problems.splice(0).length, 1);
    rmSync(scratch.at('w', 'one'), { recursive: true });
    renameSync(scratch.at('w', 'two'), scratch.at('two'));
    rmSync(scratch.at('w', 'deep'), { recursive: true });
    await watch.settled();
    assert.equal(watch.watch.stats().unwatchedDirectories, 0);
  });

  test('invalid directories and paths', () => {
    using all = watched();
    const { watch } = all.watch;
    writeFileSync(all.scratch.at('file'), '');
    symlinkSync('w', all.scratch.at('soft'));
    for (const path of ['/nothing', '/file', '/soft', '/nothing/below'])
      assert.equal(watch.watchDirectory(path), 'gone', path);
    for (const path of ['', 'relative', '/with\0nul']) {
      assert.throws(
        () => watch.watchDirectory(path),
        (error) => error instanceof RampartError && error.code === 'RAMPART_INPUT',
      );
    }
  });

  deepTest('a directory under two paths reports both', async () => {
    using all = watched();
    symlinkSync('.', all.scratch.at('self'));
    assert.equal(all.watch.watch.watchDirectory('/self/w'), 'watched');
    writeFileSync(all.scratch.at('w', 'file'), 'x');
    const changes = await all.watch.settled();
    for (const path of ['/w/file', '/self/w/file']) changeOf(changes, path);
    assert.equal(all.watch.watch.unwatch('/w'), true);
    writeFileSync(all.scratch.at('w', 'file'), 'y');
    assert.deepEqual(
      (await all.watch.settled()).map(({ path }) => path),
      ['/self/w/file'],
    );
  });
});

suite('its end', { skip }, () => {
  deepTest('an error of a callback is a problem, and the next change is reported', async () => {
    let thrown = false;
    using all = watched({
      onChange: () => {
        if (thrown) return;
        thrown = true;
        throw new Error('of the caller');
      },
    });
    writeFileSync(all.scratch.at('w', 'file'), 'x');
    await all.watch.settled();
    assert.match(String(all.watch.problems.pop()), /of the caller/);
  });

  deepTest('an invalid root is an error, and nothing stays open', () => {
    const open = (): unknown =>
      new ChangeWatch({
        root: '/nonexistent',
        onChange: () => undefined,
        onLost: () => undefined,
        onProblem: () => undefined,
      });
    assert.throws(open, (error) => error instanceof RampartError && error.code === 'RAMPART_SYSTEM');
  });
});
