import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import type { BpfMap } from '../ebpf/map.ts';
import { BpfObject } from '../ebpf/object.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import { FoldLedger } from './fold-ledger.ts';
import { bucket as bucketAt, bucketKey as keyAt } from './layout.ts';
import { sensorSkip } from './sensor.fixture.ts';

const OBJECT_FILE = new URL('./bpf/sensor.bpf.o', import.meta.url);

/** The committed object with its maps in the kernel but no program, so that only this test writes to them. */
class KernelBuckets implements Disposable {
  readonly #object: BpfObject;
  readonly map: BpfMap;

  constructor() {
    this.#object = BpfObject.open(readFileSync(OBJECT_FILE), 'sensor');
    try {
      for (const program of this.#object.programs()) program.autoload = false;
      this.#object.map('ring').maxEntries = 4096;
      this.#object.load();
    } catch (error) {
      this.#object[Symbol.dispose]();
      throw error;
    }
    this.map = this.#object.map('buckets');
  }

  [Symbol.dispose](): void {
    this.#object[Symbol.dispose]();
  }
}

interface Bucket {
  readonly pid: number;
  readonly targetId: number;
  readonly mask: number;
  readonly bornNs: bigint;
  readonly nextNs: bigint;
  readonly folded: number;
}

const example: Bucket = { pid: 10, targetId: 1, mask: 36, bornNs: 100n, nextNs: 1000n, folded: 7 };

function keyOf({ pid, targetId, mask }: Bucket): Uint8Array {
  const key = new DataView(new ArrayBuffer(keyAt.sizeBytes));
  key.setBigUint64(keyAt.processBorn, 5n, true);
  key.setUint32(keyAt.pid, pid, true);
  key.setUint32(keyAt.targetId, targetId, true);
  key.setUint32(keyAt.maskAndVerdict, mask | (1 << 16), true);
  return new Uint8Array(key.buffer);
}

function put(map: BpfMap, bucket: Bucket): void {
  const value = new DataView(new ArrayBuffer(bucketAt.sizeBytes));
  value.setBigUint64(bucketAt.nextNs, bucket.nextNs, true);
  value.setBigUint64(bucketAt.bornNs, bucket.bornNs, true);
  value.setUint32(bucketAt.folded, bucket.folded, true);
  map.set(keyOf(bucket), new Uint8Array(value.buffer));
}

const sinceLast = (ledger: FoldLedger, { bornNs, pid, targetId, mask }: Bucket, total: number): number =>
  ledger.sinceLast(bornNs, pid, targetId, mask, total);

suite('the number of folded accesses in a record', () => {
  test('is the difference from the previous record', () => {
    const ledger = new FoldLedger();
    assert.deepEqual(
      [0, 3, 3, 10, 11].map((total) => sinceLast(ledger, example, total)),
      [0, 3, 0, 7, 1],
    );
  });

  test('is never negative when records of two CPUs come out of order', () => {
    const ledger = new FoldLedger();
    assert.deepEqual(
      [5, 3, 6].map((total) => sinceLast(ledger, example, total)),
      [5, 0, 1],
    );
  });

  test('is counted for each bucket by itself: birth, process, target, mask', () => {
    const ledger = new FoldLedger();
    assert.equal(sinceLast(ledger, example, 5), 5);
    for (const other of [{ bornNs: 101n }, { pid: 11 }, { targetId: 2 }, { mask: 34 }]) {
      assert.equal(sinceLast(ledger, { ...example, ...other }, 5), 5, JSON.stringify(Object.keys(other)));
    }
  });

  test('sums to the greatest total, in whatever order the totals come', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 1 }), (totals) => {
        const ledger = new FoldLedger();
        const reported = totals.map((total) => sinceLast(ledger, example, total));
        assert.ok(reported.every((count) => count >= 0));
        assert.equal(
          reported.reduce((sum, count) => sum + count, 0),
          Math.max(...totals),
        );
      }),
    );
  });
});

suite('a sweep of the buckets in the kernel', { skip: sensorSkip }, () => {
  test('reports accesses that no record has, and removes the bucket', () => {
    using kernel = new KernelBuckets();
    const ledger = new FoldLedger();
    put(kernel.map, example);
    assert.equal(sinceLast(ledger, example, 3), 3);
    assert.deepEqual(ledger.sweep(kernel.map, 3000n, 1000n).found, [
      { targetId: 1, pid: 10, mask: 36, count: 4 },
    ]);
    assert.equal(kernel.map.lookup(keyOf(example)), undefined);
    assert.deepEqual(ledger.sweep(kernel.map, 3000n, 1000n).found, []);
  });

  test('leaves a bucket alone that is in use, or that folded nothing', () => {
    using kernel = new KernelBuckets();
    const ledger = new FoldLedger();
    const idle: Bucket = { ...example, pid: 11, folded: 0 };
    put(kernel.map, example);
    put(kernel.map, idle);
    assert.deepEqual(ledger.sweep(kernel.map, 1999n, 1000n), { found: [], waiting: 1 });
    assert.ok(kernel.map.lookup(keyOf(example)));
    assert.equal(ledger.sweep(kernel.map, 2000n, 1000n).found.length, 1);
    assert.ok(kernel.map.lookup(keyOf(idle)));
  });

  test('a record in flight during the removal of its bucket does not report them again', () => {
    using kernel = new KernelBuckets();
    const ledger = new FoldLedger();
    put(kernel.map, example);
    assert.equal(ledger.sweep(kernel.map, 3000n, 1000n).found.length, 1);
    assert.equal(sinceLast(ledger, example, 7), 0);
  });

  test('removes a completely reported bucket, without a report', () => {
    using kernel = new KernelBuckets();
    const ledger = new FoldLedger();
    put(kernel.map, example);
    assert.equal(sinceLast(ledger, example, 7), 7);
    assert.deepEqual(ledger.sweep(kernel.map, 3000n, 1000n).found, []);
    assert.equal(kernel.map.lookup(keyOf(example)), undefined);
  });

  test('forgets a bucket that the kernel has dropped', () => {
    using kernel = new KernelBuckets();
    const ledger = new FoldLedger();
    assert.equal(sinceLast(ledger, example, 7), 7);
    ledger.sweep(kernel.map, 3000n, 1000n);
    // The same name can only come again when it was forgotten; a bucket's birth is never twice the same.
    assert.equal(sinceLast(ledger, example, 7), 7);
  });

  test('sweeps many at once, each reported exactly once', () => {
    using kernel = new KernelBuckets();
    const ledger = new FoldLedger();
    const COUNT = 2000;
    for (let pid = 1; pid <= COUNT; pid++) put(kernel.map, { ...example, pid, folded: pid });
    const { found, waiting } = ledger.sweep(kernel.map, 3000n, 1000n);
    assert.equal(waiting, 0);
    // The map forgets the least recently used when a CPU's share is full; what is in it is reported.
    assert.equal(new Set(found.map(({ pid }) => pid)).size, found.length);
    assert.ok(found.every(({ pid, count }) => pid === count));
    assert.equal(found.length, COUNT);
    assert.deepEqual([...kernel.map.keys()], []);
  });
});
