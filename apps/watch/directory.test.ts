// `rampart watch` of all files in or below a directory.
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { run } from '../../lib/sensor/file-systems.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { Watching } from './watch.fixture.ts';

class Tree extends TemporaryDirectory {
  write(...names: string[]): void {
    for (const name of names) {
      mkdirSync(this.at(name, '..'), { recursive: true });
      writeFileSync(this.at(name), name);
    }
  }

  /** Reads a file until that is reported. */
  async untilSeen(watching: Watching, name: string): Promise<void> {
    const file = this.at(name);
    await until(`an access to ${file}`, () => {
      run('cat', [file]);
      return watching.alerts().some(({ metadata }) => metadata.file === file);
    });
  }
}

suite('rampart watch of a directory', { skip: sensorSkip }, () => {
  test('reports each file in it and those that come, by their own paths', async () => {
    using tree = new Tree();
    tree.write('d/a', 'd/deep/b', 'tree/x/y');
    await using watching = await Watching.start(tree.at('d/**'));
    await watching.untilSaid(/\/d\/\*\* has 2 watched files now/);
    run('cat', [tree.at('d/a'), tree.at('d/deep/b')]);
    const [first, second] = await watching.untilAlerts(2);
    assert.deepEqual(
      [first?.metadata.path, first?.metadata.file, second?.metadata.file],
      [tree.at('d/**'), tree.at('d/a'), tree.at('d/deep/b')],
    );
    renameSync(tree.at('tree'), tree.at('d/tree'));
    await tree.untilSeen(watching, 'd/tree/x/y');
    tree.write('d/new');
    await tree.untilSeen(watching, 'd/new');
  });

  test('with --capacity says how many files are not watched', async () => {
    using tree = new Tree();
    tree.write('d/a', 'd/b', 'd/c');
    await using watching = await Watching.start('--capacity', '2', tree.at('d/*'));
    await watching.untilSaid(/\/d\/\*: 1 file NOT watched, beyond the limit of 2 files/);
  });

  deepTest('watches 65,536 files, and counts the others', async () => {
    using tree = new Tree();
    mkdirSync(tree.at('d'));
    for (let i = 0; i < 65_537; i++) writeFileSync(tree.at('d', String(i)), '');
    await using watching = await Watching.start(tree.at('d/*'));
    await watching.untilSaid(/\/d\/\*: 1 file NOT watched, beyond the limit of 65536 files/);
  });
});
