import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { createMap, type Descriptor } from '../../lib/ebpf/bpf-call.ts';
import { Running } from '../../lib/testing/running.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Traces } from './traces.ts';

const skip = process.geteuid?.() === 0 ? false : 'needs root';
const BPF_MAP_TYPE_RINGBUF = 27;
const waits = ['sh', '-c', 'echo ready; exec sleep 1000'] as const;

suite('remains of the demo', { skip }, () => {
  test('a directory, a process, and another process in its namespace', async () => {
    const traces = new Traces();
    using directory = new TemporaryDirectory();
    traces.addDirectory(directory.path);
    await using first = new Running(['unshare', '--net', ...waits]);
    await first.until(() => first.lines.length > 0);
    await using second = new Running(['nsenter', '--target', String(first.pid), '--net', ...waits]);
    await second.until(() => second.lines.length > 0);
    traces.addProcess(first.pid, 'first');
    traces.look();
    assert.match(traces.description, /^2 processes \(first, sleep\), 1 namespace, 1 directory$/);
    const left = async (): Promise<string> => (await traces.remains(0)).join();
    const [one, other] = [`process ${first.pid} (first)`, `process ${second.pid} (sleep)`];
    assert.equal(await left(), `${one},${other},${directory.path}`);
    await first.stop('SIGKILL');
    directory[Symbol.dispose]();
    assert.equal(await left(), other);
    await second.stop('SIGKILL');
    assert.equal(await left(), '');
  });

  test('an eBPF map that another process keeps', async () => {
    const mapsOf = async (traces: Traces): Promise<string[]> =>
      (await traces.remains(0)).filter((line) => line.startsWith('eBPF'));
    const earlier = new Traces();
    earlier.addProcess(process.pid, 'this');
    // Tests before this one, in the same process, may have maps.
    const others = await mapsOf(earlier);
    using map = createMap(BPF_MAP_TYPE_RINGBUF, 4096) as Descriptor;
    const traces = new Traces();
    traces.addProcess(process.pid, 'this');
    const left = async (): Promise<string> =>
      (await mapsOf(traces)).filter((line) => !others.includes(line)).join();
    assert.match(await left(), /^eBPF map \d+$/);
    map[Symbol.dispose]();
    // The process itself stays, so `remains` would wait as long as it may.
    for (let tries = 0; (await left()) !== '' && tries < 100; tries++)
      await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(await left(), '');
  });
});
