// All files of a directory, and who accesses them: tracker and sensor together, in the mode that RAMPART_SENSOR_MODE asks for.
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { run } from '../../../lib/sensor/file-systems.fixture.ts';
import { sensorSkip, testMode } from '../../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { FileWatch } from './file-watch.ts';

/** A directory `d` and what is outside of it; all accesses to files below `d`. */
class Scene extends TemporaryDirectory {
  readonly seen: string[] = [];
  readonly watch: FileWatch<undefined>;

  constructor(...files: readonly string[]) {
    super();
    for (const file of files) this.write(file);
    this.watch = new FileWatch<undefined>({
      mode: testMode(),
      paths: [{ tracked: { root: this.path, path: '/d/**' }, context: undefined }],
      access: ['read', 'delete'],
      onAccess: (_access, { file }) => this.seen.push(file?.path ?? ''),
      onProblem: (problem) => assert.fail(problem as Error),
    });
  }

  write(file: string): void {
    mkdirSync(this.at(file, '..'), { recursive: true });
    writeFileSync(this.at(file), file);
  }

  /** Another process reads the file until that is told: it may just have come. */
  async isTold(file: string): Promise<void> {
    await until(`an access to ${file}, not only ${this.seen.join()}`, () => {
      run('cat', [this.at(file)]);
      this.watch.sensor.drain();
      return this.seen.includes(`/${file}`);
    });
  }

  get targets(): number {
    return this.watch.stats().targets;
  }

  override [Symbol.dispose](): void {
    this.watch[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

suite('the files below a directory', { skip: sensorSkip }, () => {
  test('are told where they are there, come, or are moved in with a tree, and no more when they are moved out', async () => {
    using scene = new Scene('d/a', 'tree/x/b', 'outside');
    await scene.isTold('d/a');
    scene.write('d/new/deep/c');
    await scene.isTold('d/new/deep/c');
    renameSync(scene.at('tree'), scene.at('d/tree'));
    await scene.isTold('d/tree/x/b');
    assert.equal(scene.targets, 3);
    renameSync(scene.at('d/tree'), scene.at('gone'));
    await until('it is dropped', () => scene.targets === 2);
    scene.seen.length = 0;
    run(
      'cat',
      ['gone/x/b', 'outside', 'd/a'].map((file) => scene.at(file)),
    );
    scene.watch.sensor.drain();
    assert.deepEqual([...new Set(scene.seen)], ['/d/a']);
    run('rm', [scene.at('d/new/deep/c')]);
    scene.watch.sensor.drain();
    assert.equal(scene.seen.at(-1), '/d/new/deep/c');
  });

  test('and those of a file system that is mounted there, by a name of their own', async () => {
    using scene = new Scene('d/sub/covered', 'bound/e');
    await scene.isTold('d/sub/covered');
    run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'rampart-test', scene.at('d/sub')]);
    try {
      scene.write('d/sub/f');
      await scene.isTold('d/sub/f');
      mkdirSync(scene.at('d/sub/bound'));
      run('mount', ['--bind', scene.at('bound'), scene.at('d/sub/bound')]);
      await scene.isTold('d/sub/bound/e');
      assert.equal(scene.targets, 2);
      run('umount', [scene.at('d/sub/bound')]);
    } finally {
      run('umount', ['--lazy', '--recursive', scene.at('d/sub')]);
    }
    scene.seen.length = 0;
    await scene.isTold('d/sub/covered');
    await until('the others are dropped', () => scene.targets === 1);
  });
});
