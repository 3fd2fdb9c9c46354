import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { assertReached, scaled } from '../testing/depth.fixture.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import * as fc from '../testing/fast-check.fixture.ts';
import { DISCARD, ModelProducer, spanOf, u64, type Reservation } from './ring-model.fixture.ts';
import { RingReader, type RingBatch, type RingMemory, type RingProgress } from './ring.ts';

const bytesOf = (batch: RingBatch): Uint8Array[] =>
  Array.from({ length: batch.count }, (_, i) => {
    const offset = batch.offsets[i] ?? -1;
    return batch.bytes.slice(offset, offset + (batch.lengths[i] ?? -1));
  });

const isDecodeError = (error: unknown): error is RampartError =>
  error instanceof RampartError && error.code === errorCodes.DECODE;

/** Starts where 32-bit, double and 64-bit arithmetic break, a few records before and after. */
const startPosition = fc
  .tuple(
    fc.constantFrom(0n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n),
    fc.integer({ min: -60, max: 2 }),
  )
  .map(([base, eighths]) => u64(base + 8n * BigInt(eighths)));

const sizeBytes = fc.constantFrom(16, 64, 256, 1024);

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('reserve' as const),
      payload: fc.uint8Array({ maxLength: 90 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), pick: fc.nat(), discard: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('read' as const), throws: fc.boolean() }) },
);

suite('ring reader against a model of the kernel producer', () => {
  test('delivers each committed record once, in order, in place, and frees exactly its space', () => {
    let wraps = 0;
    let refused = 0;
    let delivered = 0;
    const property = fc.property(
      sizeBytes,
      startPosition,
      fc.integer({ min: 1, max: 5 }),
      fc.array(step, { maxLength: 120, size: 'max' }),
      (size, start, maxBatchRecords, steps) => {
        const ring = new ModelProducer(size, start);
        const reader = new RingReader(ring, { maxBatchRecords });
        /** Reserved and not freed yet, oldest first. */
        let inRing: Reservation[] = [];
        for (const it of steps) {
          if (it.kind === 'reserve') {
            const used = inRing.reduce((sum, record) => sum + spanOf(record.payload.length), 0);
            const record = ring.reserve(it.payload);
            // Space accounting: refused exactly when the records not yet freed leave no room.
            assert.equal(record !== undefined, used + spanOf(it.payload.length) < size);
            if (record === undefined) refused++;
            else inRing.push(record);
          } else if (it.kind === 'settle') {
            const busy = inRing.filter((record) => record.state === 'busy');
            const record = busy[it.pick % busy.length];
            if (record !== undefined) ring.settle(record, it.discard ? 'discarded' : 'committed');
          } else {
            const batches: Uint8Array[][] = [];
            const boom = new Error('boom');
            const before = ring.consumerPosition;
            let progress: RingProgress | undefined;
            try {
              progress = reader.read((batch) => {
                assert.equal(ring.consumerPosition, before, 'freed while still in use');
                batches.push(bytesOf(batch));
                if (it.throws) throw boom;
              });
            } catch (error) {
              assert.equal(error, boom);
            }
            assert.equal(progress === undefined, it.throws && batches.length > 0);
            const freedBytes = Number(u64(ring.consumerPosition - before));
            const firstBusy = inRing.findIndex((record) => record.state === 'busy');
            const readable = firstBusy === -1 ? inRing : inRing.slice(0, firstBusy);
            const freed = takeSpan(readable, freedBytes);
            if (progress !== undefined) {
              assert.equal(progress.freedBytes, freedBytes);
              assert.equal(progress.records, batches.flat().length);
              assert.equal(progress.discarded, freed.filter((r) => r.state === 'discarded').length);
              assert.equal(progress.busy, !progress.more && firstBusy !== -1);
              assert.ok(progress.more ? freed.length < inRing.length : freed.length === readable.length);
              const full = progress.records === maxBatchRecords || freedBytes >= size / 4;
              assert.ok(full || !progress.more);
            }
            // Space comes back at the latest after the record that fills a quarter of the ring.
            const last = freed.at(-1);
            assert.ok(last === undefined || freedBytes - spanOf(last.payload.length) < size / 4);
            assert.ok(batches.length <= 1);
            assert.ok(batches.flat().length <= maxBatchRecords);
            assert.deepEqual(
              batches.flat(),
              freed.filter((record) => record.state === 'committed').map((record) => record.payload),
            );
            for (const { position, payload } of freed) {
              const offset = Number(position % BigInt(size));
              if (offset + spanOf(payload.length) > size) wraps++;
            }
            delivered += batches.flat().length;
            inRing = inRing.slice(freed.length);
          }
        }
      },
    );
    fc.assert(property, { numRuns: 1000 });
    // The cases this test is about did occur.
    assertReached(
      wraps > scaled(100) && refused > scaled(100) && delivered > scaled(1000),
      `${wraps} ${refused} ${delivered}`,
    );
  });

  test('any bytes: ends, delivers only from inside the ring, and names the position of the fault', () => {
    let faults = 0;
    const property = fc.property(
      sizeBytes,
      startPosition,
      fc.uint8Array({ minLength: 1024, maxLength: 1024 }),
      fc.oneof(
        fc.integer({ min: 0, max: 160 }).map((eighths) => BigInt(eighths) * 8n),
        fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      ),
      fc.boolean(),
      (size, start, bytes, ahead, shortLengths) => {
        const ring = new ModelProducer(size, start);
        for (let at = 0; at < size; at += 8) {
          // Mostly-valid rings too: otherwise nearly each first header is busy or too long.
          const header = new DataView(bytes.buffer).getUint32(at, true);
          ring.setHeader(BigInt(at), shortLengths ? header & (DISCARD | 31) : header);
        }
        ring.producerPosition = u64(start + ahead);
        const reader = new RingReader(ring);
        let freed = 0;
        for (;;) {
          let progress;
          try {
            progress = reader.read((batch) => {
              for (let i = 0; i < batch.count; i++) {
                const offset = batch.offsets[i] ?? -1;
                assert.ok(offset >= 8 && offset % 8 === 0);
                assert.ok(offset + (batch.lengths[i] ?? -1) <= batch.bytes.length);
              }
            });
          } catch (error) {
            assert.ok(isDecodeError(error), String(error));
            assert.match(error.message, new RegExp(`position ${ring.consumerPosition}:`));
            faults++;
            break;
          }
          freed += progress.freedBytes;
          assert.ok(freed <= size && BigInt(freed) <= ahead);
          if (progress.freedBytes === 0) break;
        }
        assert.equal(ring.consumerPosition, u64(start + BigInt(freed)));
      },
    );
    fc.assert(property, { numRuns: 2000 });
    assertReached(faults > scaled(100), `${faults} faults`);
  });
});

/** The records at the front that span exactly `bytes`. */
function takeSpan(records: readonly Reservation[], bytes: number): Reservation[] {
  const taken: Reservation[] = [];
  let left = bytes;
  for (const record of records) {
    if (left <= 0) break;
    taken.push(record);
    left -= spanOf(record.payload.length);
  }
  assert.equal(left, 0, 'consumer_pos is not at the start of a record');
  return taken;
}

suite('ring reader', () => {
  test('delivers the good records before a corrupt one, then fails at each call', () => {
    const ring = new ModelProducer(256, 2n ** 53n);
    const good = ring.reserve(new Uint8Array([1, 2, 3]));
    const bad = ring.reserve(new Uint8Array(8));
    assert.ok(good && bad);
    ring.settle(good, 'committed');
    ring.setHeader(bad.position, 4000);
    const reader = new RingReader(ring);
    const seen: Uint8Array[] = [];
    assert.equal(reader.read((batch) => seen.push(...bytesOf(batch))).more, true);
    assert.deepEqual(seen, [good.payload]);
    for (let i = 0; i < 2; i++) {
      assert.throws(
        () => reader.read(() => assert.fail('delivered')),
        (error) => isDecodeError(error) && /position 9007199254741008: a record of 4000/.test(error.message),
      );
    }
    assert.equal(ring.consumerPosition, bad.position);
  });

  test('positions that are not multiples of 8 are a fault', () => {
    const ring = new ModelProducer(256, 16n);
    const record = ring.reserve(new Uint8Array(8));
    assert.ok(record);
    ring.settle(record, 'committed');
    const reader = new RingReader(ring);
    ring.producerPosition += 4n;
    assert.throws(() => reader.read(() => assert.fail('delivered')), isDecodeError);
    ring.consumerPosition += 4n;
    assert.throws(() => new RingReader(ring), isDecodeError);
  });

  test('refuses to be read from its own callback, and goes on after it', () => {
    const ring = new ModelProducer(256, 0n);
    const reader = new RingReader(ring);
    for (let round = 0; round < 2; round++) {
      const record = ring.reserve(new Uint8Array(8));
      assert.ok(record);
      ring.settle(record, 'committed');
      const nested = () => reader.read(() => reader.read(() => assert.fail('nested')));
      assert.throws(nested, { code: errorCodes.INPUT });
      assert.equal(ring.consumerPosition, ring.producerPosition);
    }
  });

  test('a ring full of discarded records is freed without a call', () => {
    const ring = new ModelProducer(64, 2n ** 64n - 8n);
    const reader = new RingReader(ring);
    let discarded = 0;
    for (let record; (record = ring.reserve(new Uint8Array(0)));) ring.settle(record, 'discarded');
    for (let more = true; more;) {
      const progress = reader.read(() => assert.fail('delivered'));
      discarded += progress.discarded;
      more = progress.more;
    }
    assert.equal(discarded, 7);
    assert.equal(ring.consumerPosition, 48n);
  });

  for (const [lengthBytes, mappedBytes, fits] of [
    [16, 72, true],
    [24, 72, false],
    [8, 64, true],
    [16, 64, false],
  ] as const) {
    test(`${lengthBytes} bytes from 56 on, in a ring of 64 of which ${mappedBytes} are mapped`, () => {
      const ring = new ModelProducer(64, 32n);
      const { consumer, producer } = ring;
      for (const length of [8, lengthBytes]) {
        const record = ring.reserve(new Uint8Array(length));
        assert.ok(record);
        ring.settle(record, 'committed');
      }
      const data = ring.data.slice(0, mappedBytes);
      const reader = new RingReader({ consumer, producer, data, sizeBytes: ring.sizeBytes });
      const lengths: number[] = [];
      const read = () => reader.read((batch) => lengths.push(...batch.lengths.subarray(0, batch.count)));
      assert.equal(read().more, true);
      if (fits) read();
      else assert.throws(read, { code: errorCodes.DECODE });
      assert.deepEqual(lengths, fits ? [8, lengthBytes] : [8]);
    });
  }

  for (const [name, memory, options] of [
    ['a size that is no power of two', { ...plain(96) }, {}],
    ['no size', { ...plain(0) }, {}],
    ['part of a data area', { ...plain(64), data: new ArrayBuffer(56) }, {}],
    ['a data area mapped more than twice', { ...plain(64), data: new ArrayBuffer(136) }, {}],
    ['batches of no records', plain(64), { maxBatchRecords: 0 }],
    ['batches of part of a record', plain(64), { maxBatchRecords: 1.5 }],
  ] as const) {
    test(`refuses ${name}`, () => {
      assert.throws(() => new RingReader(memory, options), { code: errorCodes.INPUT });
    });
  }
});

function plain(size: number): RingMemory {
  return {
    consumer: new ArrayBuffer(8),
    producer: new ArrayBuffer(8),
    data: new ArrayBuffer(2 * size),
    sizeBytes: size,
  };
}
