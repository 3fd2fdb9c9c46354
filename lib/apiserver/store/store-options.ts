import { errorCodes, RampartError } from '../../errors/errors.ts';

export interface StoreOptions {
  /** The database file, created if missing; its directory has to exist. `:memory:` for a store that is lost when it is closed. */
  readonly path: string;
  /** Number of changes kept for watches and lists in pages. Default: 50,000. */
  readonly historyLimit?: number;
  /** How long changes are kept, if there are fewer than that. Default: 10 minutes. */
  readonly historyAgeMs?: number;
  /** Number of changes also kept in memory, for watches. Default: 8,192. */
  readonly recentLimit?: number;
  /** Limit of the texts of these changes, in UTF-16 units. Default: 16 Mi. */
  readonly recentSize?: number;
  /** Limit of texts that wait for the disk, in UTF-16 units. Default: 64 Mi. */
  readonly maxWaitingSize?: number;
  /**
   * `thread` (default, except for `:memory:`): a thread waits for the disk. `inline`: this thread does, which
   * saves 16 MiB and costs pauses of the event loop; docs/decisions/0003-a-thread-that-writes.md has the
   * figures.
   */
  readonly writer?: 'thread' | 'inline';
}

export interface WatchOptions {
  /** `undefined` for all namespaces. */
  readonly namespace?: string | undefined;
  /** The watch gets the changes after this version. */
  readonly fromVersion: bigint;
  /** Whether changes include the previous object as `previous`, which may cost a read for each. */
  readonly withPrevious?: boolean;
  readonly signal: AbortSignal;
}

/** For metrics. */
export interface StoreCounters {
  /** Writes committed to disk. */
  writes: number;
  /** Transactions of these writes. */
  commits: number;
  /** Failed compactions of the history; they are retried. */
  readonly compactionFailures: number;
}

/** @throws {RampartError} `INPUT` */
export function checkOptions(options: StoreOptions): void {
  for (const name of [
    'historyLimit',
    'historyAgeMs',
    'recentLimit',
    'recentSize',
    'maxWaitingSize',
  ] as const) {
    const given = options[name];
    if (given === undefined || (Number.isSafeInteger(given) && given > 0)) continue;
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot open the store ${options.path}`,
      why: `${name} is ${given}`,
      next: 'It must be an integer above 0',
    });
  }
  if (options.path === ':memory:' && options.writer === 'thread') {
    throw new RampartError(errorCodes.INPUT, {
      what: 'cannot open a store in memory',
      why: 'a separate thread cannot write to it',
    });
  }
}
