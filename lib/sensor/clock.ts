/** Converts the kernel's monotonic time to wall-clock time. */
import { libc } from '../ebpf/ffi.ts';

const CLOCK_REALTIME = 0;
const CLOCK_MONOTONIC = 1;
const NS_PER_S = 1_000_000_000n;
const SAMPLES = 5;

const timespec = new BigInt64Array(2);
const timespecBytes = new Uint8Array(timespec.buffer);

function readClockNs(clock: number): bigint {
  libc.clockGettime(clock, timespecBytes);
  return (timespec[0] ?? 0n) * NS_PER_S + (timespec[1] ?? 0n);
}

/** CLOCK_MONOTONIC in nanoseconds: the clock of bpf_ktime_get_ns. */
export function monotonicNs(): bigint {
  return readClockNs(CLOCK_MONOTONIC);
}

/** Adds the distance between the clocks, which changes over time: call {@link refresh} now and then. */
export class WallClock {
  #offsetNs = 0n;

  constructor() {
    this.refresh();
  }

  /** Measures the distance: reads the wall clock between two readings of the monotonic one, and takes the tightest of a few tries. */
  refresh(): void {
    let tightestNs: bigint | undefined;
    for (let i = 0; i < SAMPLES; i++) {
      const before = readClockNs(CLOCK_MONOTONIC);
      const wall = readClockNs(CLOCK_REALTIME);
      const after = readClockNs(CLOCK_MONOTONIC);
      const widthNs = after - before;
      if (tightestNs === undefined || widthNs < tightestNs) {
        tightestNs = widthNs;
        this.#offsetNs = wall - before - widthNs / 2n;
      }
    }
  }

  /** Wall clock of a monotonic time, nanoseconds since 1970. */
  wallNs(monotonic: bigint): bigint {
    return monotonic + this.#offsetNs;
  }
}
