// After a sensor is closed, its process keeps nothing of it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { suite, test } from 'node:test';

import { heldBy, leftOf, untilGone, type KernelObjects } from '../ebpf/kernel-objects.fixture.ts';
import { RampartError } from '../errors/errors.ts';
import { everyAccess } from './access.ts';
import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { openTestSensor, sensorSkip } from './sensor.fixture.ts';
import { Sensor } from './sensor.ts';
import { deepTest, scaled } from '../testing/depth.fixture.ts';

const descriptors = (): number => readdirSync('/proc/self/fd').length;
const countOf = (objects: KernelObjects): number => objects.prog.size + objects.map.size + objects.link.size;
const isDisposed = (error: unknown): boolean =>
  error instanceof RampartError && error.code === 'RAMPART_DISPOSED';

suite('a sensor that is closed', { skip: sensorSkip }, () => {
  test('leaves no program, map, link or descriptor', async () => {
    openTestSensor().close(); // what the first one loads for good is not its leak
    const before = descriptors();
    for (let round = 0; round < scaled(3, 1); round++) {
      const sensor = openTestSensor();
      const held = heldBy(process.pid);
      assert.ok(held.prog.size > 0 && held.map.size > 0 && held.link.size > 0);
      assert.equal(leftOf(held).length, countOf(held));
      sensor.close();
      assert.equal(countOf(heldBy(process.pid)), 0);
      assert.equal(descriptors(), before);
      await untilGone(held);
    }
  });

  test('sees what is accessed only while it is attached, and holds no link otherwise', () => {
    using directory = new TemporaryDirectory();
    using opened = openTestSensor({ attached: false });
    const { sensor } = opened;
    const links = (): number => heldBy(process.pid).link.size;
    const { identity } = opened.watchFile(directory.path);
    const read = (): void => void spawnSync('ls', [directory.path]);
    const seen = (): number => {
      sensor.drain();
      return sensor.stats().received;
    };
    assert.ok(identity.inode > 0n);
    read();
    assert.deepEqual([sensor.attached, links(), seen()], [false, 0, 0]);
    sensor.attach();
    const attached = links();
    sensor.attach();
    assert.ok(sensor.attached && attached > 0);
    assert.equal(links(), attached);
    read();
    const before = seen();
    assert.ok(before > 0);
    sensor.detach();
    sensor.detach();
    read();
    assert.deepEqual([sensor.attached, links(), seen()], [false, 0, before]);
    sensor.attach();
    read();
    assert.ok(seen() > before);
    sensor.close();
    sensor.detach();
    assert.throws(() => sensor.attach(), isDisposed);
  });

  deepTest('leaves none either when the kernel refuses the mode', (t) => {
    using sensor = openTestSensor({ mode: 'auto' });
    const [refused] = sensor.sensor.refused;
    if (refused === undefined) {
      t.skip('this kernel refuses no mode');
      return;
    }
    sensor.close();
    const before = descriptors();
    const open = (): unknown =>
      Sensor.open({ mode: refused.mode, onAccess: () => undefined, onProblem: () => undefined });
    assert.throws(open, (error: unknown) => error instanceof RampartError && error.message.length > 0);
    assert.equal(countOf(heldBy(process.pid)), 0);
    assert.equal(descriptors(), before);
  });

  test('keeps its final counts; what needs the kernel is DISPOSED; closing again does nothing', () => {
    using directory = new TemporaryDirectory();
    const opened = openTestSensor();
    const { sensor } = opened;
    const { identity, watcher } = opened.watchFile(directory.path);
    const final = opened.close();
    assert.deepEqual(sensor.close(), final);
    assert.deepEqual(sensor.stats(), final);
    assert.equal(final.targets, 1);
    sensor.drain();
    assert.throws(() => sensor.identify(0), isDisposed);
    assert.throws(
      () => sensor.targets.add({ ...identity, inode: 1n }, { ...watcher, filter: everyAccess }),
      isDisposed,
    );
    assert.throws(() => sensor.targets.delete(identity, watcher), isDisposed);
  });
});
