// After a change watch is closed, its process keeps nothing of it.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { heldBy, untilGone, type KernelObjects } from '../../ebpf/kernel-objects.fixture.ts';
import { RampartError } from '../../errors/errors.ts';
import { anonymousFds } from '../paths/path-tracker.fixture.ts';
import { TemporaryDirectory } from '../../testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../sensor.fixture.ts';
import { changeTestMode } from './change-watch.fixture.ts';
import { ChangeWatch } from './change-watch.ts';

const descriptors = (): number => readdirSync('/proc/self/fd').length;
const countOf = (objects: KernelObjects): number => objects.prog.size + objects.map.size + objects.link.size;

function open(root: string): ChangeWatch {
  return new ChangeWatch({
    root,
    mode: changeTestMode(),
    wants: () => true,
    onChange: () => undefined,
    onLost: () => undefined,
    onProblem: (problem) => assert.fail(String(problem)),
  });
}

suite('a change watch that is closed', { skip: sensorSkip }, () => {
  test('leaves no program, map, link, watch or descriptor, also in the middle of changes', async () => {
    using scratch = new TemporaryDirectory();
    mkdirSync(scratch.at('w'));
    open(scratch.path)[Symbol.dispose](); // what the first one loads for good is not its leak
    const before = descriptors();
    const inotify = anonymousFds('inotify');
    for (let round = 0; round < 3; round++) {
      const watch = open(scratch.path);
      assert.equal(watch.watchDirectory('/w'), 'watched');
      const held = heldBy(process.pid);
      assert.ok(held.prog.size > 0 && held.map.size > 0 && held.link.size > 0);
      writeFileSync(scratch.at('w', `file-${round}`), 'x');
      mkdirSync(scratch.at('w', `sub-${round}`));
      if (round > 0) await new Promise((resolve) => setTimeout(resolve, 5));
      watch[Symbol.dispose]();
      watch[Symbol.dispose]();
      assert.equal(countOf(heldBy(process.pid)), 0);
      assert.equal(descriptors(), before);
      assert.equal(anonymousFds('inotify'), inotify);
      await untilGone(held);
      assert.throws(
        () => watch.watchDirectory('/w'),
        (error: unknown) => error instanceof RampartError && error.code === 'RAMPART_DISPOSED',
      );
      assert.ok(watch.stats().sensor !== undefined);
    }
  });
});
