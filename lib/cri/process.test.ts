import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

import { isInContainer, isSameProcess, processIdentity } from './process.ts';
import { fakeId, FakeRuntime } from './runtime.fixture.ts';

test('a process keeps its identity until it ends, a zombie has none', async () => {
  const child = spawn('sleep', ['60']);
  await once(child, 'spawn');
  const identity = processIdentity(child.pid ?? 0);
  assert.ok(identity !== undefined && identity.startTicks > 0);
  assert.equal(isSameProcess(identity), true);
  assert.equal(isSameProcess({ ...identity, startTicks: identity.startTicks - 1 }), false);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(isSameProcess(identity), false);
});

test('names with parentheses and spaces do not shift the fields', async () => {
  await using runtime = new FakeRuntime();
  runtime.addProcess(7, 1234, '/');
  assert.deepEqual(processIdentity(7, runtime.procPath), { pid: 7, startTicks: 1234 });
  assert.equal(processIdentity(8, runtime.procPath), undefined);
});

test('the cgroup names the container, in each driver', async () => {
  await using runtime = new FakeRuntime();
  const [id, other] = [fakeId(10), fakeId(11)];
  const cgroups = [
    `/kubepods/besteffort/podu/${id}`,
    `/kubepods.slice/kubepods-podu.slice/cri-containerd-${id}.scope`,
    `/kubepods.slice/kubepods-podu.slice/crio-${id}.scope/container`,
    `/../../podu/${id}`,
  ];
  for (const cgroup of cgroups) {
    runtime.addProcess(7, 1, cgroup);
    assert.equal(isInContainer(7, id, runtime.procPath), true, cgroup);
    assert.equal(isInContainer(7, other, runtime.procPath), false, cgroup);
  }
  runtime.addProcess(7, 1, '/');
  assert.equal(isInContainer(7, id, runtime.procPath), undefined);
  assert.equal(isInContainer(8, id, runtime.procPath), undefined);
});
