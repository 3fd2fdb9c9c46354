/**
 * A directory of queues on disk, bounded, of one process at a time.
 *
 * - What `append` has taken is in the kernel's hands when it returns, by one write(2): the end of the process, also by
 *   kill -9, loses none of it. A loss of power loses what is younger than the last sync (see group-sync.ts).
 * - A full queue refuses what is new and keeps what it has.
 * - What is taken from a queue stays in it until `pass`; a process that ends between the two reads it again.
 */
import { join } from 'node:path';

import { type FileLock, lockFile } from '../sqlite/lock.ts';
import { type Clock, systemClock } from '../time/clock.ts';
import { GroupSync } from './group-sync.ts';
import { type LogObserver, QueueLog } from './queue-log.ts';
import { RecordEncoder } from './record.ts';
import { type Contents, prepareDirectory, pruneSetAside, recoverSegments } from './recover.ts';
import type { QueueName } from './segment-header.ts';

/** Small enough that the space of finished records is soon free again, large enough that there are few files. */
const MAX_SEGMENT_BYTES = 4 * 1024 * 1024;
const MIN_SEGMENT_BYTES = 64 * 1024;
const SEGMENTS_PER_QUEUE = 16;
/** Written data reaches the disk this long after, plus the time of the sync. */
const SYNC_INTERVAL_MS = 50;

export interface SpoolOptions extends Contents {
  /** A directory used by this spool alone; created with mode 0700. */
  readonly directory: string;
  /** Limit of the total size of all queues. A single queue may be at most as large as the space that is still free. */
  readonly maxBytes: number;
  readonly maxQueueBytes: number;
  readonly clock?: Clock;
  readonly observer: SpoolObserver;
}

export interface SpoolObserver {
  /** A file could not be read completely; `lostRecords` of it are lost. */
  damaged(lostRecords: number): void;
  /** A sync failed: a loss of power may lose records that would survive the end of this process. */
  syncFailed(error: NodeJS.ErrnoException): void;
}

/** Why a record was not taken: the disk is full or broken, or a bound is reached. */
export type SpoolRefusal = 'queue_full' | 'full' | 'disk';

/** Result of opening the directory. */
export interface Found {
  readonly records: number;
  /** Bytes at the ends of files that the end of an earlier process left incomplete. */
  readonly tornBytes: number;
  /** Number of files whose queue is unknown, now set aside with the suffix `.corrupt`. */
  readonly unreadable: number;
}

/**
 * The caller disposes it: what waits stays on disk.
 *
 * @throws {RampartError} `INPUT` for a directory of another user, `IN_USE` when another process has it, `SYSTEM` or `FULL`
 *   when it cannot be used. Damaged files are no reason to throw.
 */
export function openSpool(options: SpoolOptions): Spool {
  prepareDirectory(options.directory, options.contents);
  const lock = lockFile(join(options.directory, 'lock'));
  try {
    return new Spool(options, lock);
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

/** See {@link openSpool}. */
export class Spool implements AsyncDisposable {
  readonly found: Found;
  /** Milliseconds since 1970: records outlive the process. It runs with the monotonic clock, so steps of the wall clock do not show. */
  readonly nowMs: () => number;
  readonly #options: SpoolOptions;
  readonly #lock: FileLock;
  readonly #sync: GroupSync;
  readonly #encoder = new RecordEncoder();
  readonly #queues = new Set<QueueLog>();
  readonly #logObserver: LogObserver;
  #sizeBytes = 0;

  constructor(options: SpoolOptions, lock: FileLock) {
    const { directory, observer, clock = systemClock } = options;
    this.#options = options;
    this.#lock = lock;
    const epochMs = clock.wallMs() - clock.monotonicMs();
    this.nowMs = () => epochMs + clock.monotonicMs();
    const failed = (error: NodeJS.ErrnoException): void => observer.syncFailed(error);
    this.#sync = new GroupSync({ directory, intervalMs: SYNC_INTERVAL_MS, clock, failed });
    this.#logObserver = {
      resized: (byBytes) => {
        this.#sizeBytes += byBytes;
      },
      written: (segment, isNew) => this.#sync.touch(segment, isNew),
      damaged: (lostRecords) => {
        pruneSetAside(directory);
        observer.damaged(lostRecords);
      },
    };
    this.found = this.#recover();
  }

  /** The non-empty queues that earlier processes left, and those of this one. */
  get queues(): Iterable<QueueLog> {
    return this.#queues;
  }

  /** Length of all files, including finished records that are not yet removed. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Adds a new queue; it takes no space before something is in it. */
  add(name: QueueName): QueueLog {
    const { directory, contents, keyOf, maxQueueBytes } = this.#options;
    const key = keyOf(name);
    if (key === undefined) throw new TypeError(`no queue here is named ${name.kind} ${name.text}`);
    const share = Math.floor(maxQueueBytes / SEGMENTS_PER_QUEUE);
    const queue = new QueueLog(name, {
      ...{ directory, key, suffix: `.${contents}` },
      segmentBytes: Math.min(MAX_SEGMENT_BYTES, Math.max(MIN_SEGMENT_BYTES, share)),
      observer: this.#logObserver,
    });
    this.#queues.add(queue);
    return queue;
  }

  /** Closes an empty queue. */
  forget(queue: QueueLog): void {
    this.#queues.delete(queue);
    queue.close();
  }

  /**
   * A record for {@link append}, valid until the next call; undefined for a line above 1 MiB.
   *
   * @param id - ASCII of up to `MAX_ID_BYTES`.
   */
  encode(id: string, line: string | Uint8Array): ReturnType<RecordEncoder['encode']> {
    return this.#encoder.encode(id, line, this.nowMs());
  }

  /** @returns why the record was not taken; undefined if it was */
  append(
    queue: QueueLog,
    record: NonNullable<ReturnType<RecordEncoder['encode']>>,
  ): SpoolRefusal | undefined {
    const sizeBytes = queue.sizeBytes + queue.growth(record.sizeBytes);
    if (sizeBytes > this.#options.maxQueueBytes) return 'queue_full';
    // A queue may be no larger than the free space: so one full queue leaves half to the others, two leave a third, and so on.
    if (sizeBytes > this.#options.maxBytes - this.#sizeBytes) return 'full';
    try {
      queue.append(record.buffer, record.sizeBytes);
      return undefined;
    } catch {
      return 'disk';
    }
  }

  /** Resolves when what was taken so far is on disk. */
  async sync(): Promise<void> {
    await this.#sync.settle();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#sync[Symbol.asyncDispose]();
      for (const queue of this.#queues) queue.close();
    } finally {
      this.#lock[Symbol.dispose]();
    }
  }

  #recover(): Found {
    const { segments, tornBytes, unreadable } = recoverSegments(this.#options.directory, this.#options);
    const byName = new Map<string, QueueLog>();
    let records = 0;
    for (const { segment, sequence } of segments) {
      const key = this.#options.keyOf(segment.name) ?? '';
      const queue = byName.get(key) ?? this.add(segment.name);
      byName.set(key, queue);
      records += segment.depth;
      queue.adopt(segment, sequence);
    }
    return { records, tornBytes, unreadable };
  }
}
