/**
 * A BPF ring buffer map of the kernel: mapped into this process, read in place by the reader in
 * `ring.ts`, woken by the event loop. No FFI call per event or per batch.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';
import { errno, libbpf, libc, pollReadable, viewMemory, type Pointer, type Poll } from './ffi.ts';
import { SystemCallError } from './libc.ts';
import { checkRingSize, RingReader, type RingBatch, type RingMemory } from './ring.ts';

/** <sys/mman.h> */
const PROT_READ = 1;
const PROT_WRITE = 2;
const MAP_SHARED = 1;
const MAP_FAILED = 2n ** 64n - 1n;
/** <unistd.h>, _SC_PAGESIZE of glibc. */
const SC_PAGESIZE = 30;
/** enum bpf_map_type, include/uapi/linux/bpf.h */
const BPF_MAP_TYPE_RINGBUF = 27;

/** How long one wake-up may read before the event loop gets its turn. */
const SLICE_MS = 4;
/** Wake-ups in a row that find nothing but a busy record, before waiting by a timer. */
const EMPTY_WAKES = 4;
/** The interval of that timer, and so the longest delay of a record that stayed busy. */
const BUSY_WAIT_MS = 1;

export interface RingBufferOptions {
  /** A map of type BPF_MAP_TYPE_RINGBUF. Stays the caller's: close it after disposing the ring buffer. */
  readonly mapFd: number;
  /** The map's max_entries: a power of two and a multiple of the page size. */
  readonly sizeBytes: number;
  /** See {@link RingBatch}: the records are valid only during the call. */
  readonly onBatch: (batch: RingBatch) => void;
  /**
   * Gets errors of `onBatch` (its batch is not delivered again, reading continues) and a `DECODE` error when
   * the ring is corrupt (reading ends). If it throws itself, that is an uncaught exception.
   */
  readonly onError: (error: unknown) => void;
  /**
   * Length of the longest record that the programs write; a longer one that wraps around the end of the ring is
   * a `DECODE` error. Default: any length; the ring is then mapped twice, and counts twice in this process's memory.
   */
  readonly maxRecordBytes?: number;
  /** Upper bound of a batch, see {@link RingReader}. */
  readonly maxBatchRecords?: number;
  /** Disposes the ring buffer when it aborts, without a last drain. */
  readonly signal?: AbortSignal;
}

/** Counts since the ring buffer was opened. */
interface RingBufferTotals {
  /** Records handed to `onBatch`. */
  readonly records: number;
  /** The records among them whose `onBatch` threw. */
  readonly failed: number;
  /** Records that the program discarded after reserving them. */
  readonly discarded: number;
  /** How often reading waited by the timer for a record that stayed busy. */
  readonly busyWaits: number;
}

/** An open ring buffer; keeps the process alive until it is disposed. */
export interface RingBuffer extends Disposable {
  readonly totals: RingBufferTotals;
  /**
   * Reads synchronously what is in the ring now, at most one ring full, and returns the number of
   * records delivered. Stops at a busy record. Errors go to `onError`.
   *
   * @throws {RampartError} `DISPOSED` after disposal, `INPUT` when called from `onBatch`.
   */
  drain(): number;
}

/**
 * Maps the ring buffer and delivers its records from the event loop.
 *
 * The kernel's poll is level-triggered on `producer_pos != consumer_pos`, so a slice that ends
 * early is woken again at the next turn of the loop, without a timer of ours.
 *
 * @throws {RampartError} `INPUT` for a size that is not the map's or a map of another type, `SYSTEM`
 *   with the errno's name when the kernel refuses. The signal's reason when it has aborted already.
 */
export function openRingBuffer(options: RingBufferOptions): RingBuffer {
  options.signal?.throwIfAborted();
  checkMap(options.mapFd, options.sizeBytes);
  const mapping = mapRing(options.mapFd, options.sizeBytes, options.maxRecordBytes ?? options.sizeBytes);
  try {
    return new MappedRingBuffer(options, mapping);
  } catch (error) {
    mapping[Symbol.dispose]();
    throw error;
  }
}

class MappedRingBuffer implements RingBuffer {
  readonly totals = { records: 0, failed: 0, discarded: 0, busyWaits: 0 };
  readonly #options: RingBufferOptions;
  readonly #mapping: RingMapping;
  readonly #reader: RingReader;
  readonly #dispose = (): void => this[Symbol.dispose]();
  #poll: Poll | undefined;
  #timer: NodeJS.Timeout | undefined;
  #emptyWakes = 0;
  #disposed = false;
  #reading = false;

  constructor(options: RingBufferOptions, mapping: RingMapping) {
    this.#options = options;
    this.#mapping = mapping;
    this.#reader = new RingReader(mapping, options);
    this.#watch();
    options.signal?.addEventListener('abort', this.#dispose, { once: true });
  }

  drain(): number {
    if (this.#disposed) {
      throw new RampartError(errorCodes.DISPOSED, {
        what: 'cannot drain the ring buffer',
        why: 'it is closed',
      });
    }
    const before = this.totals.records;
    this.#read(Number.POSITIVE_INFINITY);
    return this.totals.records - before;
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#options.signal?.removeEventListener('abort', this.#dispose);
    this.#unwatch();
    clearTimeout(this.#timer);
    // During a callback the batch is still in use: read() unmaps when it ends.
    if (!this.#reading) this.#mapping[Symbol.dispose]();
  }

  #watch(): void {
    this.#poll = pollReadable(this.#options.mapFd, () => this.#wake());
  }

  #unwatch(): void {
    this.#poll?.[Symbol.dispose]();
    this.#poll = undefined;
  }

  #wake(): void {
    // A poll event may already be on its way when the poll is disposed.
    if (this.#poll === undefined) return;
    const { freedBytes, busy } = this.#read(SLICE_MS);
    this.#emptyWakes = busy && freedBytes === 0 ? this.#emptyWakes + 1 : 0;
    if (this.#emptyWakes >= EMPTY_WAKES) this.#waitForBusyRecord();
  }

  /**
   * While a record stays busy (its program was interrupted between reserve and commit) the ring
   * stays readable: a level-triggered poll would burn a core. So stop polling until a timer fires; one
   * more empty wake-up then starts the next wait.
   */
  #waitForBusyRecord(): void {
    if (this.#disposed) return;
    this.#unwatch();
    this.totals.busyWaits++;
    this.#emptyWakes = EMPTY_WAKES - 1;
    this.#timer = setTimeout(() => this.#watch(), BUSY_WAIT_MS);
  }

  /** Reads batches until there is nothing to read now, one ring full was read, or the time is over. */
  #read(budgetMs: number): { freedBytes: number; busy: boolean } {
    if (this.#reading) {
      throw new RampartError(errorCodes.INPUT, {
        what: 'cannot drain the ring buffer',
        why: 'drain was called from onBatch or onError',
        next: 'Return from the callback first',
      });
    }
    const endMs = performance.now() + budgetMs;
    let freedBytes = 0;
    this.#reading = true;
    try {
      for (;;) {
        const progress = this.#readBatch();
        freedBytes += progress.freedBytes;
        const over =
          progress.freedBytes === 0 ||
          this.#disposed ||
          freedBytes >= this.#options.sizeBytes ||
          performance.now() >= endMs;
        if (over) return { freedBytes, busy: progress.busy };
      }
    } finally {
      this.#reading = false;
      if (this.#disposed) this.#mapping[Symbol.dispose]();
    }
  }

  #readBatch(): { freedBytes: number; busy: boolean } {
    const failed: unknown[] = [];
    let progress = { freedBytes: 0, discarded: 0, busy: false };
    try {
      progress = this.#reader.read((batch) => {
        this.totals.records += batch.count;
        try {
          this.#options.onBatch(batch);
        } catch (error) {
          this.totals.failed += batch.count;
          failed.push(error);
        }
      });
    } catch (error) {
      // The reader's own error: the ring stays corrupt, and the poll would report it without end.
      this.#unwatch();
      failed.push(error);
    }
    this.totals.discarded += progress.discarded;
    // Called once the space is freed, so that an onError that throws leaves the ring in order.
    for (const error of failed) this.#options.onError(error);
    return progress;
  }
}

interface RingMapping extends RingMemory, Disposable {}

/**
 * Maps both parts of the ring (kernel/bpf/ringbuf.c, ringbuf_map_mmap_kern). The kernel offers the data twice in
 * a row; of the second copy, only as much is mapped as a record that begins in the first one can reach.
 */
function mapRing(mapFd: number, sizeBytes: number, maxRecordBytes: number): RingMapping {
  const pageBytes = libc.sysconf(SC_PAGESIZE);
  const dataBytes = sizeBytes + Math.min(sizeBytes, Math.ceil(maxRecordBytes / pageBytes) * pageBytes);
  const readOnlyBytes = pageBytes + dataBytes;
  const consumerAddress = map(mapFd, pageBytes, PROT_READ | PROT_WRITE, 0);
  let producerAddress: Pointer;
  try {
    // The kernel refuses PROT_WRITE here: a reader cannot disturb what programs write.
    producerAddress = map(mapFd, readOnlyBytes, PROT_READ, pageBytes);
  } catch (error) {
    libc.munmap(consumerAddress, pageBytes);
    throw error;
  }
  const consumer = viewMemory(consumerAddress, pageBytes);
  const producer = viewMemory(producerAddress, pageBytes);
  const data = viewMemory(producerAddress + BigInt(pageBytes), dataBytes);
  return {
    consumer,
    producer,
    data,
    sizeBytes,
    [Symbol.dispose]() {
      if (consumer.detached) return;
      // Access through a view that was kept would crash the process once the memory is unmapped. Detached,
      // the view has length 0 or throws.
      for (const buffer of [consumer, producer, data]) buffer.transfer(0);
      libc.munmap(consumerAddress, pageBytes);
      libc.munmap(producerAddress, readOnlyBytes);
    },
  };
}

function map(fd: number, sizeBytes: number, prot: number, offset: number): Pointer {
  // The FFI gives addresses below 2^53 as numbers.
  const address = BigInt(libc.mmap(null, sizeBytes, prot, MAP_SHARED, fd, offset));
  if (address === MAP_FAILED) throw new SystemCallError(`cannot map the ring buffer (fd ${fd})`, errno());
  return address;
}

/** A wrong size would map well and then read records at wrong offsets: ask the map itself. */
function checkMap(mapFd: number, sizeBytes: number): void {
  checkRingSize(sizeBytes);
  // struct bpf_map_info begins with u32 type, id, key_size, value_size, max_entries.
  const info = new Uint32Array(5);
  if (libbpf().infoByFd(mapFd, new Uint8Array(info.buffer), [info.byteLength]) !== 0) {
    throw new SystemCallError(`cannot open fd ${mapFd} as a ring buffer`, errno());
  }
  const type = info[0];
  const maxEntries = info[4];
  if (type !== BPF_MAP_TYPE_RINGBUF || maxEntries !== sizeBytes) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot open fd ${mapFd} as a ring buffer of ${sizeBytes} bytes`,
      why: `it is a map of type ${type} with max_entries ${maxEntries}`,
    });
  }
}
