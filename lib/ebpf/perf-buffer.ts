/**
 * Reads the records that programs write by bpf_perf_event_output: a ring for each CPU, mapped into this
 * process and read in place, when the event loop reports data.
 *
 * The layout is that of `struct perf_event_mmap_page` and `struct perf_event_header`
 * (include/uapi/linux/perf_event.h).
 */
import { libbpf, libc, errno, pollReadable, type Pointer, type Poll, viewMemory } from './ffi.ts';
import { type Descriptor, enablePerfEvent, openPerfEvent } from './bpf-call.ts';
import { SystemCallError } from './libc.ts';
import { done, granted } from './refusal.ts';

const PERF_TYPE_SOFTWARE = 1;
const PERF_COUNT_SW_BPF_OUTPUT = 10n;
const PERF_SAMPLE_RAW = 1n << 10n;
const PERF_RECORD = { lost: 2, sample: 9 } as const;
const HEADER_BYTES = 8;
/** Offsets of data_head and data_tail in the first page, in u64. */
const [HEAD, TAIL] = [1024 / 8, 1032 / 8];

/** <sys/mman.h> */
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_FAILED = 2n ** 64n - 1n;
/** <unistd.h>, _SC_PAGESIZE of glibc. */
const SC_PAGESIZE = 30;
/** Data pages for each CPU: a power of two. */
const DATA_PAGES = 64;

interface PerfBufferOptions {
  /** A map of type BPF_MAP_TYPE_PERF_EVENT_ARRAY. Stays the caller's: close it after disposing the buffer. */
  readonly mapFd: number;
  /** CPUs whose slot in the map is taken over: its previous reader gets no more events of them. */
  readonly cpus: readonly number[];
  /** The bytes are valid only during the call. The kernel may have padded them, to a multiple of 8 minus 4 bytes. */
  readonly onEvent: (bytes: Buffer, cpu: number) => void;
  /** Called with the number of records lost because the ring of a CPU was full. */
  readonly onLost: (count: bigint) => void;
}

/**
 * Keeps the process alive until it is disposed. Closing the map's descriptor empties the slots in the kernel.
 *
 * @throws {KernelRefusal}, {SystemCallError} `SYSTEM`.
 */
export function openPerfBuffer(options: PerfBufferOptions): Disposable {
  using opening = new DisposableStack();
  for (const cpu of options.cpus) opening.use(new CpuRing(options, cpu));
  return opening.move();
}

class CpuRing implements Disposable {
  readonly #options: PerfBufferOptions;
  readonly #cpu: number;
  readonly #event: Descriptor;
  readonly #poll: Poll;
  readonly #address: Pointer;
  readonly #sizeBytes: number;
  readonly #positions: BigUint64Array;
  readonly #data: Buffer;
  readonly #memory: ArrayBuffer;

  constructor(options: PerfBufferOptions, cpu: number) {
    this.#options = options;
    this.#cpu = cpu;
    using opening = new DisposableStack();
    const what = `cannot read events of CPU ${cpu}`;
    this.#event = opening.use(
      granted(
        what,
        openPerfEvent({
          ...{ type: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_BPF_OUTPUT, sampleType: PERF_SAMPLE_RAW },
          ...{ samplePeriod: 1n, wakeupEvents: 1, pid: -1, cpu },
        }),
      ),
    );
    const pageBytes = libc.sysconf(SC_PAGESIZE);
    this.#sizeBytes = (1 + DATA_PAGES) * pageBytes;
    const address = BigInt(libc.mmap(null, this.#sizeBytes, PROT_READ_WRITE, MAP_SHARED, this.#event.fd, 0));
    if (address === MAP_FAILED) throw new SystemCallError(what, errno());
    this.#address = address;
    opening.defer(() => libc.munmap(address, this.#sizeBytes));
    this.#memory = viewMemory(address, this.#sizeBytes);
    this.#positions = new BigUint64Array(this.#memory, 0, pageBytes / 8);
    this.#data = Buffer.from(this.#memory, pageBytes);
    const [key, value] = [Buffer.alloc(4), Buffer.alloc(4)];
    key.writeUInt32LE(cpu);
    value.writeInt32LE(this.#event.fd);
    if (libbpf().mapUpdate(options.mapFd, key, value, 0) !== 0) throw new SystemCallError(what, errno());
    done(what, enablePerfEvent(this.#event));
    this.#poll = pollReadable(this.#event.fd, () => this.#read());
    opening.move();
    // The kernel reports new data only once (kernel/events/core.c, perf_poll), and epoll_ctl(2) uses up that
    // report: no event comes for data that is older than the registration, so it is read here.
    setImmediate(() => this.#read());
  }

  /** Reads everything that is available. */
  #read(): void {
    // A read may already be scheduled when the buffer is disposed.
    if (this.#memory.detached) return;
    let tail = this.#positions[TAIL] ?? 0n;
    const head = Atomics.load(this.#positions, HEAD);
    while (tail < head && !this.#memory.detached) {
      const at = Number(tail % BigInt(this.#data.length));
      // Records begin at multiples of 8, so a header never wraps around the end.
      const sizeBytes = this.#data.readUInt16LE(at + 6);
      if (sizeBytes < HEADER_BYTES) break;
      this.#take(this.#data.readUInt32LE(at), this.#bytesAt(at + HEADER_BYTES, sizeBytes - HEADER_BYTES));
      tail += BigInt(sizeBytes);
    }
    if (!this.#memory.detached) Atomics.store(this.#positions, TAIL, tail);
  }

  /** `sizeBytes` bytes of the ring; a copy if they wrap around its end. */
  #bytesAt(at: number, sizeBytes: number): Buffer {
    const start = at % this.#data.length;
    const there = this.#data.subarray(start, start + sizeBytes);
    if (there.length === sizeBytes) return there;
    return Buffer.concat([there, this.#data.subarray(0, sizeBytes - there.length)]);
  }

  #take(type: number, bytes: Buffer): void {
    if (type === PERF_RECORD.lost) this.#options.onLost(bytes.readBigUInt64LE(8));
    else if (type === PERF_RECORD.sample)
      this.#options.onEvent(bytes.subarray(4, 4 + bytes.readUInt32LE(0)), this.#cpu);
  }

  [Symbol.dispose](): void {
    if (this.#memory.detached) return;
    this.#poll[Symbol.dispose]();
    // Access through a view that was kept would crash the process once the memory is unmapped.
    this.#memory.transfer(0);
    libc.munmap(this.#address, this.#sizeBytes);
    this.#event[Symbol.dispose]();
  }
}
