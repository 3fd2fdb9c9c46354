// All files of a directory, and who accesses them: tracker and sensor together, in the mode that RAMPART_SENSOR_MODE asks for.
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { describeMask } from '../../../lib/sensor/access.ts';
import { run } from '../../../lib/sensor/file-systems.fixture.ts';
import { sensorSkip, testMode } from '../../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { FileWatch } from './file-watch.ts';

/** A directory `d` and what is outside of it; all accesses to files below `d`. */
class Scene extends TemporaryDirectory {
  readonly seen: string[] = [];
  readonly words: string[] = [];
  readonly watch: FileWatch<undefined>;

  constructor(files: readonly string[], access: readonly string[] = ['read', 'delete']) {
    super();
    for (const file of files) this.write(file);
    this.watch = new FileWatch<undefined>({
      mode: testMode(),
      paths: [{ tracked: { root: this.path, path: '/d/**' }, context: undefined }],
      access,
      onAccess: ({ mask }, { file }) => {
        this.seen.push(file?.path ?? '');
        this.words.push(`${describeMask(mask).join('+')} ${file?.path}`);
      },
      onProblem: (problem) => assert.fail(problem as Error),
    });
  }

  write(file: string): void {
    mkdirSync(this.at(file, '..'), { recursive: true });
    writeFileSync(this.at(file), file);
  }

  /** Another process reads the file until an access is reported: the file may be new. */
  async isReported(file: string): Promise<void> {
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
  test('are reported if they exist, come or are moved in with a tree, but not after they are moved out', async () => {
    using scene = new Scene(['d/a', 'tree/x/b', 'outside']);
    await scene.isReported('d/a');
    scene.write('d/new/deep/c');
    await scene.isReported('d/new/deep/c');
    renameSync(scene.at('tree'), scene.at('d/tree'));
    await scene.isReported('d/tree/x/b');
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

  test('are seen from their first access: created, moved in, or deleted before they were noticed', async () => {
    using scene = new Scene(['d/sub/a', 'outside/c', 'outside/d'], ['read', 'write', 'delete', 'rename']);
    await scene.isReported('d/sub/a');
    scene.words.length = 0;
    // The event loop stands still until all of it is done.
    const steps = [
      'echo x > d/sub/new; cat d/sub/new > /dev/null',
      'mv outside/c d/c; cat d/c > /dev/null',
      'echo y > d/short; rm d/short',
      'echo z > d/sub/part; mv d/sub/part d/whole; cat d/whole > /dev/null',
      'echo o > outside/other; cat outside/other > /dev/null',
      'mv -f outside/d d/sub/a; cat d/sub/a > /dev/null',
    ];
    run('sh', ['-c', `cd ${scene.path}; ${steps.join('; ')}`]);
    scene.watch.sensor.drain();
    const reported = new Set(scene.words);
    const expected = [
      ...['write /d/sub/new', 'read /d/sub/new', 'read /d/c', 'write /d/short', 'delete /d/short'],
      ...['write /d/sub/part', 'rename /d/sub/part', 'read /d/sub/a'],
    ];
    for (const one of expected) assert.ok(reported.has(one), `${one} in ${scene.words.join(', ')}`);
    // By the name that it came by, in the directory that it came in.
    assert.ok(reported.has('read /d/sub/whole') || reported.has('read /d/whole'), scene.words.join(', '));
    assert.ok(!scene.words.some((word) => word.includes('outside') || word.includes('other')));
    scene.words.length = 0;
    await scene.isReported('d/sub/new');
    await until('all are targets', () => scene.targets === 4);
    run('cat', [scene.at('d/sub/new')]);
    scene.watch.sensor.drain();
    assert.equal(scene.words.at(-1), 'read /d/sub/new');
  });

  test('and those of a file system that is mounted there, by a name of their own', async () => {
    using scene = new Scene(['d/sub/covered', 'bound/e']);
    await scene.isReported('d/sub/covered');
    run('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'rampart-test', scene.at('d/sub')]);
    try {
      scene.write('d/sub/f');
      await scene.isReported('d/sub/f');
      mkdirSync(scene.at('d/sub/bound'));
      run('mount', ['--bind', scene.at('bound'), scene.at('d/sub/bound')]);
      await scene.isReported('d/sub/bound/e');
      assert.equal(scene.targets, 2);
      run('umount', [scene.at('d/sub/bound')]);
    } finally {
      run('umount', ['--lazy', '--recursive', scene.at('d/sub')]);
    }
    scene.seen.length = 0;
    await scene.isReported('d/sub/covered');
    await until('the others are dropped', () => scene.targets === 1);
  });
});
