/** A thread of a scanner: carries out requests one by one. */
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { ContentReader } from './content.ts';
import type { DigestStart, FromThread, Request, ThreadData, ToThread } from './messages.ts';
import { Selected } from './selected.ts';
import { ReadRate, RunState, StoppedError, ThreadNote } from './shared-state.ts';
import { NoRootError, threadBudget, Walk } from './walk.ts';
import { libc } from '../../../lib/ebpf/ffi.ts';
import { FixedBuffer, openFlags } from '../../../lib/ebpf/libc.ts';
import type { Entry } from '../model/entry.ts';
import type { ScanRoot } from '../provider/provider.ts';
import { Directories } from './directories.ts';
import { FileStat } from './file-stat.ts';
import { openName } from './open-name.ts';
import { withoutPrefix } from './scan-path.ts';

/** What is needed for the checksums of the start of a file that may have grown. */
interface DigestContext {
  readonly root: ScanRoot;
  readonly content: ContentReader;
  readonly state: RunState;
  readonly thread: number;
}

/** Undefined if the file has changed or cannot be read. */
function digestStart(
  { path, inode, sizeBytes }: DigestStart,
  { root, content, state, thread }: DigestContext,
): Pick<Entry, 'sha256' | 'sha512'> | undefined {
  const within = withoutPrefix(path, root.prefix);
  if (within === undefined || within === '') return undefined;
  const directories = new Directories(Buffer.from(root.directory, 'utf8').toString('latin1'));
  const slash = within.lastIndexOf('/');
  const directory = directories.openPath(within.slice(0, slash));
  if (typeof directory === 'number') return undefined;
  const [name, stat] = [new FixedBuffer(4096), new FileStat()];
  let fd = -1;
  try {
    name.writeText(within.slice(slash + 1));
    if (stat.readAt(directory.fd, name.address) !== 0 || stat.type !== 'f' || directory.isMadeUp)
      return undefined;
    fd = openName(directory.fd, name, openFlags.NOFOLLOW);
    if (fd < 0 || stat.readFd(fd) !== 0 || stat.type !== 'f') return undefined;
    if (inode !== 0n && stat.inode !== inode) return undefined;
    const { blockCount } = stat;
    const isStill = (): boolean => stat.readFd(fd) === 0 && stat.linkCount > 0 && stat.sizeBytes >= sizeBytes;
    const wanted = { sha256: true, sha512: true };
    const digests = content.digest({ fd, sizeBytes, blockCount, isStill }, wanted, state, thread);
    if (digests === undefined || typeof digests === 'number') return undefined;
    return { sha256: Uint8Array.from(digests.sha256), sha512: Uint8Array.from(digests.sha512) };
  } finally {
    if (fd >= 0) libc.close(fd);
    directories.close(directory);
  }
}

const { root, thread, note: noteBuffer, rate, bytesPerSecond, niceness, restMs } = workerData as ThreadData;
// On Linux, this sets the priority of the thread only (setpriority(2), "C library/kernel differences").
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
      const { largeBytes } = message;
      const walk = new Walk({ root, selected, content, state, thread, note, largeBytes });
      runs.set(message.run, { state, walk });
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
