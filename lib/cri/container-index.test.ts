import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ContainerIndex } from './container-index.ts';

const host = 1;
const idOf = (letter: string): string => letter.repeat(64);
const container = (letter: string) => ({
  ...{ id: `containerd://${idOf(letter)}`, name: letter, podName: 'p', podNamespace: 'n' },
});
const indexed = () =>
  new ContainerIndex(host, (place) => (place.relation === 'container' ? place.name : place));
const pod = (...names: readonly string[]): string => ['/kubepods/podu', ...names].join('/');

suite('where a process is', () => {
  test('in the container that its cgroup names, in whichever mount namespace', () => {
    const index = indexed();
    index.set(container('a'));
    assert.equal(index.find({ mountNamespace: 2, cgroup: pod(idOf('a')) }), 'a');
    assert.equal(index.find({ mountNamespace: host, cgroup: pod(idOf('a')) }), 'a');
    index.set(container('b'), { mountNamespace: 2 });
    assert.equal(index.find({ mountNamespace: 2, cgroup: pod(idOf('a')) }), 'a');
  });

  test('in the outermost that is known: a container may name its cgroups as others are', () => {
    const index = indexed();
    index.set(container('a'));
    index.set(container('b'));
    assert.equal(index.find({ mountNamespace: 2, cgroup: pod(idOf('a'), idOf('b')) }), 'a');
    // A node that is itself a container of another machine.
    assert.equal(index.find({ mountNamespace: 2, cgroup: `/docker/${idOf('f')}${pod(idOf('b'))}` }), 'b');
  });

  test('in the container whose mount namespace it entered from outside', () => {
    const index = indexed();
    index.set(container('a'), { mountNamespace: 2 });
    assert.equal(index.find({ mountNamespace: 2, cgroup: '/' }), 'a');
  });

  test('on the node', () => {
    const index = indexed();
    const unit = 'system.slice/x.service';
    const at = (mountNamespace: number, cgroup: string) => index.find({ mountNamespace, cgroup });
    assert.deepEqual(at(host, '/'), { relation: 'host', unit: undefined, hasOwnMounts: false });
    assert.deepEqual(at(host, `/${unit}/main`), { relation: 'host', unit, hasOwnMounts: false });
    assert.deepEqual(at(7, `/${unit}`), { relation: 'host', unit, hasOwnMounts: true });
    assert.deepEqual(at(7, '/'), { relation: 'host', unit: undefined, hasOwnMounts: true });
    // The machine of a node that is itself a container.
    assert.equal((at(host, `/docker/${idOf('f')}/kubelet.slice`) as { relation: string }).relation, 'host');
  });

  test('a process in an unreported container', () => {
    const index = indexed();
    const at = (cgroup: string) => index.find({ mountNamespace: 7, cgroup });
    assert.deepEqual(at(pod(idOf('a'))), { relation: 'unknown', id: idOf('a') });
    assert.deepEqual(at(`/system.slice/docker-${idOf('d')}.scope`), { relation: 'unknown', id: idOf('d') });
    assert.deepEqual(at(pod('main')), { relation: 'unknown', id: undefined });
    // So deep that the kernel side gave up.
    assert.deepEqual(at(''), { relation: 'unknown', id: undefined });
  });
});

suite('a container that is gone', () => {
  test('is still found by its cgroup, and not by its mount namespace', () => {
    const index = indexed();
    index.set(container('a'), { mountNamespace: 2 });
    index.delete(container('a').id);
    assert.equal(index.find({ mountNamespace: 2, cgroup: pod(idOf('a')) }), 'a');
    assert.notEqual(index.find({ mountNamespace: 2, cgroup: '/' }), 'a');
  });

  test('gives its mount namespace to a newer one', () => {
    const index = indexed();
    index.set(container('a'), { mountNamespace: 2 });
    index.set(container('b'), { mountNamespace: 2 });
    index.delete(container('a').id);
    assert.equal(index.find({ mountNamespace: 2, cgroup: '/' }), 'b');
  });

  test('is forgotten when hundreds have gone after it', () => {
    const index = indexed();
    const id = (number: number): string => number.toString(16).padStart(64, '0');
    for (let number = 0; number < 300; number++) {
      index.set({ ...container('a'), id: `containerd://${id(number)}`, name: `${number}` });
      index.delete(`containerd://${id(number)}`);
    }
    const find = (number: number) => index.find({ mountNamespace: 2, cgroup: pod(id(number)) });
    assert.deepEqual(find(0), { relation: 'unknown', id: id(0) });
    assert.equal(find(299), '299');
  });
});

test('an action before the start of a container is not its own, though it has the mount namespace now', () => {
  const index = indexed();
  const process = { mountNamespace: 2, cgroup: '/' };
  index.set(container('b'), { mountNamespace: 2, startedMs: 2000 });
  assert.notEqual(index.find(process, 1000), 'b');
  assert.equal(index.find(process, 2000), 'b');
  assert.equal(index.find(process), 'b');
});
