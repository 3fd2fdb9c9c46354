/** Starts the threads of a check while the rest of its code is loaded: both take some 60 ms, and run in parallel on two CPUs. */
import { resolve } from 'node:path';

import { ThreadPool } from '../scan/thread-pool.ts';
import type { CheckOptions } from './command.ts';

/** The caller disposes the result. */
export function startScanThreads({ root, workers, readRate }: CheckOptions): ThreadPool {
  const threads = new ThreadPool({
    root: { directory: resolve(root), prefix: '' },
    workers,
    readBytesPerSecond: readRate,
  });
  threads.startAll();
  return threads;
}
