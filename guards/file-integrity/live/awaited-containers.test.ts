// A real process in a mount namespace of its own, as a container has one; of which the runtime tells when the test says so.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { suite, test } from 'node:test';

import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import type { Change } from '../../../lib/sensor/changes/change.ts';
import { AwaitedContainers, mostAwaiting } from './awaited-containers.ts';
import { ChangeAuthors } from './change-author.ts';

const longMs = 600_000;
const hostNamespace = namespaceOf('/proc/1') ?? namespaceOf('/proc/self') ?? 0;

/** A sandbox may close the first process even to root. */
function namespaceOf(processPath: string): number | undefined {
  try {
    return statSync(`${processPath}/ns/mnt`).ino;
  } catch {
    return undefined;
  }
}

async function withContainer(
  waitMs: number,
  use: (parts: {
    readonly runtime: GivenContainers;
    readonly awaited: AwaitedContainers;
    readonly pid: number;
    readonly passed: string[];
    readonly change: (path: string, mountNamespace: number, atMs?: number) => Change;
    readonly namespace: number;
    readonly untilPassed: Promise<unknown>;
  }) => Promise<void>,
): Promise<void> {
  const child = spawn('unshare', ['-m', 'sh', '-c', 'echo ready; read end'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  try {
    await once(child.stdout, 'data');
    const pid = child.pid ?? 0;
    const runtime = new GivenContainers();
    using authors = new ChangeAuthors(runtime);
    const passed: string[] = [];
    const { promise: untilPassed, resolve } = Promise.withResolvers<void>();
    using awaited = new AwaitedContainers(
      authors,
      ({ path }, author) => {
        passed.push(`${path} ${author?.container?.name ?? author?.relation ?? 'nobody'}`);
        resolve();
      },
      waitMs,
    );
    const change = (path: string, mountNamespace: number, atMs = Date.now()): Change => ({
      ...{ path, kinds: ['modified'], atMs, below: false, others: 0 },
      author: {
        ...{ executable: '/bin/sh', arguments: '', cwd: '/', comm: 'sh', uid: 0, gid: 0, pid, ppid: 1 },
        ...{ parentExecutable: '', mountNamespace, cgroupId: 0n, own: false },
      },
    });
    const namespace = namespaceOf(`/proc/${pid}`) ?? 0;
    await use({ runtime, awaited, pid, passed, change, namespace, untilPassed });
  } finally {
    child.kill('SIGKILL');
  }
}

const skip = process.geteuid?.() !== 0 && 'needs root for mounts of its own';

suite('changes by a container of which the runtime has not told yet', { skip, timeout: 300_000 }, () => {
  test('wait for it, and what changed later waits behind them', async () => {
    await withContainer(longMs, async ({ runtime, awaited, pid, passed, change, namespace }) => {
      awaited.add(change('/host', hostNamespace));
      assert.deepEqual(passed, ['/host host']);
      awaited.add(change('/a', namespace));
      awaited.add(change('/a', hostNamespace));
      awaited.add({ path: '/b', kinds: ['closed'], atMs: Date.now(), below: false, others: 0 });
      runtime.setProcess('other', process.pid);
      assert.deepEqual(passed.splice(0), ['/host host']);
      runtime.setProcess('web', pid);
      assert.deepEqual(passed.splice(0), ['/a web', '/a host', '/b nobody']);
      awaited.add(change('/c', namespace));
      assert.deepEqual(passed, ['/c web']);
    });
  });

  test('are unknown where nothing is told in time, and the next of the same is not waited for', async () => {
    await withContainer(1, async ({ awaited, passed, change, namespace, untilPassed }) => {
      awaited.add(change('/a', namespace));
      await untilPassed;
      awaited.add(change('/b', namespace));
      assert.deepEqual(passed, ['/a unknown', '/b unknown']);
    });
  });

  test('are not its own where they were made before it began', async () => {
    await withContainer(longMs, async ({ runtime, awaited, pid, passed, change, namespace }) => {
      awaited.add(change('/a', namespace, Date.now() - 60_000));
      runtime.setProcess('web', pid);
      assert.deepEqual(passed, []);
    });
  });

  test('wait only as many as there is room for, and go on in their order', async () => {
    await withContainer(longMs, async ({ awaited, passed, change, namespace }) => {
      const more = 500;
      for (let i = 0; i < mostAwaiting + more; i++) awaited.add(change(`/${i}`, namespace));
      assert.equal(awaited.size, mostAwaiting);
      assert.deepEqual(
        passed,
        Array.from({ length: more }, (_, i) => `/${i} unknown`),
      );
    });
  });

  test('are forgotten at the end, and nobody listens any more', async () => {
    let runtime: GivenContainers | undefined;
    await withContainer(longMs, async (parts) => {
      ({ runtime } = parts);
      parts.awaited.add(parts.change('/a', parts.namespace));
    });
    assert.equal(runtime?.listeners, 0);
  });
});
