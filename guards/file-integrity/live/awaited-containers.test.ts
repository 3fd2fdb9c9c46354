import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { suite, test } from 'node:test';

import { GivenContainers } from '../../../lib/cri/containers.fixture.ts';
import type { Change } from '../../../lib/sensor/changes/change.ts';
import { AwaitedContainers, maxAwaiting } from './awaited-containers.ts';
import { ChangeAuthors } from './change-author.ts';

const longMs = 600_000;
const hostNamespace = namespaceOf('/proc/1') ?? namespaceOf('/proc/self') ?? 0;
const web = 'a'.repeat(64);
const cgroup = `/kubepods/podu/${web}`;

/** A sandbox may close the first process even to root. */
function namespaceOf(processPath: string): number | undefined {
  try {
    return statSync(`${processPath}/ns/mnt`).ino;
  } catch {
    return undefined;
  }
}

function change(path: string, by = cgroup, mountNamespace = 7): Change {
  const author = {
    ...{ executable: '/bin/sh', arguments: '', cwd: '/', comm: 'sh', uid: 0, gid: 0, pid: 41, ppid: 1 },
    ...{ parentExecutable: '', mountNamespace, cgroupId: 0n, cgroup: by, own: false },
  };
  return {
    ...{ path, kinds: ['modified'], atMs: Date.now(), below: false, others: 0, otherAuthors: [] },
    ...{ author, contentAuthor: author },
  };
}

class Bench implements Disposable {
  readonly runtime = new GivenContainers();
  readonly passed: string[] = [];
  readonly awaited: AwaitedContainers;
  readonly untilPassed: Promise<unknown>;
  readonly #authors = new ChangeAuthors(this.runtime);

  constructor(waitMs: number) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.untilPassed = promise;
    this.awaited = new AwaitedContainers(
      this.#authors,
      ({ path }, { author }) => {
        this.passed.push(`${path} ${(author?.container?.name ?? '') || (author?.relation ?? 'nobody')}`);
        resolve();
      },
      waitMs,
    );
  }

  setContainer(name: string, id: string): void {
    const pod = { podName: `${name}-0`, podNamespace: 'shop', podUid: 'u', podIp: '' };
    this.runtime.set({ id: `containerd://${id}`, name, ...pod, pid: 0, root: '' });
  }

  [Symbol.dispose](): void {
    this.awaited[Symbol.dispose]();
    this.#authors[Symbol.dispose]();
  }
}

suite('changes by a container that the runtime has not reported yet', () => {
  test('wait for it, and what changed later waits behind them', () => {
    using bench = new Bench(longMs);
    const { awaited, passed } = bench;
    awaited.add(change('/host', '/', hostNamespace));
    assert.deepEqual(passed, ['/host host']);
    awaited.add(change('/a'));
    awaited.add(change('/a', '/', hostNamespace));
    awaited.add({
      path: '/b',
      kinds: ['closed'],
      atMs: Date.now(),
      below: false,
      others: 0,
      otherAuthors: [],
    });
    bench.setContainer('other', 'b'.repeat(64));
    assert.deepEqual(passed.splice(0), ['/host host']);
    bench.setContainer('web', web);
    assert.deepEqual(passed.splice(0), ['/a web', '/a host', '/b nobody']);
    awaited.add(change('/c'));
    assert.deepEqual(passed, ['/c web']);
  });

  test('have an unknown author if nothing comes in time, and the next do not wait', async () => {
    using bench = new Bench(1);
    bench.awaited.add(change('/a'));
    await bench.untilPassed;
    bench.awaited.add(change('/b'));
    assert.deepEqual(bench.passed, ['/a unknown', '/b unknown']);
  });

  test('are not waited for where a service of the node has mounts of its own', () => {
    using bench = new Bench(longMs);
    bench.awaited.add(change('/a', '/system.slice/x.service'));
    assert.deepEqual(bench.passed, ['/a host']);
  });

  test('wait only as many as there is room for, and go on in their order', () => {
    using bench = new Bench(longMs);
    const more = 500;
    for (let i = 0; i < maxAwaiting + more; i++) bench.awaited.add(change(`/${i}`));
    assert.equal(bench.awaited.size, maxAwaiting);
    assert.deepEqual(
      bench.passed,
      Array.from({ length: more }, (_, i) => `/${i} unknown`),
    );
  });

  test('are forgotten at the end, and listening stops', () => {
    const bench = new Bench(longMs);
    bench.awaited.add(change('/a'));
    bench[Symbol.dispose]();
    assert.equal(bench.runtime.listeners, 0);
    assert.deepEqual(bench.passed, []);
  });
});
