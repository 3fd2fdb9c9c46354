import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ContainerIndex } from '../../../lib/cri/container-index.ts';
import { accessorJson, type AccessorJson, accessorOf } from './accessor.ts';
import { access, context } from '../alert/alert.fixture.ts';
import { type AlertAccessor, AlertEncoder, type KiveAlert } from '../alert/alert.ts';

const side = { id: 'containerd://side', name: 'side"car', podName: 'p', podNamespace: 'n' };
const relationOf = (
  index: ContainerIndex<AccessorJson>,
  mountNamespace: number,
  cgroupId: bigint,
  owner = '',
): string => (JSON.parse(accessorJson(index, { mountNamespace, cgroupId }, owner)) as AlertAccessor).relation;

suite('who accessed', () => {
  test('by the mount namespace, else by the cgroup', () => {
    const index = new ContainerIndex(1, accessorOf);
    index.set(side, { mountNamespace: 2, cgroupId: 20n });
    assert.equal(relationOf(index, 2, 99n), 'container');
    assert.equal(relationOf(index, 2, 99n, side.id), 'owner');
    assert.equal(relationOf(index, 7, 20n), 'container');
    assert.equal(relationOf(index, 1, 0n), 'host');
    assert.equal(relationOf(index, 7, 99n), 'unknown');
  });

  test('a number that the kernel gave to a newer container stays the newer one’s', () => {
    const index = new ContainerIndex(1, accessorOf);
    index.set(side, { mountNamespace: 2, cgroupId: 20n });
    index.set({ ...side, id: 'containerd://new' }, { mountNamespace: 2, cgroupId: 20n });
    index.delete(side.id);
    assert.equal(relationOf(index, 2, 20n, 'containerd://new'), 'owner');
    index.set({ ...side, id: 'containerd://new' }, { mountNamespace: 3 });
    assert.equal(relationOf(index, 2, 20n), 'unknown');
    index.delete('containerd://new');
    assert.equal(relationOf(index, 3, 20n), 'unknown');
  });

  test('is a key at the end of the alert, and no other changes', () => {
    const index = new ContainerIndex(1, accessorOf);
    index.set(side, { mountNamespace: access.mountNamespace });
    const encoder = new AlertEncoder(context);
    const without = JSON.parse(encoder.encode(access)) as KiveAlert;
    const line = encoder.encode(access, accessorJson(index, access, context.pod.container.id));
    assert.deepEqual(JSON.parse(line), {
      ...without,
      accessor: {
        relation: 'container',
        pod: { name: 'p', namespace: 'n' },
        container: { id: 'containerd://side', name: 'side"car' },
      },
    });
    assert.deepEqual(Object.keys(JSON.parse(line) as object), [...Object.keys(without), 'accessor']);
  });
});
