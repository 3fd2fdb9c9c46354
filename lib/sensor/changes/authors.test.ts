import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { inotifyBits } from '../paths/inotify.ts';
import { Authors, pathIn } from './authors.ts';
import { kindBits, type ChangeProcess } from './change.ts';
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
  cgroup: '/a.service',
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

const { modified } = kindBits;
const brief = ({ author, others }: ReturnType<Authors['take']>) => [author?.pid, others];

suite('who changed what', () => {
  test('the last one, and how many others, since it was asked last', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    authors.add(seen(2, 20), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', modified, 0)), [2, 1]);
    authors.add(seen(1, 30), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', modified, 0)), [1, 0]);
    assert.deepEqual(brief(authors.take('/d/other', modified, 0)), [undefined, 0]);
  });

  suite('the author of the content, if another process touched the file after that', () => {
    const { attributes } = kindBits;
    const touch = { call: 'attributes' } as const;
    const both = ({ author, contentAuthor }: ReturnType<Authors['take']>) => [
      author?.pid,
      contentAuthor?.pid,
    ];

    test('both authors, if they are reported together', () => {
      const authors = new Authors();
      authors.add(seen(1, 10), ['/d']);
      authors.add(seen(2, 20, touch), ['/d']);
      assert.deepEqual(both(authors.take('/d/file', modified | attributes, 0)), [2, 1]);
    });

    test('no author, if the file was only touched', () => {
      const authors = new Authors();
      authors.add(seen(2, 20, touch), ['/d']);
      assert.deepEqual(both(authors.take('/d/file', attributes, 0)), [2, undefined]);
      // The event comes again, with another.
      assert.deepEqual(both(authors.take('/d/file', attributes | modified, 20)), [2, undefined]);
    });

    test('an author reported before its event came', () => {
      const authors = new Authors();
      authors.add(seen(1, 10), ['/d']);
      assert.deepEqual(both(authors.take('/d/file', 0, 0)), [1, 1]);
      authors.add(seen(2, 20, touch), ['/d']);
      assert.deepEqual(both(authors.take('/d/file', modified | attributes, 1000)), [2, 1]);
      authors.add(seen(3, 30, touch), ['/d']);
      assert.deepEqual(both(authors.take('/d/file', attributes, 0)), [3, undefined]);
    });

    test('whoever it may have been, where the system call is not known', () => {
      const authors = new Authors();
      authors.add(seen(1, 10, { call: 'unknown' }), ['/d']);
      authors.add(seen(2, 20, touch), ['/d']);
      assert.deepEqual(both(authors.take('/d/file', attributes, 0)), [2, 1]);
    });
  });

  test('an event that comes after its author was reported has the same author', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.created, 0)), [1, 0]);
    // However late it is, and not for what a write does not explain.
    for (const other of [kindBits.created, kindBits.closed, kindBits.attributes, kindBits.deleted, 0])
      assert.deepEqual(brief(authors.take('/d/file', other, 1000)), [undefined, 0]);
    assert.deepEqual(brief(authors.take('/d/file', modified | kindBits.closed, 1000)), [1, 0]);
    // Its event has come: another one is by another process, unless it may be one of several of the same
    // moment.
    assert.deepEqual(brief(authors.take('/d/file', modified, 11)), [undefined, 0]);
    assert.deepEqual(brief(authors.take('/d/file', modified, 10)), [1, 0]);
  });

  test('an event that comes late is of who was seen after that', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    authors.take('/d/file', 0, 0);
    authors.add(seen(2, 20), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', modified, 0)), [2, 0]);
  });

  test('who took a name away is not who gave it', () => {
    const authors = new Authors();
    authors.add(seen(1, 10, { call: 'names' }), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', 0, 0)), [1, 0]);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.created, 0)), [undefined, 0]);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.movedTo, 0)), [undefined, 0]);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.deleted, 0)), [1, 0]);
  });

  test('a change of a name is not a change of the directory, unless the name came or went', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    assert.deepEqual(brief(authors.take('/d', kindBits.changed, 0)), [undefined, 0]);
    authors.add(seen(2, 20, { mask: inotifyBits.DELETE }), ['/d']);
    authors.add(seen(3, 30, { name: undefined }), ['/d']);
    assert.deepEqual(brief(authors.take('/d', kindBits.changed, 0)), [3, 1]);
  });

  test('a new name by its inode: one process, or unknown', () => {
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

  test('the process that removed a new name is reported for the removal, not for the creation', () => {
    const authors = new Authors();
    authors.add(seen(1, 20, { call: 'names' }), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.created, 0)), [undefined, 0]);
    authors.add(seen(2, 15), ['/d']);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.created | modified, 0)), [2, 0]);
    assert.deepEqual(authors.goneFrom('/d/file'), inode);
    assert.deepEqual(brief(authors.take('/d/file', kindBits.deleted, 0)), [1, 0]);
  });

  test('the inode of a removed name is known until it is reported', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    assert.equal(authors.goneFrom('/d/file'), undefined);
    authors.add(seen(1, 20, { call: 'names' }), ['/d']);
    assert.deepEqual(authors.goneFrom('/d/file'), inode);
    authors.take('/d/file', kindBits.deleted, 0);
    assert.equal(authors.goneFrom('/d/file'), undefined);
  });

  test('a process whose record was lost is unknown', () => {
    const authors = new Authors();
    authors.add(seen(1, 10, { process: undefined }), ['/d']);
    assert.equal(authors.empty, true);
  });

  test('is forgotten after two turns', () => {
    const authors = new Authors();
    authors.add(seen(1, 10), ['/d']);
    authors.rotate();
    assert.deepEqual(brief(authors.take('/d/file', modified, 0)), [1, 0]);
    authors.rotate();
    assert.equal(authors.empty, false);
    authors.rotate();
    assert.equal(authors.empty, true);
  });

  test('never grows without end, and says when something was let go before its time', () => {
    const authors = new Authors();
    for (let i = 0; i < 100_000; i++) authors.add(seen(1, i, { name: `${i}` }), ['/d']);
    assert.ok(authors.drops > 0);
    assert.deepEqual(brief(authors.take('/d/0', modified, 0)), [undefined, 0]);
    assert.deepEqual(brief(authors.take('/d/99999', modified, 0)), [1, 0]);
  });

  test('authors that were requested make room', () => {
    const authors = new Authors();
    for (let i = 0; i < 100_000; i++) {
      authors.add(seen(1, i), ['/d']);
      authors.take('/d/file', modified, 0);
    }
    assert.equal(authors.drops, 0);
  });

  test('paths in the root', () => {
    assert.deepEqual([pathIn('/', 'a'), pathIn('/a', 'b')], ['/a', '/a/b']);
  });
});
