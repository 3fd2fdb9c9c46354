import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ContainerIndex } from './container-index.ts';

const host = 1;
const container = (id: string) => ({ id, name: id, podName: 'p', podNamespace: 'n' });
const indexed = () => new ContainerIndex(host, ({ id }) => ({ id }));

suite('a container that is gone', () => {
  test('is still found for what was done before, by its mount namespace', () => {
    const index = indexed();
    index.set(container('a'), { mountNamespace: 2 });
    index.delete('a', 1000);
    const process = { mountNamespace: 2, cgroupId: 1n };
    assert.deepEqual(index.find(process, 999), { id: 'a' });
    // It was seen to be gone within the same millisecond.
    assert.deepEqual(index.find(process, 1001), { id: 'a' });
    assert.equal(index.find(process, 1001.1), 'unknown');
    assert.equal(index.find(process), 'unknown');
    assert.equal(index.find({ mountNamespace: host, cgroupId: 1n }, 999), 'host');
  });

  test('is not found for a process of another cgroup, nor instead of one that is there', () => {
    const index = indexed();
    index.set(container('a'), { mountNamespace: 2, cgroupId: 20n });
    index.delete('a', 1000);
    assert.deepEqual(index.find({ mountNamespace: 2, cgroupId: 20n }, 999), { id: 'a' });
    assert.equal(index.find({ mountNamespace: 2, cgroupId: 21n }, 999), 'unknown');
    index.set(container('b'), { mountNamespace: 2, cgroupId: 21n });
    assert.deepEqual(index.find({ mountNamespace: 2, cgroupId: 21n }, 999), { id: 'b' });
  });

  test('is forgotten when hundreds have gone after it', () => {
    const index = indexed();
    for (let number = 2; number < 302; number++) {
      index.set(container(`c${number}`), { mountNamespace: number });
      index.delete(`c${number}`, 1000);
    }
    assert.equal(index.find({ mountNamespace: 2, cgroupId: 1n }, 999), 'unknown');
    assert.deepEqual(index.find({ mountNamespace: 301, cgroupId: 1n }, 999), { id: 'c301' });
  });
});

test('what was done before a container began is not its own, though it has the number now', () => {
  const index = indexed();
  const process = { mountNamespace: 2, cgroupId: 1n };
  index.set(container('b'), { mountNamespace: 2, startedMs: 2000 });
  assert.equal(index.find(process, 1000), 'unknown');
  assert.deepEqual(index.find(process, 2000), { id: 'b' });
  assert.deepEqual(index.find(process), { id: 'b' });
  index.delete('b', 3000);
  assert.equal(index.find(process, 1000), 'unknown');
  assert.deepEqual(index.find(process, 2500), { id: 'b' });
});
