// Volumes with maps in real containers: containerd, and kubelet's calls of the CSI driver in the mount namespace of the node.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { suite, test } from 'node:test';

import {
  cable,
  desired,
  obstacle,
  ownNetwork,
  send,
  xdp,
} from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { CsiLab } from '../../guards/bpf-programs/csi/lab.fixture.ts';
import { podProgram } from '../../guards/bpf-programs/csi/pod.fixture.ts';
import { startLab } from '../lab/lab.ts';
import { labObstacle } from '../lab/obstacle.ts';

/** What perl needs, at its own places: the image has nothing but busybox. */
const ofPerl = ['/usr/bin/perl', '/usr/lib', '/lib', '/lib64'].filter((path) => existsSync(path));
const GROUP = 65_534;

suite(
  'volumes with maps in containers',
  { skip: labObstacle() ?? obstacle() ?? false, timeout: 240_000 },
  () => {
    test('a container without capabilities and root reads what a program counts, as its group may', async () => {
      await using lab = await startLab();
      ownNetwork();
      cable('csi0', 'csi1');
      const { runtimePid: pid = 0, directory } = lab;
      await using csi = await CsiLab.start({ place: { pid, directory } });
      const host = await csi.lab.host();
      const program = desired('count', xdp('csi0'), { namespace: 'shop', owner: 'XdpNsProgram/shop/count' });
      await host.apply([program]);
      const target = await csi.publish({ program: 'count', maps: 'packets', group: String(GROUP) });
      const other = await csi.publish({ program: 'count', maps: 'packets', volumeId: 'csi-2' });
      const pod = await lab.runPod({
        ...{ name: 'reader', namespace: 'shop' },
        containers: [
          {
            ...{ name: 'app', command: ['sleep', '1000'] },
            mounts: [
              { containerPath: '/run/maps', hostPath: target },
              { containerPath: '/run/others', hostPath: other },
              ...ofPerl.map((path) => ({ containerPath: path, hostPath: path, readonly: true })),
            ],
            security: {
              runAsUser: { value: BigInt(GROUP) },
              runAsGroup: { value: BigInt(GROUP) },
              noNewPrivs: true,
            },
          },
        ],
      });
      const container = pod.containers.get('app') ?? assert.fail();
      const read = async (path: string): Promise<string> => {
        const { stdout, stderr } = await lab.exec(container, ['/usr/bin/perl', ...podProgram, 'read', path]);
        return (stdout || stderr).trim();
      };
      assert.equal(await read('/run/maps/packets'), '0');
      send('csi1', 7);
      assert.equal(await read('/run/maps/packets'), '7');
      // Without fsGroup, root alone may.
      assert.equal(await read('/run/others/packets'), 'cannot read /run/others/packets: EACCES');
      await lab.removePod(pod);
      for (const volume of ['csi-1', 'csi-2']) await csi.unpublish(volume);
      assert.deepEqual(csi.mounts, []);
    });
  },
);
