/** The messages between the scanner and its threads. */
import type { ByteString, Entry } from '../model/entry.ts';
import type { ScanRoot } from '../provider/provider.ts';
import type { PlainConf, Task, TaskResult } from './tasks.ts';

/** The data that a thread is started with. */
export interface ThreadData {
  readonly root: ScanRoot;
  /** Index of the thread. */
  readonly thread: number;
  readonly note: SharedArrayBuffer;
  readonly rate: SharedArrayBuffer;
  readonly bytesPerSecond: number;
  /** As in nice(1): 0 is the normal priority, 19 the lowest. */
  readonly niceness: number;
  /** See ThreadPoolOptions. */
  readonly restMs: number;
}

export interface DigestStart {
  readonly path: ByteString;
  readonly inode: bigint;
  readonly sizeBytes: number;
}

/** Sent before the first request of a run: a scan, or a look at single paths. */
export interface Begin {
  readonly do: 'begin';
  readonly run: number;
  readonly confs: readonly PlainConf[];
  /** See ScanOptions. */
  readonly largeBytes?: number | undefined;
  readonly state: SharedArrayBuffer;
}

/** A request that is answered. */
export type Request =
  | { readonly do: 'walk'; readonly run: number; readonly task: Task }
  | { readonly do: 'digest'; readonly run: number; readonly start: DigestStart };

export type ToThread =
  | Begin
  | { readonly do: 'ask'; readonly id: number; readonly request: Request }
  | { readonly do: 'end'; readonly run: number }
  /** The thread ends when it receives this. */
  | { readonly do: 'close' };

export type FromThread = Loaded | Answer;

export interface Loaded {
  readonly loaded: true;
}

export type Answer =
  | { readonly id: number; readonly result: TaskResult }
  | { readonly id: number; readonly digests: Pick<Entry, 'sha256' | 'sha512'> | undefined }
  | { readonly id: number; readonly stopped: true }
  /** The root cannot be opened. */
  | { readonly id: number; readonly noRoot: string };
