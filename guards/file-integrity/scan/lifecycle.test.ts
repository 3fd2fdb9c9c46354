/** How a scan ends: by its signal, by its reader, by a thread that dies; and how much it reads. */
import assert from 'node:assert/strict';
import { execFile as execFileWithCallback } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';

import { deepTest, scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { ScanProgress } from '../provider/provider.ts';
import { all, confOf, isEntry, Scene } from './scan.fixture.ts';
import { Scanner } from './scanner.ts';

const execFile = promisify(execFileWithCallback);

function fill(scene: Scene, directories: number, files: number, bytes: number): void {
  for (let d = 0; d < directories; d++) {
    fs.mkdirSync(scene.path(`d${d}`));
    for (let f = 0; f < files; f++) fs.writeFileSync(scene.path(`d${d}/f${f}`), Buffer.alloc(bytes, f));
  }
}

test('the signal ends a scan at any moment, and the next one is whole', async () => {
  await using scene = new Scene();
  fill(scene, 20, 100, 2000);
  const whole = (await scene.scan('/ sha256')).length;
  assert.equal(whole, 2021);
  const reason = new Error('enough');
  const tries = scaled(20, 5);
  for (let i = 0; i < tries; i++) {
    const controller = new AbortController();
    const scanning = scene.scan('/ sha256', controller.signal);
    setTimeout(() => controller.abort(reason), (60 * i) / tries);
    await scanning.then(
      (found) => assert.equal(found.length, whole),
      (error: unknown) => assert.equal(error, reason),
    );
  }
  await assert.rejects(scene.scan('/ sha256', AbortSignal.abort(reason)), reason);
  assert.equal((await scene.scan('/ sha256')).length, whole);
});

test('a look is not kept waiting by scans, nor they by each other', async () => {
  await using scene = new Scene();
  const directories = scaled(40, 15);
  fill(scene, directories, 100, 2000);
  fs.writeFileSync(scene.path('large'), Buffer.alloc(1 << 20));
  const conf = confOf('/ sha256');
  const { signal } = new AbortController();
  const scans = Array.from({ length: 4 }, () => scene.scan('/ sha256'));
  let scansDone = 0;
  for (const scan of scans) void scan.then(() => scansDone++);
  for (let i = 0; i < 5; i++) {
    const [entry] = await all(scene.scanner.look(conf, [{ path: '/large', below: false }], { signal }));
    assert.ok(entry !== undefined && isEntry(entry) && entry.sha256.length === 32);
    if (i === 0) assert.equal(scansDone, 0, 'it did not wait for the scans');
  }
  assert.deepEqual(
    (await Promise.all(scans)).map(({ length }) => length),
    Array.from(scans, () => directories * 101 + 2),
  );
});

test('a large file is released at once', async () => {
  await using scene = new Scene({ readBytesPerSecond: 1e6 });
  fs.writeFileSync(scene.path('large'), Buffer.alloc(2 ** 25));
  const controller = new AbortController();
  const reported: ScanProgress[] = [];
  const [stream = []] = scene.scanner.scan([confOf('/ sha256')], {
    signal: controller.signal,
    onProgress: (progress) => {
      reported.push(progress);
      if (progress.bytes > 0) controller.abort();
    },
    expected: { files: 2, bytes: 2 ** 25 },
  });
  await assert.rejects(all(stream), { name: 'AbortError' });
  assert.deepEqual(
    [reported.at(-1)?.expectedFiles, reported.at(-1)?.expectedBytes],
    [2, 2 ** 25],
    'it cannot have been read',
  );
  fs.rmSync(scene.path('large'));
  assert.equal((await scene.scan('/ sha256')).length, 1);
});

test('a reader that stops ends the scan; unused threads end', async () => {
  await using scene = new Scene();
  fill(scene, 20, 100, 10);
  const { signal } = new AbortController();
  const [stream = []] = scene.scanner.scan([confOf('/ sha256')], { signal });
  for await (const batch of stream) {
    assert.ok(batch.length > 0);
    break;
  }
  await assert.rejects(all(stream), /read once/);
  await until(() => scene.scanner.runningThreads === 0);
  assert.equal((await scene.scan('/ sha256')).length, 2021);
});

deepTest(
  'a thread that dies is an error that names what it looked at, and the next scan is whole',
  async () => {
    await using scene = new Scene({ readBytesPerSecond: 1e6 });
    fill(scene, 5, 10, 100);
    fs.writeFileSync(scene.path('d3/large'), Buffer.alloc(2 ** 25));
    const workers: Worker[] = [];
    const onWorker = (worker: Worker): void => void workers.push(worker);
    process.on('worker', onWorker);
    try {
      const { signal } = new AbortController();
      const [stream = []] = scene.scanner.scan([confOf('/ sha256')], {
        signal,
        onProgress: ({ bytes }) => {
          if (bytes > 10_000) for (const worker of workers) void worker.terminate();
        },
      });
      await assert.rejects(all(stream), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'RAMPART_SYSTEM');
        assert.match(error.message, /a scan thread died at \/d3: it ended with exit code/);
        return true;
      });
    } finally {
      process.off('worker', onWorker);
    }
    fs.rmSync(scene.path('d3/large'));
    assert.equal((await scene.scan('/ sha256')).length, 56);
    // Where it cannot even begin.
    const bad = { ...confOf('/ p'), rules: confOf('/ p').rules.map((rule) => ({ ...rule, pattern: '(' })) };
    const [broken = []] = scene.scanner.scan([bad], { signal: new AbortController().signal });
    await assert.rejects(all(broken), { code: 'RAMPART_SYSTEM' });
    assert.equal((await scene.scan('/ sha256')).length, 56);
  },
);

test('no more is read in a second than may be', async () => {
  await using scene = new Scene();
  fill(scene, 2, 10, 100_000);
  await using scanner = new Scanner({
    root: { directory: scene.root, prefix: '' },
    readBytesPerSecond: 4_000_000,
  });
  const { signal } = new AbortController();
  let last: ScanProgress | undefined;
  const startMs = performance.now();
  const [stream = []] = scanner.scan([confOf('/ sha256')], { signal, onProgress: (one) => (last = one) });
  const found = await all(stream);
  const tookMs = performance.now() - startMs;
  assert.equal(found.filter(isEntry).length, 23);
  assert.deepEqual(last, { files: 23, bytes: 2_000_000 });
  // Each read but the first of each thread waits for those before it.
  assert.ok(tookMs > 1000 * (2_000_000 / 4_000_000) * 0.8, `${tookMs} ms`);
});

test('impossible requests are refused, also after the end', async () => {
  const root = { directory: '/nowhere', prefix: '' };
  assert.throws(() => new Scanner({ root, workers: 0 }), { code: 'RAMPART_INPUT' });
  assert.throws(() => new Scanner({ root, readBytesPerSecond: 0 }), { code: 'RAMPART_INPUT' });
  const scanner = new Scanner({ root });
  await scanner[Symbol.asyncDispose]();
  assert.throws(() => scanner.scan([confOf('/ p')], { signal: new AbortController().signal }), {
    code: 'RAMPART_DISPOSED',
  });
});

deepTest('a scanner that is disposed ends all its scans with an error', async () => {
  await using scene = new Scene();
  fill(scene, 20, 100, 2000);
  const scanner = new Scanner({ root: { directory: scene.root, prefix: '' }, workers: 1 });
  const { signal } = new AbortController();
  const scans = Array.from({ length: 3 }, () => {
    const [stream = []] = scanner.scan([confOf('/ sha256')], { signal });
    return all(stream);
  });
  const ended = Promise.allSettled(scans);
  await until(() => scanner.runningThreads > 0);
  await scanner[Symbol.asyncDispose]();
  for (const result of await ended) assert.equal(result.status, 'rejected');
  assert.equal(scanner.runningThreads, 0);
});

test('a process may end while its threads load their code', async () => {
  await using scene = new Scene();
  const program = join(import.meta.dirname, 'short-scan.fixture.ts');
  // Several at a time, so that threads are slow to load.
  const ends = Array.from({ length: scaled(12, 3) }, async (_, at) => {
    await sleep(Math.floor(at / 6) * 500);
    return await execFile(process.execPath, [program, scene.root, String(at * 12)]);
  });
  for (const { stderr } of await Promise.all(ends)) assert.equal(stderr, '');
});

test('threads end with the last scan, except those with other work', async () => {
  await using scene = new Scene({ idleMs: 60_000 });
  fill(scene, 2, 10, 100);
  fs.writeFileSync(scene.path('large'), '');
  fs.truncateSync(scene.path('large'), 64 << 20);
  const { signal } = new AbortController();
  const [large] = (await scene.scan('/large s+i')).filter(isEntry);
  assert.ok(large !== undefined);
  const [stream = []] = scene.scanner.scan([confOf('/d p+sha256')], { signal, isLast: true });
  // It takes longer than the scan.
  const digest = scene.scanner.digestStart(large, large.sizeBytes, signal);
  assert.equal((await all(stream)).length, 22);
  assert.equal((await digest)?.sha256.length, 32);
  await until('no thread runs', () => scene.scanner.runningThreads === 0);
});
