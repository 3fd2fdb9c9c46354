import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { RampartError } from '../../../lib/errors/errors.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { ContainerRoots, type SharedRoot } from './container-roots.ts';

function take(roots: ContainerRoots, root: string, containerId = '1'): SharedRoot {
  const taken = roots.take({ root, containerId });
  if (taken instanceof RampartError) throw taken;
  return taken;
}

suite('roots of containers', () => {
  test('are the same for all, however they are written, until the last use', () => {
    using directory = new TemporaryDirectory();
    const roots = new ContainerRoots();
    const first = take(roots, directory.path);
    assert.equal(take(roots, `${directory.path}/.`), first);
    roots.release(first);
    assert.equal(roots.at(directory.path), first);
    roots.release(first);
    assert.equal(roots.at(directory.path), undefined);
    roots.together(() => {
      const again = take(roots, directory.path);
      assert.notEqual(again, first);
      roots.release(again);
      assert.notEqual(take(roots, directory.path), again);
    });
  });

  test('are taken over by another container, from all who follow something there', () => {
    using directory = new TemporaryDirectory();
    const roots = new ContainerRoots();
    const old = take(roots, directory.path);
    take(roots, directory.path);
    for (const _ of ['files', 'directories'])
      roots.onEvicted((evicted) => {
        assert.equal(evicted, old);
        roots.release(evicted);
      });
    const now = take(roots, directory.path, '2');
    assert.notEqual(now, old);
    assert.deepEqual([old.uses, roots.at(directory.path)], [0, now]);
  });

  test('a process that has ended has no root', () => {
    const roots = new ContainerRoots();
    // Beyond the greatest pid_max there is (PID_MAX_LIMIT of include/linux/threads.h).
    const gone = roots.take({ root: '/proc/4194305/root', containerId: '' });
    assert.match(String(gone), /no container root file system at \/proc\/4194305\/root/);
    assert.equal(roots.at('/proc/4194305/root'), undefined);
  });
});
