import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { createMap, Descriptor } from '../../lib/ebpf/bpf-call.ts';
import { Traces } from './traces.ts';

const skip = process.geteuid?.() === 0 ? false : 'needs root';
const BPF_MAP_TYPE_RINGBUF = 27;

suite('remains of the demo', { skip }, () => {
  test('a directory, a process, its namespace, and another process in that', async () => {
    const traces = new Traces();
    const directory = mkdtempSync(join(tmpdir(), 'rampart-traces-'));
    traces.addDirectory(directory);
    const first = spawn('unshare', ['--net', 'sh', '-c', 'echo ready; exec sleep 1000'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(first.stdout, 'readable');
    const pid = first.pid ?? 0;
    const namespace = readlinkSync(`/proc/${pid}/ns/net`);
    const script = ['--target', String(pid), '--net', 'sh', '-c', 'echo ready; exec sleep 1000'];
    const second = spawn('nsenter', script, { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await once(second.stdout, 'readable');
      traces.addProcess(pid, 'first');
      traces.look();
      const left = await traces.remains(0);
      assert.equal(left[0], `process ${pid} (first)`);
      assert.equal(left[1], directory);
      const residents = new Set(left.slice(2).map((line) => line.split(' (')[0]));
      assert.deepEqual(residents, new Set([pid, second.pid].map((who) => `${namespace} of process ${who}`)));
      const ended = once(first, 'exit');
      first.kill('SIGKILL');
      await ended;
      rmSync(directory, { recursive: true });
      const [other, ...none] = await traces.remains(0);
      assert.ok(other?.startsWith(`${namespace} of process ${second.pid} (`), other);
      assert.deepEqual(none, []);
    } finally {
      for (const child of [first, second]) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
      }
      rmSync(directory, { recursive: true, force: true });
    }
    assert.deepEqual(await traces.remains(), []);
  });

  test('an eBPF map that another process keeps', async () => {
    const map = createMap(BPF_MAP_TYPE_RINGBUF, 4096);
    assert.ok(map instanceof Descriptor);
    const traces = new Traces();
    traces.addProcess(process.pid, 'this');
    const left = async (patienceMs?: number) =>
      (await traces.remains(patienceMs)).filter((line) => line.startsWith('eBPF'));
    try {
      assert.match((await left(0)).join(), /^eBPF map \d+$/);
    } finally {
      map[Symbol.dispose]();
    }
    // The process itself stays, so it waits as long as it may.
    assert.deepEqual(await left(1_000), []);
  });
});
