import assert from 'node:assert/strict';
import { linkSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { FollowedFiles, inodeOf } from './container-files.fixture.ts';
import type { ContainerFile } from './container-files.ts';
import { watchedFile } from './file-state.ts';
import { MAX_MOVED_FILES } from './moved-files.ts';

const inode = (path: string): bigint => statSync(path, { bigint: true }).ino;
const movedOf = ({ state }: ContainerFile): bigint[] => (state.moved ?? []).map((file) => file.inode);
const whyOf = ({ state }: ContainerFile): string => ('why' in state ? state.why : '');

/** A file at `/f`, followed. */
class Moving extends FollowedFiles {
  readonly file: ContainerFile;
  readonly where = this.at('root', 'f');
  #number = 0;

  constructor() {
    super();
    writeFileSync(this.where, 'first');
    this.file = this.add('/f');
  }

  /** Puts another file in its place, and waits until that is seen. */
  async replace(keep?: string): Promise<bigint> {
    if (keep !== undefined) linkSync(this.where, this.at('root', keep));
    const next = this.at('root', `next${this.#number++}`);
    writeFileSync(next, 'next');
    const now = inode(next);
    renameSync(next, this.where);
    await this.until(() => inodeOf(this.file) === now);
    return now;
  }
}

suite('a file that leaves its path', () => {
  test('is watched after a rename, reported as moved, and normal again at its path', async () => {
    using moving = new Moving();
    const { file, where: path } = moving;
    const first = inode(path);
    mkdirSync(moving.at('root', 'dir'));
    renameSync(path, moving.at('root', 'dir', 'x'));
    await moving.until(() => file.state.kind === 'waiting');
    assert.equal(whyOf(file), '/f does not exist; the previous file was moved and is still watched');
    assert.deepEqual(movedOf(file), [first]);
    assert.equal(watchedFile(file.state)?.identity.inode, first);
    renameSync(moving.at('root', 'dir', 'x'), path);
    await moving.until(() => file.state.kind === 'watched');
    assert.deepEqual([inodeOf(file), movedOf(file)], [first, []]);
  });

  test('is kept while it has another name, and let go when it is deleted', async () => {
    using moving = new Moving();
    const first = inode(moving.where);
    const second = await moving.replace('kept');
    assert.deepEqual([inodeOf(moving.file), movedOf(moving.file)], [second, [first]]);
    rmSync(moving.at('root', 'kept'));
    await moving.until(() => movedOf(moving.file).length === 0);
    assert.equal(inodeOf(moving.file), second);
    assert.equal(moving.files.stats.files, 1);
  });

  test('a directory in its place', async () => {
    using moving = new Moving();
    renameSync(moving.where, moving.at('root', 'x'));
    mkdirSync(moving.where);
    await moving.until(() => moving.file.state.kind === 'refused');
    assert.equal(movedOf(moving.file).length, 1);
    assert.match(whyOf(moving.file), /; the previous file was moved and is still watched$/);
    rmSync(moving.at('root', 'x'));
    await moving.until(() => movedOf(moving.file).length === 0);
    assert.doesNotMatch(whyOf(moving.file), /moved/);
  });

  test('saves leave nothing; of many that are kept it has the first and the last ones', async () => {
    using moving = new Moving();
    const first = inode(moving.where);
    const kept = [first];
    for (let number = 0; number < 2 * MAX_MOVED_FILES; number++)
      kept.push(await moving.replace(`kept${number}`));
    kept.pop(); // what the path leads to
    const last = kept.slice(1 - MAX_MOVED_FILES).reverse();
    assert.deepEqual(movedOf(moving.file), [...last, first]);
    assert.equal(moving.files.droppedMoved, MAX_MOVED_FILES);
    assert.equal(moving.files.stats.files, MAX_MOVED_FILES + 1);
    for (let number = 0; number < 2 * MAX_MOVED_FILES; number++) rmSync(moving.at('root', `kept${number}`));
    await moving.until(() => movedOf(moving.file).length === 0);
    for (let saves = 0; saves < 100; saves++) await moving.replace();
    await moving.until(() => movedOf(moving.file).length === 0);
    assert.equal(moving.files.stats.files, 1);
  });

  test('is of those who were led there, and ends with the last of them', async () => {
    using moving = new Moving();
    const other = moving.add('/f');
    renameSync(moving.where, moving.at('root', 'x'));
    await moving.until(() => movedOf(moving.file).length === 1 && movedOf(other).length === 1);
    const late = moving.add('/f');
    assert.deepEqual(movedOf(late), []);
    assert.equal(whyOf(late), '/f does not exist');
    // One that takes its place, as when the trap was edited.
    const heir = moving.files.add({ ...other.request, create: false, modeBits: 0o600 }, other);
    assert.deepEqual(movedOf(heir), movedOf(other));
    for (const one of [moving.file, other, late]) one[Symbol.dispose]();
    assert.equal(moving.files.stats.files, 1);
    heir[Symbol.dispose]();
    assert.deepEqual([moving.files.stats.files, moving.files.stats.watches], [0, 0]);
  });
});
