// Nothing is lost in silence: what was folded, lost and held back adds up to what happened.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { deepTest, sampled, scaled } from '../testing/depth.fixture.ts';
import { RampartError } from '../errors/errors.ts';
import { accessFilter, everyAccess, may } from './access.ts';
import { run } from './file-systems.fixture.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { openTestSensor, sensorSkip, type TestSensor } from './sensor.fixture.ts';
import type { SensorStats } from './options.ts';
import { patience } from '../testing/until.fixture.ts';

const python = '/usr/bin/python3';
const skip = sensorSkip || (spawnSync(python, ['-c', '']).status !== 0 && `${python} is not installed`);

/** Python that opens argv[1] for reading, `count` times. */
const opens = (count: number): string => `
import os, sys
for i in range(${count}): os.close(os.open(sys.argv[1], os.O_RDONLY))
`;

class WatchedDirectory extends TemporaryDirectory {
  readonly file: string = this.at('file');

  constructor() {
    super();
    writeFileSync(this.file, 'content\n');
  }
}

/** After all is drained: every access that was produced is accounted for, exactly. */
function addsUp(stats: SensorStats, produced: number): void {
  const { ringFull, noReturn, consumer } = stats.lost;
  assert.equal(stats.produced, produced);
  assert.equal(
    stats.received + stats.folded + ringFull + noReturn + consumer,
    produced,
    JSON.stringify(stats),
  );
}

/** The folded accesses, by records and onFolded. */
const reported = (sensor: TestSensor): number =>
  sensor.seen.reduce((sum, { access }) => sum + access.folded, 0) +
  sensor.folded.reduce((sum, { count }) => sum + count, 0);

suite('the rate limit', { skip }, () => {
  test('folds what is over the rate, counts it exactly, and never hides a first access', () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 100 });
    using _watched = sensor.watchFile(directory.file);
    const flood = spawnSync(python, ['-c', opens(5000), directory.file]);
    assert.equal(flood.status, 0);
    const accesses = sensor.accesses();
    const stats = sensor.sensor.stats();
    addsUp(stats, 5000);
    assert.equal(stats.received, accesses.length);
    assert.ok(stats.folded > 0, 'the flood was not over the rate');
    assert.equal(accesses[0]?.folded, 0);

    // Another process, another program in the same process, another kind of access: each its own first.
    run('cat', [directory.file]);
    run('sh', ['-c', `exec tac "$0"`, directory.file]);
    const mixed = `${opens(3000)}\nos.close(os.open(sys.argv[1], os.O_WRONLY))\nos.execv('/bin/cat', ['cat', sys.argv[1]])`;
    run(python, ['-c', mixed, directory.file]);
    const later = sensor.accesses().slice(accesses.length);
    const firsts = later.map(({ comm, mask }) => `${comm} ${mask}`);
    for (const first of ['cat 36', 'tac 36', 'python3 36', 'python3 34'])
      assert.ok(firsts.includes(first), first);
    assert.equal(firsts.at(-1), 'cat 36');
    assert.equal(firsts.filter((first) => first === 'cat 36').length, 2);

    const final = sensor.close();
    addsUp(final, 5000 + 1 + 1 + 3000 + 2);
    assert.equal(reported(sensor), final.folded);
    const unknownTarget = sensor.folded.find(({ mask, count }) => mask !== 36 || count <= 0);
    assert.equal(unknownTarget, undefined);
  });

  deepTest('reports each folded access once, also when this process was busy for long', async () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 50 });
    using _watched = sensor.watchFile(directory.file);
    // The last record reports folded ones, and is still in the ring when the bucket is quiet.
    const script = `${opens(500)}\nimport time; time.sleep(0.3)\nos.close(os.open(sys.argv[1], os.O_RDONLY))\ntime.sleep(3)`;
    run(python, ['-c', script, directory.file]);
    await sensor.waitFor(({ folded }) => folded > 0);
    // Two rounds of housekeeping: no event says that one ended without a report.
    await new Promise((resolve) => setTimeout(resolve, 2500));
    const final = sensor.close();
    addsUp(final, 501);
    assert.ok(final.folded > 0);
    assert.equal(reported(sensor), final.folded);
  });

  deepTest('reports folded accesses without waiting for another record', async () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 10 });
    using watched = sensor.watchFile(directory.file);
    const pid = spawnSync(python, ['-c', opens(500), directory.file]).pid;
    const signal = patience();
    while (reported(sensor) < sensor.sensor.stats().folded || sensor.folded.length === 0) {
      signal.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const [folded] = sensor.folded;
    assert.deepEqual({ pid: folded?.pid, mask: folded?.mask }, { pid, mask: 36 });
    assert.deepEqual([...sensor.sensor.targets.watchersOf(folded?.targetId ?? 0)], [watched.watcher]);
  });

  deepTest('a rate of zero means no limit', () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 0 });
    using _watched = sensor.watchFile(directory.file);
    run(python, ['-c', opens(5000), directory.file]);
    assert.equal(sensor.accesses().length, 5000);
    addsUp(sensor.sensor.stats(), 5000);
  });
});

suite('a full ring', { skip }, () => {
  test('while this process is blocked: received + lost = produced, and the loss is reported', () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 0, ringSizeBytes: 4096 });
    using _watched = sensor.watchFile(directory.file);
    const count = scaled(50_000, 5_000);
    // spawnSync: the event loop stands still until all is over.
    run(python, ['-c', opens(count), directory.file]);
    const received = sensor.accesses().length;
    const stats = sensor.sensor.stats();
    addsUp(stats, count);
    assert.equal(stats.received, received);
    assert.ok(received > 0 && stats.lost.ringFull > count - 1_000, JSON.stringify(stats));
    assert.equal(stats.lost.noReturn, 0);
    assert.equal(
      sensor.losses.reduce((sum, { lost }) => sum + lost, 0),
      stats.lost.ringFull,
    );
    assert.equal(sensor.losses.at(-1)?.stats.lost.ringFull, stats.lost.ringFull);
    // And it goes on.
    run('cat', [directory.file]);
    assert.equal(sensor.accesses().at(-1)?.comm, 'cat');
    addsUp(sensor.close(), count + 1);
  });

  deepTest('with the rate limit: received + folded + lost = produced', () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 1000, ringSizeBytes: 4096 });
    using _watched = sensor.watchFile(directory.file);
    const count = scaled(20_000, 5_000);
    run(python, ['-c', opens(count), directory.file]);
    const final = sensor.close();
    addsUp(final, count);
    assert.ok(final.folded > 0 && final.lost.ringFull > 0, JSON.stringify(final));
    assert.equal(reported(sensor), final.folded);
  });

  test('several processes on all CPUs, read meanwhile: it adds up', async () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor({ ratePerSecond: 0, ringSizeBytes: 65_536 });
    using _watched = sensor.watchFile(directory.file);
    const each = scaled(10_000, 2_000);
    const children = Array.from({ length: 4 }, () => spawn(python, ['-c', opens(each), directory.file]));
    const signal = AbortSignal.timeout(120_000);
    const codes = await Promise.all(children.map((child) => once(child, 'exit', { signal })));
    assert.deepEqual(
      codes.map(([code]) => code as number),
      [0, 0, 0, 0],
    );
    addsUp(sensor.close(), 4 * each);
  });

  deepTest('a callback that throws: its batch is lost, reported, and the next one comes', () => {
    using directory = new WatchedDirectory();
    let broken = true;
    using sensor = openTestSensor({
      onBatchEnd: () => {
        if (broken) throw new Error('broken');
      },
    });
    using _watched = sensor.watchFile(directory.file);
    run('cat', [directory.file]);
    sensor.accesses();
    broken = false;
    run('cat', [directory.file]);
    assert.equal(sensor.accesses().length, 2);
    assert.match(String(sensor.problems.splice(0)), /broken/);
    const stats = sensor.close();
    addsUp(stats, 2);
    assert.deepEqual([stats.received, stats.lost.consumer], [1, 1]);
    assert.equal(sensor.losses.at(-1)?.stats.lost.consumer, 1);
  });
});

suite('accesses filtered in the kernel', { skip }, () => {
  test('own accesses raise nothing and are counted', () => {
    using directory = new WatchedDirectory();
    using sensor = openTestSensor();
    using _watched = sensor.watchFile(directory.file);
    for (let i = 0; i < 10; i++) closeSync(openSync(directory.file, 'r'));
    assert.deepEqual(sensor.accesses(), []);
    const { own, produced } = sensor.sensor.stats();
    assert.deepEqual({ own, produced }, { own: 10, produced: 0 });
  });

  const watches = [
    ['read', may.READ, [36, 38]],
    ['write', may.WRITE, [34, 38, 42]],
    ['append', may.APPEND, [42]],
    ['execute', may.EXEC, []],
    ['anything', everyAccess, [36, 34, 38, 42]],
  ] as const;
  for (const [word, filter, seen] of sampled(watches, 2)) {
    test(`a watch for ${word} produces nothing else`, () => {
      using directory = new WatchedDirectory();
      using sensor = openTestSensor();
      using _watched = sensor.watchFile(directory.file, filter);
      const script = 'cat "$0"; : > "$0"; exec 3<> "$0"; : >> "$0"'; // 36, 34, 38, 42
      run('sh', ['-c', script, directory.file]);
      assert.deepEqual(
        sensor.accesses().map(({ mask }) => mask),
        seen,
      );
      addsUp(sensor.sensor.stats(), seen.length);
    });
  }

  deepTest(
    'several watchers of one file: each gets what it asked for, and a file none asks about is quiet',
    () => {
      using directory = new WatchedDirectory();
      using sensor = openTestSensor();
      using _reads = sensor.watchFile(directory.file, accessFilter(['read']));
      using _writes = sensor.watchFile(directory.file, accessFilter(['write']));
      const all = sensor.watchFile(directory.file);
      const script = 'cat "$0"; : > "$0"; exec 3<> "$0"';
      const perWatcher = (): number[][] => {
        run('sh', ['-c', script, directory.file]);
        sensor.accesses();
        const filters = [may.READ, may.WRITE, everyAccess];
        const seen = sensor.seen.splice(0);
        return filters.map((filter) =>
          seen.filter(({ watcher }) => watcher.filter === filter).map(({ access }) => access.mask),
        );
      };
      assert.deepEqual(perWatcher(), [
        [36, 38],
        [34, 38],
        [36, 34, 38],
      ]);
      // One access is one, however many want it.
      addsUp(sensor.sensor.stats(), 3);
      all[Symbol.dispose]();
      assert.deepEqual(perWatcher(), [[36, 38], [34, 38], []]);
    },
  );

  deepTest('the capacity: one file more is LIMIT naming it', () => {
    using directory = new TemporaryDirectory();
    using sensor = openTestSensor({ capacity: 10 });
    for (let i = 0; i <= 10; i++) writeFileSync(directory.at(String(i)), '');
    for (let i = 0; i < 10; i++) sensor.watchFile(directory.at(String(i)));
    assert.throws(
      () => sensor.watchFile(directory.at('10')),
      (error: unknown) =>
        error instanceof RampartError && error.code === 'RAMPART_LIMIT' && /limit of 10 /.test(error.message),
    );
    assert.deepEqual([sensor.sensor.stats().targets, sensor.sensor.stats().capacity], [10, 10]);
    run('cat', [directory.at('10'), directory.at('9')]);
    assert.equal(sensor.accesses().length, 1);
  });

  test('directories beyond the room for them are counted', () => {
    using sensor = openTestSensor({ attached: false, directoryCapacity: 2 });
    const watcher = { filter: everyAccess, path: '/d' };
    const expects = (inode: bigint, by = watcher) =>
      sensor.sensor.expectFilesIn({ inode, device: 1, generation: 0 }, by);
    assert.deepEqual([expects(1n), expects(2n), expects(3n), expects(4n)], [true, true, false, false]);
    assert.equal(expects(1n, { ...watcher }), true);
    assert.equal(sensor.sensor.stats().refusedDirectories, 2);
  });
});
