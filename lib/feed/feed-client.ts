/** Reads a feed of lines from its unix socket. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import { errorCodes, RampartError } from '../errors/errors.ts';
import type { FeedHello, FeedNote } from './feed-protocol.ts';
import { SocketPath } from '../net/socket-path.ts';

/** How far a feed has been read. */
export interface FeedPosition {
  readonly id: string;
  /** Number of the last line that was read. */
  readonly number: number;
}

export type FeedEvent =
  /**
   * Comes first. `isOther`: this is a different feed from the one the given position refers to, or none
   * was given.
   */
  | { readonly kind: 'begin'; readonly id: string; readonly isOther: boolean }
  /** The process's description of its lines. */
  | { readonly kind: 'about'; readonly about: unknown }
  | { readonly kind: 'line'; readonly number: number; readonly line: string }
  /** These lines are unavailable: dropped for a slow reader, or gone before this one came back. */
  | { readonly kind: 'missed'; readonly lines: number }
  /** All kept lines have been delivered; the following ones are new. */
  | { readonly kind: 'live' };

const MAX_LINE_UNITS = 16 * 1024 * 1024;

/**
 * The lines of a feed from the oldest that is kept, or after `position`; ends when its process ends. Nothing
 * is read ahead: a slow consumer makes the server drop lines, which the feed reports.
 *
 * @throws {RampartError} `NOT_FOUND` for a missing socket, or one without a server; `PRIVILEGE` for one that
 * may not be opened; `LIMIT` when it has too many readers; `DECODE` if it is not a feed; the signal's reason
 * when it aborts.
 */
export async function* readFeed(
  path: string,
  { signal, position }: { readonly signal: AbortSignal; readonly position?: FeedPosition | undefined },
): AsyncGenerator<FeedEvent, void> {
  signal.throwIfAborted();
  const socket = await open(path);
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    let next: number | undefined;
    // On the first read of a feed, missing numbers before `live` are not reported: those lines were dropped long ago.
    let isFirst = true;
    for await (const text of linesOf(socket)) {
      if (next === undefined) {
        const hello = parseHello(text, path);
        const isOther = position?.id !== hello.id;
        isFirst = isOther;
        next = isOther ? hello.first : position.number + 1;
        yield { kind: 'begin', id: hello.id, isOther };
      } else if (text.startsWith('#')) {
        const note = JSON.parse(text.slice(1)) as FeedNote;
        if ('about' in note) {
          yield { kind: 'about', about: note.about };
          continue;
        }
        const at = 'at' in note ? note.at : 'live' in note ? note.live : next - 1;
        if (at >= next && !isFirst) yield { kind: 'missed', lines: at + 1 - next };
        next = Math.max(next, at + 1);
        if (!('live' in note)) continue;
        isFirst = false;
        yield { kind: 'live' };
      } else {
        const space = text.indexOf(' ');
        const number = Number(text.slice(0, space));
        if (!(number >= next)) continue;
        if (number > next && !isFirst) yield { kind: 'missed', lines: number - next };
        next = number + 1;
        yield { kind: 'line', number, line: text.slice(space + 1) };
      }
      signal.throwIfAborted();
    }
    signal.throwIfAborted();
  } finally {
    signal.removeEventListener('abort', onAbort);
    socket.destroy();
  }
}

/** Whether a feed is served there, absent, or closed to this user. */
export async function probeFeed(path: string): Promise<'served' | 'absent' | 'refused'> {
  try {
    (await open(path)).destroy();
    return 'served';
  } catch (error) {
    return error instanceof RampartError && error.code === errorCodes.PRIVILEGE ? 'refused' : 'absent';
  }
}

async function open(path: string): Promise<Socket> {
  let socketPath: SocketPath | undefined;
  try {
    socketPath = new SocketPath(path);
    const socket = connect(socketPath.address);
    await once(socket, 'connect');
    return socket;
  } catch (error) {
    if (error instanceof RampartError) throw error;
    throw refusal(path, error as NodeJS.ErrnoException);
  } finally {
    socketPath?.[Symbol.dispose]();
  }
}

function refusal(path: string, error: NodeJS.ErrnoException): RampartError {
  const what = `cannot read ${path}`;
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
    return new RampartError(errorCodes.NOT_FOUND, { what, why: 'the socket does not exist', cause: error });
  }
  if (error.code === 'ECONNREFUSED') {
    return new RampartError(errorCodes.NOT_FOUND, {
      what,
      why: 'its process has ended',
      cause: error,
    });
  }
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    return new RampartError(errorCodes.PRIVILEGE, {
      what,
      why: 'only the user that runs the serving process, usually root, may read it',
      next: 'Use sudo',
      cause: error,
    });
  }
  return new RampartError(errorCodes.SYSTEM, { what, why: error.message, cause: error });
}

async function* linesOf(socket: Socket): AsyncGenerator<string, void> {
  let rest = '';
  socket.setEncoding('utf8');
  try {
    for await (const text of socket as AsyncIterable<string>) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
      if (rest.length > MAX_LINE_UNITS) {
        throw new RampartError(errorCodes.DECODE, { what: 'a feed of lines', why: 'a line does not end' });
      }
    }
  } catch (error) {
    // The process was killed: that ends the feed, and a partial line is discarded.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ECONNRESET' && code !== 'ERR_STREAM_PREMATURE_CLOSE' && code !== 'ABORT_ERR') throw error;
  }
}

function parseHello(text: string, path: string): FeedHello {
  let note: Partial<FeedHello> & { readonly full?: number } = {};
  try {
    if (text.startsWith('#')) note = JSON.parse(text.slice(1)) as typeof note;
  } catch {
    // A feed writes JSON: without it, the check below fails.
  }
  const { feed, id, first, last, full } = note;
  if (full !== undefined) {
    throw new RampartError(errorCodes.LIMIT, {
      what: `cannot read ${path}`,
      why: `${full} processes are already reading it`,
      next: 'Stop one of them',
    });
  }
  if (feed === 1 && typeof id === 'string' && typeof first === 'number' && typeof last === 'number') {
    return { feed, id, first, last };
  }
  throw new RampartError(errorCodes.DECODE, {
    what: `cannot read ${path}`,
    why: 'it is served by another release of Rampart',
  });
}
