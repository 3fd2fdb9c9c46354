import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { cgroupPlace } from './cgroup-place.ts';

const id = '0123456789abcdef'.repeat(4);
const other = 'f'.repeat(64);

suite('the container or unit in the path of a cgroup', () => {
  for (const path of [
    `/kubepods/burstable/pod7d1c/${id}`,
    `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1c.slice/cri-containerd-${id}.scope`,
    `/kubepods.slice/kubepods-pod7d1c.slice/crio-${id}.scope`,
    `/kubepods/besteffort/pod7d1c/crio-${id}`,
    `/kubepods.slice/kubepods-pod7d1c.slice/docker-${id}.scope`,
    `/docker/${id}`,
    `/system.slice/docker-${id}.scope`,
    `/machine.slice/libpod-${id}.scope/container`,
    `/kubepods/burstable/pod7d1c/${id}/init.scope`,
  ]) {
    test(`the container of ${path.replaceAll(id, 'ID')}`, () => {
      assert.deepEqual(cgroupPlace(path).containers, [id]);
    });
  }

  test('the outermost container is first, whatever it names its own cgroups', () => {
    const path = `/kubepods/pod7d1c/${id}/cri-containerd-${other}.scope`;
    assert.deepEqual(cgroupPlace(path).containers, [id, other]);
  });

  test('the monitor of a container is not in it', () => {
    const path = `/kubepods.slice/kubepods-pod7d1c.slice/crio-conmon-${id}.scope`;
    assert.deepEqual(cgroupPlace(path).containers, []);
    assert.deepEqual(cgroupPlace(`/machine.slice/libpod-conmon-${id}.scope`).containers, []);
  });

  for (const [path, unit] of [
    ['/system.slice/cron.service', 'system.slice/cron.service'],
    [
      '/system.slice/system-getty.slice/getty@tty1.service',
      'system.slice/system-getty.slice/getty@tty1.service',
    ],
    ['/user.slice/user-0.slice/session-3.scope', 'user.slice/user-0.slice/session-3.scope'],
    // Whoever the service is of may name what is in it.
    [
      '/user.slice/user-1.slice/user@1.service/app.slice/cron.service',
      'user.slice/user-1.slice/user@1.service',
    ],
    [
      `/user.slice/user-1.slice/user@1.service/app.slice/${id}.scope`,
      'user.slice/user-1.slice/user@1.service',
    ],
    [
      `/user.slice/user-1.slice/cri-containerd-${id}.scope`,
      `user.slice/user-1.slice/cri-containerd-${id}.scope`,
    ],
    [`/system.slice/cron.service/${id}`, 'system.slice/cron.service'],
    ['/init.scope', 'init.scope'],
    ['/system.slice', undefined],
    ['/', undefined],
    ['', undefined],
  ] as const) {
    test(`the unit of ${JSON.stringify(path)}: ${unit}`, () => {
      assert.deepEqual(cgroupPlace(path), { containers: [], unit, isPod: false });
    });
  }

  test('a pod, of whichever runtime', () => {
    assert.equal(cgroupPlace('/kubepods/burstable/pod7d1c/main').isPod, true);
    assert.equal(cgroupPlace('/kubepods.slice/kubepods-pod7d1c.slice/vm.scope').isPod, true);
  });
});
