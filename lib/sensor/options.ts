import { existsSync } from 'node:fs';

import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Folded } from './fold-ledger.ts';
import type { SensorModeName } from './modes.ts';
import type { AccessRecord } from './record.ts';
import type { Watcher } from './targets.ts';

export const defaultCapacity = 65_536;
export const defaultDirectoryCapacity = 131_072;
/** Accesses per second of one process to one file of one kind; see {@link SensorOptions.ratePerSecond}. */
export const defaultRatePerSecond = 1000;
export const defaultRingSizeBytes: number = 8 * 1024 * 1024;

const KERNEL_BTF = '/sys/kernel/btf/vmlinux';
/** Sixteen million files are a gigabyte of kernel memory. */
const MAX_CAPACITY = 16_777_216;
const MAX_RATE = 1_000_000_000;

export interface SensorOptions<W extends Watcher> {
  /** `auto`, the default, takes the best the kernel accepts. */
  readonly mode?: SensorModeName | 'auto';
  /** Limit of watched files; default {@link defaultCapacity}. */
  readonly capacity?: number;
  /** Limit of directories for Sensor.expectFilesIn; default {@link defaultDirectoryCapacity}. */
  readonly directoryCapacity?: number;
  /**
   * Limit of the accesses per second of one process to one target with one mask and verdict; the burst is as
   * large. Accesses above it are folded and counted. 0: no limit. Default {@link defaultRatePerSecond}.
   */
  readonly ratePerSecond?: number;
  /** Size of the ring, a power of two; default {@link defaultRingSizeBytes}. */
  readonly ringSizeBytes?: number;
  /** Default true. Otherwise the programs are only loaded, and nothing is seen before {@link Sensor.attach}. */
  readonly attached?: boolean;
  /**
   * One access for one watcher that wants it. `access` is a window on kernel memory: read it during
   * the call, or take its `snapshot()`. Must not throw; what it throws goes to `onProblem` and the
   * batch counts as lost.
   */
  readonly onAccess: (access: AccessRecord, watcher: W) => void;
  /** Called after each batch of accesses, e.g. to flush what was written for them. */
  readonly onBatchEnd?: () => void;
  /** Called about once a second with the accesses folded by the rate limit that no later record will report. */
  readonly onFolded?: (folded: Folded, watchers: Iterable<W>) => void;
  /** Called with the number of accesses lost since the last call, if there are any. */
  readonly onLoss?: (lost: number, stats: SensorStats) => void;
  readonly onProblem: (problem: unknown) => void;
}

/** Counts since the sensor was opened. `received + folded + lost.* = produced`, exactly, once it is drained. */
export interface SensorStats {
  /** Accesses to watched files that passed the filters. */
  readonly produced: number;
  readonly received: number;
  /** Accesses the rate limit held back. */
  readonly folded: number;
  readonly lost: {
    /** The ring had no room: this process was too slow. */
    readonly ringFull: number;
    /** kprobe mode: the function's return was never seen (kretprobe instances ran out). */
    readonly noReturn: number;
    /** A callback threw. */
    readonly consumer: number;
  };
  /** Accesses not produced because the inode number belongs to another file now. */
  readonly recycled: number;
  /** Accesses not produced because this process made them. */
  readonly own: number;
  /** Accesses produced without a verdict. */
  readonly verdictUnknown: number;
  /** Times the kernel skipped a program because it was running on that CPU already; it may have been for a watched file. */
  readonly hookMisses: number;
  readonly targets: number;
  readonly capacity: number;
  /** Directories for which there was no room: files that appear in them are watched only as targets, some milliseconds later. */
  readonly refusedDirectories: number;
}

/** Why a better mode than the one in use was refused. */
export interface RefusedMode {
  readonly mode: SensorModeName;
  readonly reason: string;
}

/** @throws {RampartError} `INPUT` for a number out of range, `UNSUPPORTED` for a kernel without BTF. */
export function checkOptions<W extends Watcher>(options: SensorOptions<W>): void {
  const { capacity = defaultCapacity, ratePerSecond = 0 } = options;
  if (!Number.isInteger(capacity) || capacity < 1 || capacity > MAX_CAPACITY) {
    throw new RampartError(errorCodes.INPUT, {
      what: `capacity ${capacity}`,
      why: `it must be an integer from 1 to ${MAX_CAPACITY}`,
    });
  }
  if (!Number.isInteger(ratePerSecond) || ratePerSecond < 0 || ratePerSecond > MAX_RATE) {
    throw new RampartError(errorCodes.INPUT, {
      what: `rate ${ratePerSecond}`,
      why: `it must be an integer from 0 (no limit) to ${MAX_RATE}`,
    });
  }
  // Without BTF nothing can be relocated, and libbpf's own message does not say so.
  if (!existsSync(KERNEL_BTF)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'this kernel has no BTF',
      why: `${KERNEL_BTF} is missing`,
      next: 'Use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as all current distributions are',
    });
  }
}
