// A killed watcher leaves nothing behind: the kernel releases everything that its descriptors held.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { heldBy, leftOf, untilGone } from '../../lib/ebpf/kernel-objects.fixture.ts';
import { isDeep, scaled } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { Watching } from './watch.fixture.ts';

const ROUNDS = isDeep ? scaled(20) : 1;

test(
  `${ROUNDS} kill -9 of the watcher under load: no program, map or link stays`,
  { skip: sensorSkip },
  async (t) => {
    using directory = new TemporaryDirectory();
    const file = directory.at('file');
    writeFileSync(file, 'content\n');
    // Some 2,000 accesses a second, between which it sleeps: without a pause, it takes a CPU from all other tests.
    const accesses =
      'while (-e $ARGV[0]) { open(my $f, "<", $ARGV[0]); close $f; select undef, undef, undef, 0.0004 }';
    const load = spawn('perl', ['-e', accesses, file]);
    const held = { prog: new Set<number>(), map: new Set<number>(), link: new Set<number>() };
    try {
      for (let round = 0; round < ROUNDS; round++) {
        await using watching = await Watching.start('--rate', '0', file);
        const now = heldBy(watching.pid);
        for (const kind of ['prog', 'map', 'link'] as const) {
          assert.ok(now[kind].size > 0, `no ${kind} in round ${round}`);
          for (const id of now[kind]) {
            assert.ok(!held[kind].has(id), `the kernel gave ${kind} ${id} again`);
            held[kind].add(id);
          }
        }
        if (round === 0) assert.ok(leftOf(now).length > 0, 'while it runs its objects are there');
        const ended = await watching.stop('SIGKILL');
        assert.equal(ended.signal, 'SIGKILL');
      }
      assert.equal(load.exitCode, null, 'the load has ended early');
      await untilGone(held);
    } finally {
      load.kill('SIGKILL');
      if (load.exitCode === null && load.signalCode === null) await once(load, 'exit');
    }
    t.diagnostic(`${held.prog.size} programs, ${held.map.size} maps, ${held.link.size} links, all gone`);
  },
);

test('what ends npm ends the watcher that it started', { skip: sensorSkip, timeout: 60_000 }, async () => {
  using directory = new TemporaryDirectory();
  const file = directory.at('file');
  writeFileSync(file, 'content\n');
  await using watching = await Watching.startByNpm(file);
  // Resolves when no process has its stdout and stderr open.
  const { stderr } = await watching.stop('SIGTERM');
  assert.match(stderr, /0 accesses: 0 reported/);
});
