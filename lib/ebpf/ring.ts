/**
 * The reader of a BPF ring buffer: pure, over memory mapped by its caller. No system call and no FFI call
 * happens here; `ring-buffer.ts` maps a real ring and wakes this reader.
 *
 * The protocol is that of kernel/bpf/ringbuf.c. Two positions, u64 and ever increasing (modulo 2^64), bound
 * the content of the ring: the kernel moves `producer_pos`, we move `consumer_pos`. Each record starts at a
 * multiple of 8 with a header of 8 bytes: u32 length with a BUSY bit (reserved, not committed yet) and a
 * DISCARD bit, then u32 page offset, which is of no use to a reader. Memory order: the kernel commits by xchg
 * on the header and only then looks at `consumer_pos` to decide about a wake-up, so we store `consumer_pos`
 * sequentially consistent (Atomics) before we look at headers or `producer_pos` again. One of the two always
 * sees the other: no lost wake-up.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';

const HEADER_SIZE_BYTES = 8;
/** BPF_RINGBUF_DISCARD_BIT (include/uapi/linux/bpf.h). BPF_RINGBUF_BUSY_BIT is the sign of an i32. */
const DISCARD_BIT = 1 << 30;
const LENGTH_MASK = DISCARD_BIT - 1;

/** Offsets stay exact in Uint32Array and in 32-bit integer arithmetic up to this size: 1 GiB. */
const maxRingSizeBytes: number = 2 ** 30;

/** The three mapped parts of a ring. 64-bit positions, little-endian: x86_64 and arm64. */
export interface RingMemory {
  /** One page, writable: `consumer_pos` at its start. */
  readonly consumer: ArrayBuffer;
  /** One page, read only: `producer_pos` at its start. */
  readonly producer: ArrayBuffer;
  /**
   * The data area, followed by its beginning mapped once more, so that a record that wraps around is contiguous.
   * This second mapping is at least as long as the longest record can reach, and at most as long as the area.
   */
  readonly data: ArrayBuffer;
  /** Size of the data area: a power of two. */
  readonly sizeBytes: number;
}

/**
 * Committed records, in the order of their reservation, in place: record `i` is
 * `bytes.subarray(offsets[i], offsets[i] + lengths[i])`. Valid only during the callback; the
 * kernel overwrites the memory afterwards, and the arrays are used again for the next batch. Copy
 * what must stay. Offsets are multiples of 8, so fields keep their C alignment.
 */
export interface RingBatch {
  /** How many entries of `offsets` and `lengths` are valid. At least 1. */
  readonly count: number;
  readonly offsets: Uint32Array;
  readonly lengths: Uint32Array;
  /** All of {@link RingMemory.data}, as bytes and as a DataView over the same memory. */
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** The result of one {@link RingReader.read}. */
export interface RingProgress {
  /** Records handed to the callback. */
  readonly records: number;
  /** Records that the program discarded; they take space but are not delivered. */
  readonly discarded: number;
  /** Bytes given back to the producer, headers and padding included. */
  readonly freedBytes: number;
  /** Reading stopped before a record that a program has reserved and not committed yet. */
  readonly busy: boolean;
  /** Reading stopped because the batch was full, and did not look at the next records: call again. */
  readonly more: boolean;
}

interface RingReaderOptions {
  /** Upper bound of {@link RingBatch.count}. Default 512. */
  readonly maxBatchRecords?: number;
}

/** Reads one ring. A ring has one consumer: make one reader per ring, in one process. */
export class RingReader {
  readonly #consumerPosition: BigUint64Array;
  readonly #producerPosition: BigUint64Array;
  readonly #headers: Int32Array;
  readonly #sizeBytes: number;
  /** A batch ends once it spans this much, see {@link read}. */
  readonly #maxBatchBytes: number;
  readonly #maxBatchRecords: number;
  readonly #batch: { -readonly [K in keyof RingBatch]: RingBatch[K] };
  #position: bigint;
  #reading = false;

  /**
   * Continues at the `consumer_pos` found in the memory.
   *
   * @throws {RampartError} `INPUT` when the sizes are not those of a ring or `maxBatchRecords` is not a
   *   positive integer; `DECODE` when `consumer_pos` is not a multiple of 8.
   */
  constructor(memory: RingMemory, options: RingReaderOptions = {}) {
    const { sizeBytes } = memory;
    const maxBatchRecords = options.maxBatchRecords ?? 512;
    checkRingSize(sizeBytes);
    if (memory.data.byteLength < sizeBytes || memory.data.byteLength > 2 * sizeBytes) {
      throw new RampartError(errorCodes.INPUT, {
        what: `the data area of a ring of ${sizeBytes} bytes has ${memory.data.byteLength} bytes`,
        why: 'it must map the ring once or twice in a row',
      });
    }
    if (!Number.isSafeInteger(maxBatchRecords) || maxBatchRecords < 1) {
      throw new RampartError(errorCodes.INPUT, {
        what: `maxBatchRecords is ${maxBatchRecords}`,
        why: 'a batch holds at least one record',
      });
    }
    // A ring cannot hold more records than headers.
    const slots = Math.min(maxBatchRecords, sizeBytes / HEADER_SIZE_BYTES);
    this.#consumerPosition = new BigUint64Array(memory.consumer, 0, 1);
    this.#producerPosition = new BigUint64Array(memory.producer, 0, 1);
    this.#headers = new Int32Array(memory.data, 0, sizeBytes / 4);
    this.#sizeBytes = sizeBytes;
    this.#maxBatchBytes = sizeBytes / 4;
    this.#maxBatchRecords = slots;
    this.#batch = {
      count: 0,
      offsets: new Uint32Array(slots),
      lengths: new Uint32Array(slots),
      bytes: new Uint8Array(memory.data),
      view: new DataView(memory.data),
    };
    this.#position = Atomics.load(this.#consumerPosition, 0);
    if (this.#position & 7n) this.#corrupt(this.#position, 'consumer_pos is not a multiple of 8');
  }

  /**
   * Reads committed records until the ring is empty, a record is busy or the batch is full, and calls
   * `onBatch` once with them, if there are any. Then it frees their space.
   *
   * A batch is full at `maxBatchRecords`, or when it spans a quarter of the ring: so during a long drain the
   * producer gets space back in steps, and at no time waits for more than a quarter (or one record larger
   * than that) to be handled. Space is freed per batch, not per record, because the kernel wakes the reader
   * only for the record at `consumer_pos`: a reader that moves it record by record is woken for nearly every
   * record under load.
   *
   * When `onBatch` throws, the space of its batch is freed all the same and the error passes to the caller:
   * the batch counts as delivered and is not delivered again (a record that cannot be handled must not block
   * the ring for good, and those before it must not be seen twice). Whoever catches the error accounts for
   * the batch.
   *
   * @throws {RampartError} `DECODE` when the memory is not a valid ring; it names the position. Nothing
   *   is freed then, good records before it were delivered by earlier calls, and each further call
   *   throws the same. `INPUT` when called from inside its own callback.
   */
  read(onBatch: (batch: RingBatch) => void): RingProgress {
    if (this.#reading) {
      throw new RampartError(errorCodes.INPUT, {
        what: 'cannot read the ring buffer',
        why: 'the callback of a batch requested the next batch',
        next: 'Return from the callback first',
      });
    }
    const start = this.#position;
    let left = this.#available(start);
    const headers = this.#headers;
    const { offsets, lengths } = this.#batch;
    const maxRecords = this.#maxBatchRecords;
    const maxBytes = this.#maxBatchBytes;
    const offsetMask = this.#sizeBytes - 1;
    const mappedBytes = this.#batch.bytes.byteLength;
    let offset = Number(start & BigInt(offsetMask));
    let records = 0;
    let discarded = 0;
    let freedBytes = 0;
    let busy = false;
    let more = false;

    while (left > 0) {
      if (records === maxRecords || freedBytes >= maxBytes) {
        more = true;
        break;
      }
      // Acquires: what the producer wrote before it cleared the busy bit is visible after this.
      const header = Atomics.load(headers, offset >>> 2);
      if (header < 0) {
        busy = true;
        break;
      }
      const length = header & LENGTH_MASK;
      const spanBytes = (length + HEADER_SIZE_BYTES + 7) & ~7;
      if (spanBytes > left) {
        if (freedBytes === 0) {
          this.#corrupt(start, `a record of ${length} bytes where ${left} bytes are produced`);
        }
        // First deliver the good records; the next call meets this header at its start.
        more = true;
        break;
      }
      if (header & DISCARD_BIT) {
        discarded++;
      } else {
        if (offset + HEADER_SIZE_BYTES + length > mappedBytes) {
          if (freedBytes === 0) {
            this.#corrupt(start, `a record of ${length} bytes, longer than the memory mapped beyond the end`);
          }
          more = true;
          break;
        }
        offsets[records] = offset + HEADER_SIZE_BYTES;
        lengths[records] = length;
        records++;
      }
      offset = (offset + spanBytes) & offsetMask;
      freedBytes += spanBytes;
      left -= spanBytes;
    }

    this.#deliver(records, freedBytes, onBatch);
    return { records, discarded, freedBytes, busy, more };
  }

  /** Bytes between `position` and the producer. Loaded once per batch: BigInt stays out of the loop. */
  #available(position: bigint): number {
    const produced = Atomics.load(this.#producerPosition, 0);
    const available = BigInt.asUintN(64, produced - position);
    if (available > BigInt(this.#sizeBytes) || (produced & 7n) !== 0n) {
      this.#corrupt(position, `producer_pos is ${produced} in a ring of ${this.#sizeBytes} bytes`);
    }
    return Number(available);
  }

  #deliver(records: number, freedBytes: number, onBatch: (batch: RingBatch) => void): void {
    if (freedBytes === 0) return;
    this.#reading = true;
    this.#batch.count = records;
    try {
      if (records > 0) onBatch(this.#batch);
    } finally {
      this.#reading = false;
      this.#batch.count = 0;
      this.#position = BigInt.asUintN(64, this.#position + BigInt(freedBytes));
      Atomics.store(this.#consumerPosition, 0, this.#position);
    }
  }

  #corrupt(position: bigint, why: string): never {
    throw new RampartError(errorCodes.DECODE, {
      what: `the ring buffer is corrupt at position ${position}`,
      why,
      next: 'Close it and open a new one; its contents are lost',
    });
  }
}

/** @throws {RampartError} `INPUT` for a size that no ring has. */
export function checkRingSize(sizeBytes: number): void {
  const powerOfTwo = Number.isSafeInteger(sizeBytes) && Number.isInteger(Math.log2(sizeBytes));
  if (!powerOfTwo || sizeBytes < HEADER_SIZE_BYTES || sizeBytes > maxRingSizeBytes) {
    throw new RampartError(errorCodes.INPUT, {
      what: `a ring buffer of ${sizeBytes} bytes`,
      why: `its size must be a power of two from ${HEADER_SIZE_BYTES} to ${maxRingSizeBytes}`,
    });
  }
}
