// Real processes in a mount namespace of their own, as a container has one.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { suite, test } from 'node:test';

import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import { Followed } from './live.fixture.ts';

suite('who it was', { timeout: 300_000 }, () => {
  test('a process of a container is told with its container and pod, also when that is gone by then', async () => {
    const child = spawn('unshare', ['-m', 'sh'], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      const ready = new Promise((resolve) => child.stdout.once('data', resolve));
      child.stdin.write('echo ready\n');
      await ready;
      const containers = new GivenContainers();
      containers.setProcess('web', child.pid ?? 0);
      await using followed = await Followed.start({ containers });
      const expected = {
        relation: 'container',
        container: { id: 'containerd://web', name: 'web' },
        pod: { namespace: 'shop', name: 'web-0' },
        pid: child.pid,
      };
      child.stdin.write(`echo more >> '${followed.cluster.at('hosts')}'\n`);
      const { author } = await followed.line('found', '/etc/hosts');
      assert.deepEqual({ ...author, ...expected }, author);

      // The last that it does, told when it is gone.
      const wrote = new Promise((resolve) => child.stdout.once('data', resolve));
      child.stdin.write(`echo more >> '${followed.cluster.at('passwd')}'; echo done\n`);
      await wrote;
      containers.delete(expected.container.id);
      const last = await followed.line('found', '/etc/passwd');
      assert.deepEqual({ ...last.author, ...expected }, last.author);
    } finally {
      child.kill('SIGKILL');
    }
  });
});
