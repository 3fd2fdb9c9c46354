/** A thread of a scanner: processes its tasks one by one. */
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';

import { ContentReader } from './content.ts';
import { digestStart } from './digest-start.ts';
import type { FromThread, Request, ThreadData, ToThread } from './messages.ts';
import { Selected } from './selected.ts';
import { ReadRate, RunState, StoppedError, ThreadNote } from './shared-state.ts';
import { NoRootError, threadBudget, Walk } from './walk.ts';

const { root, thread, note: noteBuffer, rate, bytesPerSecond, niceness, restMs } = workerData as ThreadData;
// On Linux it is the thread's own (setpriority(2), "C library/kernel differences").
if (niceness !== 0) setPriority(0, niceness);
const note = new ThreadNote(noteBuffer);
const content = new ContentReader(new ReadRate(bytesPerSecond, rate), true, restMs);
send({ loaded: true });
const runs = new Map<number, { readonly state: RunState; readonly walk: Walk }>();

parentPort?.on('message', (message: ToThread) => {
  switch (message.do) {
    case 'begin': {
      const state = new RunState(message.state);
      const selected = new Selected(message.confs);
      runs.set(message.run, { state, walk: new Walk({ root, selected, content, state, thread, note }) });
      return;
    }
    case 'end':
      runs.delete(message.run);
      return;
    case 'close':
      parentPort?.close();
      return;
    case 'ask':
      answer(message.id, message.request);
  }
});

function answer(id: number, request: Request): void {
  const run = runs.get(request.run);
  try {
    if (run === undefined) throw new StoppedError('the scan is over');
    run.state.throwIfStopped();
    if (request.do === 'walk') {
      note.write(root.prefix + request.task.directory);
      const result = run.walk.run(request.task, threadBudget);
      const blocks = result.parts.flatMap((parts) =>
        parts.flatMap((part) => ('bytes' in part ? [part.bytes.buffer] : [])),
      );
      send({ id, result }, blocks);
    } else {
      note.write(request.start.path);
      send({ id, digests: digestStart(request.start, { root, content, state: run.state, thread }) });
    }
  } catch (error) {
    if (error instanceof StoppedError) send({ id, stopped: true });
    else if (error instanceof NoRootError) send({ id, noRoot: error.code });
    else throw error;
  }
}

function send(message: FromThread, transfer: readonly ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, transfer);
}
