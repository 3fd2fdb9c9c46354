import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { inotifyBits } from '../paths/inotify.ts';
import { Authors, pathIn } from './authors.ts';
import type { ChangeProcess } from './change.ts';
import type { SeenChange } from './records.ts';

const processOf = (pid: number): ChangeProcess => ({
  executable: `/bin/${pid}`,
  arguments: '',
  cwd: '/',
  comm: '',
  uid: 0,
  gid: 0,
  pid,
  ppid: 1,
  parentExecutable: '',
  mountNamespace: 1,
  cgroupId: 1n,
  own: false,
});

const inode = { inode: 7n, device: 1, generation: 3 };

function seen(pid: number, atMs: number, more: Partial<SeenChange> = {}): SeenChange {
  return {
    process: processOf(pid),
    directory: 1,
    name: 'file',
    ...inode,
    mask: 0,
    call: 'content',
    put: undefined,
    atMs,
    ...more,
  };
}

const brief = ({ author, others }: ReturnType<Authors['of']>) => [author?.pid, others];

suite('who changed what', () => {
  test('the last one, and how many others, since a mark', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    authors.add(seen(2, 20), ['/d']);
    const mark = authors.last;
    assert.deepEqual(brief(authors.of('/d/file', 0)), [2, 1]);
    assert.deepEqual(brief(authors.of('/d/file', mark)), [undefined, 0]);
    authors.add(seen(1, 30), ['/d']);
    assert.deepEqual(brief(authors.of('/d/file', mark)), [1, 0]);
    assert.deepEqual(brief(authors.of('/d/other', 0)), [undefined, 0]);
  });

  test('what changed a name did not change the directory, unless the name came or went', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    assert.deepEqual(brief(authors.of('/d', 0)), [undefined, 0]);
    authors.add(seen(2, 20, { mask: inotifyBits.DELETE }), ['/d']);
    authors.add(seen(3, 30, { name: undefined }), ['/d']);
    assert.deepEqual(brief(authors.of('/d', 0)), [3, 1]);
  });

  test('a new name by its inode: one process or nobody', () => {
    const authors = new Authors();
    const put = (pid: number, atMs: number, how: 'made' | 'named'): void =>
      authors.add(seen(pid, atMs, { name: undefined, put: how }), ['/d']);
    put(1, 10, 'made');
    assert.deepEqual(brief(authors.ofName(inode, 0)), [1, 0]);
    put(2, 20, 'named');
    assert.deepEqual(brief(authors.ofName(inode, 0)), [2, 0]);
    put(3, 30, 'named');
    assert.deepEqual(brief(authors.ofName(inode, 0)), [undefined, 2]);
    assert.deepEqual(brief(authors.ofName(inode, 25)), [3, 0]);
    assert.deepEqual(brief(authors.ofName({ ...inode, generation: 4 }, 0)), [undefined, 0]);
  });

  test('a process whose record was lost is nobody', () => {
    const authors = new Authors();
    authors.add(seen(1, 10, { process: undefined }), ['/d']);
    assert.equal(authors.empty, true);
  });

  test('is forgotten after two turns, and never grows without end', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    authors.rotate();
    assert.deepEqual(brief(authors.of('/d/file', 0)), [1, 0]);
    authors.rotate();
    assert.equal(authors.empty, true);
    for (let i = 0; i < 100_000; i++) authors.add(seen(1, i, { name: `${i}` }), ['/d']);
    assert.deepEqual(brief(authors.of('/d/0', 0)), [undefined, 0]);
    assert.deepEqual(brief(authors.of('/d/99999', 0)), [1, 0]);
  });

  test('paths in the root', () => {
    assert.deepEqual([pathIn('/', 'a'), pathIn('/a', 'b')], ['/a', '/a/b']);
  });
});
