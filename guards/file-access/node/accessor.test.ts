import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { ContainerIndex } from '../../../lib/cri/container-index.ts';
import { accessorJson, accessorOf } from './accessor.ts';
import { access, context } from '../alert/alert.fixture.ts';
import { type AlertAccessor, AlertEncoder, type KiveAlert } from '../alert/alert.ts';

const bare = 'a'.repeat(64);
const side = { id: `containerd://${bare}`, name: 'side"car', podName: 'p', podNamespace: 'n' };
const cgroup = `/kubepods/podu/${bare}`;

function accessorBy(place: { mountNamespace: number; cgroup: string }, owner = 'other'): AlertAccessor {
  const index = new ContainerIndex(1, accessorOf);
  index.set(side, { mountNamespace: 2 });
  return JSON.parse(accessorJson(index.find(place), owner)) as AlertAccessor;
}

suite('who accessed', () => {
  test('a container: its own file, and that of another', () => {
    const who = { pod: { name: 'p', namespace: 'n' }, container: { id: side.id, name: 'side"car' } };
    assert.deepEqual(accessorBy({ mountNamespace: 7, cgroup }, side.id), { relation: 'owner', ...who });
    assert.deepEqual(accessorBy({ mountNamespace: 7, cgroup }), { relation: 'container', ...who });
    assert.deepEqual(accessorBy({ mountNamespace: 2, cgroup: '/' }), { relation: 'container', ...who });
  });

  const nobody = { pod: { name: '', namespace: '' }, container: { id: '', name: '' } };
  const unit = 'system.slice/x.service';

  test('the node, also for a file that no container owns', () => {
    const host = { relation: 'host', ...nobody };
    assert.deepEqual(accessorBy({ mountNamespace: 1, cgroup: '/' }), host);
    assert.deepEqual(accessorBy({ mountNamespace: 1, cgroup: '/' }, ''), host);
    assert.deepEqual(accessorBy({ mountNamespace: 1, cgroup: `/${unit}` }), { ...host, unit });
    assert.deepEqual(accessorBy({ mountNamespace: 9, cgroup: `/${unit}` }), { ...host, unit, mounts: 'own' });
    assert.deepEqual(accessorBy({ mountNamespace: 9, cgroup: '/' }), { ...host, mounts: 'own' });
  });

  test('a container unknown to the runtime is identified by its ID', () => {
    const id = 'b'.repeat(64);
    const by = accessorBy({ mountNamespace: 9, cgroup: `/system.slice/docker-${id}.scope` });
    assert.deepEqual(by, { relation: 'unknown', ...nobody, container: { id, name: '' } });
    assert.deepEqual(accessorBy({ mountNamespace: 9, cgroup: '' }), { relation: 'unknown', ...nobody });
  });

  test('is a key at the end of the alert, and no other changes', () => {
    const index = new ContainerIndex(1, accessorOf);
    index.set(side, { mountNamespace: access.mountNamespace });
    const encoder = new AlertEncoder(context);
    const without = JSON.parse(encoder.encode(access)) as KiveAlert;
    const line = encoder.encode(access, accessorJson(index.find(access), context.pod.container.id));
    assert.deepEqual(JSON.parse(line), {
      ...without,
      accessor: {
        relation: 'container',
        pod: { name: 'p', namespace: 'n' },
        container: { id: side.id, name: 'side"car' },
      },
    });
    assert.deepEqual(Object.keys(JSON.parse(line) as object), [...Object.keys(without), 'accessor']);
  });
});
