import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';

import { errorCodes } from '../errors/errors.ts';
import { libc, viewMemory } from './ffi.ts';
import { openRingBuffer, type RingBufferOptions } from './ring-buffer.ts';
import {
  createMap,
  createRingMap,
  mapType,
  produceInThread,
  RingProducer,
  type ProducerKind,
} from './ring-producer.fixture.ts';
import type { RingBatch } from './ring.ts';

const PAGE_BYTES = libc.sysconf(30);
const RECORD_BYTES = 40;
const PER_PAGE = Math.floor((PAGE_BYTES - 1) / (RECORD_BYTES + 8));

/** A ring buffer map of the kernel with a program that writes to it, and what arrived so far. */
class Ring implements Disposable {
  readonly fd: number;
  readonly sizeBytes: number;
  readonly producer: RingProducer;
  readonly sequences: number[] = [];
  readonly batchCounts: number[] = [];
  readonly errors: unknown[] = [];
  /** Called after each batch. */
  arrived = (): void => {};

  constructor(pages = 64, kind: ProducerKind = 'output', recordSizeBytes = RECORD_BYTES) {
    this.sizeBytes = pages * PAGE_BYTES;
    this.fd = createRingMap(this.sizeBytes);
    this.producer = new RingProducer(this.fd, kind, recordSizeBytes);
  }

  readonly onBatch = (batch: RingBatch): void => {
    this.batchCounts.push(batch.count);
    for (let i = 0; i < batch.count; i++) {
      this.sequences.push(Number(batch.view.getBigUint64(batch.offsets[i] ?? -1, true)));
    }
    this.arrived();
  };

  open(options: Partial<RingBufferOptions> = {}) {
    const { fd: mapFd, sizeBytes, onBatch } = this;
    const onError = (error: unknown) => this.errors.push(error);
    // A test that waits for ever fails by its timeout; then this lets the process end.
    const signal = AbortSignal.timeout(90_000);
    return openRingBuffer({ mapFd, sizeBytes, onBatch, onError, signal, ...options });
  }

  /** Resolves, through the poll path, once `count` records are there in all. */
  async until(count: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.arrived = () => this.sequences.length >= count && resolve();
      this.arrived();
    });
    assert.deepEqual(this.errors, []);
  }

  [Symbol.dispose](): void {
    this.producer[Symbol.dispose]();
    libc.close(this.fd);
  }
}

const mappings = (): number => readFileSync('/proc/self/maps', 'utf8').match(/bpf-map/g)?.length ?? 0;
const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

function missing(): string | false {
  try {
    using _ring = new Ring();
    return false;
  } catch (error) {
    return `no ring buffer and raw tracepoint program here: ${String(error)}`;
  }
}

suite('ring buffer of this kernel', { skip: missing(), timeout: 300_000 }, () => {
  test('records arrive in order, woken by the event loop', async () => {
    using ring = new Ring();
    using buffer = ring.open();
    for (let first = 0; first < 5000; first += 500) {
      assert.equal(ring.producer.run(first, 500), 0);
      await ring.until(first + 500);
    }
    assert.deepEqual(ring.sequences, upTo(5000));
    assert.deepEqual(buffer.totals, { records: 5000, failed: 0, discarded: 0, busyWaits: 0 });
  });

  test('a producer on another core: none lost, none twice, no wake-up missed', async () => {
    using ring = new Ring(16);
    using buffer = ring.open();
    // Single records: the reader catches up, and sleeps, after nearly each of them.
    await Promise.all([produceInThread(ring.producer.fd, 20_000, 1), ring.until(20_000)]);
    assert.deepEqual(ring.sequences, upTo(20_000));
    // Bursts larger than the ring: it is full most of the time.
    ring.sequences.length = 0;
    const [refused] = await Promise.all([
      produceInThread(ring.producer.fd, 1_000_000, 1000),
      ring.until(1_000_000),
    ]);
    assert.ok(refused > 0);
    assert.ok(ring.sequences.every((sequence, i) => sequence === i));
    assert.equal(buffer.totals.records, 20_000 + ring.sequences.length);
  });

  test('a full ring refuses; after reading there is room again', () => {
    using ring = new Ring(1);
    using buffer = ring.open();
    for (let round = 0; round < 3; round++) {
      assert.equal(ring.producer.run(round * PER_PAGE, PER_PAGE + 15), 15);
      assert.equal(buffer.drain(), PER_PAGE);
      assert.equal(buffer.drain(), 0);
    }
    assert.deepEqual(ring.sequences, upTo(3 * PER_PAGE));
  });

  test('splits what is larger than a batch', async () => {
    using ring = new Ring();
    using _buffer = ring.open({ maxBatchRecords: 64 });
    ring.producer.run(0, 200);
    await ring.until(200);
    assert.deepEqual(ring.batchCounts, [64, 64, 64, 8]);
  });

  test('skips and counts discarded records', async () => {
    using ring = new Ring(64, 'discard-odd');
    using buffer = ring.open();
    ring.producer.run(0, 1000);
    await ring.until(500);
    assert.deepEqual(
      ring.sequences,
      upTo(500).map((i) => 2 * i),
    );
    assert.equal(buffer.totals.discarded, 500);
  });

  test('waits by timer for a record that stays busy', async () => {
    using ring = new Ring(64, 'slow');
    using buffer = ring.open();
    let runs = 0;
    // Each run copies memory for some 100 ms between reserve and submit; another one is needed only
    // if this thread got no turn all the while.
    do {
      runs++;
      await Promise.all([produceInThread(ring.producer.fd, 1000, 1000), ring.until(2 * runs)]);
    } while (buffer.totals.busyWaits === 0 && runs < 20);
    assert.ok(buffer.totals.busyWaits > 0);
    assert.ok(
      ring.sequences.length === 2 * runs && ring.sequences.every((sequence, i) => sequence === i % 2),
    );
  });

  test('a callback that throws: reported, counted, not repeated, and reading goes on', async () => {
    using ring = new Ring();
    const boom = new Error('boom');
    let calls = 0;
    using buffer = ring.open({
      maxBatchRecords: 10,
      onBatch: (batch) => {
        if (++calls === 2) throw boom;
        ring.onBatch(batch);
      },
    });
    ring.producer.run(0, 25);
    assert.equal(buffer.drain(), 25);
    assert.deepEqual(ring.errors, [boom]);
    assert.deepEqual(ring.sequences, [...upTo(10), 20, 21, 22, 23, 24]);
    assert.deepEqual(buffer.totals, { records: 25, failed: 10, discarded: 0, busyWaits: 0 });
    ring.errors.pop();
    ring.producer.run(25, 1);
    await ring.until(16);
  });

  test('a corrupt ring is reported once and no longer polled', async () => {
    using ring = new Ring();
    // Whoever may map the ring can do this: move consumer_pos far ahead of the producer.
    const page = BigInt(libc.mmap(null, PAGE_BYTES, 3, 1, ring.fd, 0));
    const consumer = viewMemory(page, PAGE_BYTES);
    new BigUint64Array(consumer)[0] = 2n ** 40n;
    using _buffer = ring.open();
    // Were it still polled, each turn of the loop would report it again.
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    const [error, ...more] = ring.errors;
    assert.deepEqual(more, []);
    assert.equal((error as { code?: string }).code, errorCodes.DECODE);
    assert.match(String(error), /position 1099511627776/);
    consumer.transfer(0);
    libc.munmap(page, PAGE_BYTES);
  });

  test('disposal unmaps, and what was kept of the memory is empty', () => {
    using ring = new Ring();
    const before = mappings();
    let kept: RingBatch | undefined;
    const buffer = ring.open({ onBatch: (batch) => (kept = batch) });
    assert.equal(mappings(), before + 2);
    ring.producer.run(0, 1);
    assert.equal(buffer.drain(), 1);
    assert.ok(kept);
    assert.equal(kept.bytes.length, 2 * ring.sizeBytes);
    for (let twice = 0; twice < 2; twice++) buffer[Symbol.dispose]();
    assert.equal(mappings(), before);
    assert.equal(kept.bytes.length, 0);
    assert.throws(() => kept?.view.getUint8(0), TypeError);
    assert.throws(() => buffer.drain(), { code: errorCodes.DISPOSED });
  });

  test('disposed by its own callback: the batch stays whole until the callback returns', () => {
    using ring = new Ring();
    const before = mappings();
    let last: number | undefined;
    using buffer = ring.open({
      maxBatchRecords: 3,
      onBatch: (batch) => {
        buffer[Symbol.dispose]();
        last = batch.view.getUint8(batch.offsets[2] ?? -1);
      },
    });
    ring.producer.run(0, 9);
    assert.equal(buffer.drain(), 3);
    assert.equal(last, 2);
    assert.equal(mappings(), before);
    // The next one goes on where this one stopped.
    using next = ring.open();
    assert.equal(next.drain(), 6);
    assert.equal(ring.sequences[0], 3);
  });

  test('cannot be drained from its own callback', () => {
    using ring = new Ring();
    using buffer = ring.open({ onBatch: () => void buffer.drain() });
    ring.producer.run(0, 1);
    assert.equal(buffer.drain(), 1);
    assert.equal((ring.errors[0] as { code?: string }).code, errorCodes.INPUT);
  });

  test('an abort closes it; one that came before is refused', () => {
    using ring = new Ring();
    const before = mappings();
    const controller = new AbortController();
    using buffer = ring.open({ signal: controller.signal });
    controller.abort(new Error('stop'));
    assert.equal(mappings(), before);
    assert.throws(() => buffer.drain(), { code: errorCodes.DISPOSED });
    assert.throws(() => ring.open({ signal: controller.signal }), /stop/);
  });

  test('a process ends after disposal and not before', async () => {
    using ring = new Ring();
    const code = `
      import { openRingBuffer } from '${new URL('./ring-buffer.ts', import.meta.url).href}';
      const buffer = openRingBuffer({
        mapFd: 3, sizeBytes: ${ring.sizeBytes}, onError: console.error,
        onBatch: (batch) => { console.log(batch.count); buffer[Symbol.dispose](); },
      });
      console.log('open');`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', code], {
      stdio: ['ignore', 'pipe', 'inherit', ring.fd],
    });
    const exit = once(child, 'exit');
    assert.ok(child.stdout);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    try {
      assert.equal((await lines.next()).value, 'open');
      // Nothing but the ring buffer is left to keep it alive, and it does.
      await setTimeout(50);
      assert.equal(child.exitCode, null);
      ring.producer.run(0, 3);
      assert.equal((await lines.next()).value, '3');
      assert.deepEqual(await exit, [0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('refuses a map that is not a ring buffer of that size', () => {
    using ring = new Ring();
    const before = mappings();
    assert.throws(() => ring.open({ sizeBytes: ring.sizeBytes / 2 }), {
      code: errorCodes.INPUT,
      message: new RegExp(`max_entries ${ring.sizeBytes}`),
    });
    assert.throws(() => ring.open({ sizeBytes: 1000 }), { code: errorCodes.INPUT });
    const array = createMap(mapType.ARRAY, 4, 4, ring.sizeBytes);
    assert.throws(() => ring.open({ mapFd: array }), { code: errorCodes.INPUT, message: /type 2 / });
    libc.close(array);
    assert.throws(() => ring.open({ mapFd: 1_000_000 }), { code: errorCodes.SYSTEM, message: /fd 1000000/ });
    assert.throws(() => ring.open({ maxBatchRecords: 0 }), { code: errorCodes.INPUT });
    assert.equal(mappings(), before);
  });
});
