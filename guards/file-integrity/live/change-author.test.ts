// Real processes in cgroups and mount namespaces of their own, as containers and services have them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite, test } from 'node:test';

import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { TestCgroup } from '../../../lib/sensor/test-cgroup.fixture.ts';
import { Followed } from './live.fixture.ts';

const id = '0123456789abcdef'.repeat(4);

/** A shell in the cgroup, with mounts of its own. */
class Shell implements AsyncDisposable {
  readonly #child;

  constructor({ path }: TestCgroup) {
    const script = 'echo $$ > "$0/cgroup.procs" && exec unshare -m sh';
    this.#child = spawn('sh', ['-c', script, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async run(command: string): Promise<void> {
    const done = once(this.#child.stdout, 'data');
    this.#child.stdin.write(`${command}\necho done\n`);
    await done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

suite('who it was', { skip: sensorSkip, timeout: 300_000 }, () => {
  test('a process is reported with its container and pod, also if they have ended since', async () => {
    using cgroup = new TestCgroup('kubepods', 'podu', id);
    await using shell = new Shell(cgroup);
    const containers = new GivenContainers();
    const pod = { podName: 'web-0', podNamespace: 'shop', podUid: 'u', podIp: '' };
    containers.set({ id: `containerd://${id}`, name: 'web', ...pod, pid: shell.pid, root: '' });
    await using followed = await Followed.start({ containers });
    const expected = {
      relation: 'container',
      container: { id: `containerd://${id}`, name: 'web' },
      pod: { namespace: 'shop', name: 'web-0' },
      pid: shell.pid,
    };
    await shell.run(`echo more >> '${followed.cluster.at('hosts')}'`);
    const { author } = await followed.line('found', '/etc/hosts');
    assert.deepEqual({ ...author, ...expected }, author);

    // Its last action, reported when it is gone.
    await shell.run(`echo more >> '${followed.cluster.at('passwd')}'`);
    containers.delete(expected.container.id);
    const last = await followed.line('found', '/etc/passwd');
    assert.deepEqual({ ...last.author, ...expected }, last.author);
  });

  test('a service of the node with mounts of its own is not a container', async () => {
    using cgroup = new TestCgroup('x.service');
    await using shell = new Shell(cgroup);
    await using followed = await Followed.start({ containers: new GivenContainers() });
    await shell.run(`echo more >> '${followed.cluster.at('hosts')}'`);
    const { author } = await followed.line('found', '/etc/hosts');
    const unit = `rampart-test-${process.pid}.slice/x.service`;
    assert.deepEqual({ ...author, relation: 'host', unit, mounts: 'own' }, author);
  });
});
