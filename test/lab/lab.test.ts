import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';

import { sampled } from '../../lib/testing/depth.fixture.ts';
import { imageArchive } from './image.ts';
import { Lab, startLab } from './lab.ts';
import { labObstacle } from './obstacle.ts';

const skip = labObstacle() ?? false;
const timeout = 300_000;

/** The lab's remains on the machine, in words. */
function remainsOf(directory: string): string[] {
  const name = basename(directory);
  const remains = existsSync(directory) ? [directory] : [];
  remains.push(...globSync(`/sys/fs/cgroup/{,*/}${name}`));
  for (const pid of globSync('/proc/[0-9]*')) {
    try {
      const text = ['cgroup', 'mountinfo', 'cmdline'].map((file) => readFileSync(`${pid}/${file}`, 'utf8'));
      if (text.join('').includes(name)) remains.push(`${pid} ${text[2]?.replaceAll('\0', ' ')}`);
    } catch {
      // It has ended.
    }
  }
  return remains;
}

/** A process that starts a lab with a pod in it, and then waits to be killed. */
async function otherProcess(): Promise<{ readonly child: ChildProcess; readonly directory: string }> {
  const program = `
    const { startLab } = await import(${JSON.stringify(import.meta.resolve('./lab.ts'))});
    const lab = await startLab();
    await lab.runPod({ name: 'orphan' });
    console.log(lab.directory);
    setInterval(() => undefined, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [directory] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { child, directory };
}

suite('the lab', { skip, timeout }, () => {
  test('pods in a network, mounts and directories of its own; nothing stays', async () => {
    const host = mkdtempSync(join(tmpdir(), 'rampart-volume-'));
    let directory = '';
    try {
      writeFileSync(join(host, 'file'), 'from outside');
      await using lab = await startLab({ subnet: '10.99.0.0/24', firstIp: '10.99.0.7' });
      directory = lab.directory;
      assert.match(lab.snapshotter, /^(overlayfs|native)$/);
      const pod = await lab.runPod({
        name: 'one',
        containers: [{ name: 'c', mounts: [{ containerPath: '/volume', hostPath: host, readonly: true }] }],
      });
      assert.equal(pod.ip, '10.99.0.7');
      const container = pod.containers.get('c') ?? assert.fail();
      const { stdout } = await lab.exec(container, ['cat', '/volume/file']);
      assert.equal(stdout, 'from outside');
      assert.notEqual((await lab.exec(container, ['touch', '/volume/other'])).exitCode, 0);
      // Two pods reach each other.
      const second = await lab.runPod({ name: 'two' });
      const answer = await lab.exec(container, ['wget', '-qO-', `http://${second.ip}/`]);
      assert.match(answer.stdout, /Welcome/);
      // An init container that fails stops its pod.
      const initContainers = [{ name: 'bad', command: ['sh', '-c', 'exit 5'] }];
      await assert.rejects(lab.runPod({ name: 'p', initContainers }), /init container bad has ended with 5/);
      assert.ok(remainsOf(directory).length > 3);
      // Others on this machine have interfaces and mounts that come and go, too.
      assert.ok(!Object.keys(networkInterfaces()).includes('lab0'));
      assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(directory));
    } finally {
      rmSync(host, { recursive: true });
    }
    assert.deepEqual(remainsOf(directory), []);
  });

  test('two labs at once; what a killed process left is swept, a lab in use is not', async () => {
    const { child, directory } = await otherProcess();
    try {
      await using lab = await startLab();
      const pod = await lab.runPod({ name: 'mine' });
      assert.ok(existsSync(directory));
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
      assert.ok(remainsOf(directory).length > 0);
      // Another test may start a lab at this moment and sweep it before.
      await Lab.sweep();
      assert.deepEqual(remainsOf(directory), []);
      assert.equal((await lab.exec(pod.containers.get('nginx') ?? assert.fail(), ['true'])).exitCode, 0);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('a start that is aborted leaves nothing, at whatever moment', async () => {
    const labs = () => globSync(join(tmpdir(), 'rampart-lab-*', 'owner.json')).filter(isMine);
    // A start takes some 500 ms: before the namespaces are there, while containerd starts, and while it answers.
    for (const ms of sampled([1, 20, 50, 80, 110, 140, 170, 200, 250, 300], 1)) {
      const abort = new AbortController();
      const started = startLab({ signal: abort.signal });
      const reason = new Error('enough');
      const timer = setInterval(() => {
        if (labs().length === 0) return;
        clearInterval(timer);
        setTimeout(() => abort.abort(reason), ms);
      }, 1);
      try {
        await (await started)[Symbol.asyncDispose]();
      } catch (error) {
        assert.equal(error, reason, `aborted after ${ms} ms`);
      } finally {
        clearInterval(timer);
      }
      assert.deepEqual(labs(), []);
    }
  });

  test('the image is the same bytes each time', () => {
    assert.deepEqual(imageArchive(), imageArchive());
  });
});

function isMine(owner: string): boolean {
  try {
    return (JSON.parse(readFileSync(owner, 'utf8')) as { pid: number }).pid === process.pid;
  } catch {
    return false;
  }
}
