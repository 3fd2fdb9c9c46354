/** The thread that waits for the disk, so that the main thread need not. Started by `ThreadWriter`. */
import { parentPort, workerData } from 'node:worker_threads';

import { sqliteFailure } from '../../sqlite/failure.ts';
import { DatabaseFiles } from './database-file.ts';
import { connect } from './schema.ts';
import type { Reply, Request } from './batch-writer.ts';
import { Writer } from './writer.ts';

const { path } = workerData as { readonly path: string };
const database = connect(path);
const writer = new Writer(database, new DatabaseFiles(path));

function answer(request: Request): Reply {
  try {
    switch (request.ask) {
      case 'apply':
        return { outcomes: writer.apply(request.writes) };
      case 'compact':
        return { compacted: writer.compact(request.to) };
      case 'close':
        database.close();
        return { closed: true };
    }
  } catch (error) {
    return { failure: sqliteFailure(error) };
  }
}

parentPort?.on('message', (request: Request) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- for windows
  parentPort?.postMessage(answer(request));
  if (request.ask === 'close') parentPort?.close();
});
