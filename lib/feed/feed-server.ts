/** Serves a feed of lines on a unix socket, to its owner only. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, lstatSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';

import { makeDirectories } from '../files/make-directories.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { noteLine } from './feed-protocol.ts';
import type { LineFeed } from './line-feed.ts';
import { LineWriter } from '../output/lines.ts';
import { SocketPath } from '../net/socket-path.ts';

interface FeedServerOptions {
  /**
   * Limit for data that a reader has not taken yet; further lines are dropped and reported. Default: 16 MiB,
   * more than the kept lines of six kinds.
   */
  readonly readerBytes?: number;
  /** Sent to each reader before the lines, as JSON. */
  readonly about?: () => unknown;
  /** Limit of readers at a time; more are refused. Default: 8. */
  readonly maxReaders?: number;
}

const READER_BYTES = 16 * 1024 * 1024;
const MAX_READERS = 8;
/** How long disposal waits for readers to take what is queued for them: one may have stopped reading. */
const LINGER_MS = 500;

/** A feed that is served. Disposing gives the readers a moment to take what is queued, and removes the socket. */
interface FeedServer extends AsyncDisposable {
  readonly path: string;
  readonly readers: number;
}

/**
 * Serves until disposed. A socket that a killed process left is taken over. The directory is made if it is missing, with
 * mode 0700; the socket has 0600.
 *
 * @throws {RampartError} `IN_USE` if another process is serving on it, or something other than a socket is there; `INPUT` for
 *   a name that is too long; `SYSTEM` when it cannot be listened on.
 */
export async function serveFeed(
  feed: LineFeed,
  path: string,
  options: FeedServerOptions = {},
): Promise<FeedServer> {
  const { maxReaders = MAX_READERS } = options;
  const id = randomUUID();
  const readers = new Set<FeedReader>();
  const server = createServer((socket) => {
    if (readers.size >= maxReaders) {
      socket.on('error', () => undefined).end(`${noteLine({ full: maxReaders })}\n`);
      return;
    }
    const reader = new FeedReader(feed, id, socket, {
      ...options,
      readerBytes: options.readerBytes ?? READER_BYTES,
    });
    readers.add(reader);
    void reader.ended.then(() => readers.delete(reader));
  });
  const socketPath = await listen(server, path);
  return {
    path,
    get readers() {
      return readers.size;
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close(); // removes the socket
      await Promise.all([...readers].map((reader) => reader[Symbol.asyncDispose]()));
      await closed;
      socketPath[Symbol.dispose]();
    },
  };
}

class FeedReader implements AsyncDisposable {
  readonly ended: Promise<void>;
  readonly #feed: LineFeed;
  readonly #out: LineWriter;
  readonly #socket: Socket;
  #isBehind = false;

  constructor(
    feed: LineFeed,
    id: string,
    socket: Socket,
    { readerBytes, about }: Pick<FeedServerOptions, 'about'> & { readonly readerBytes: number },
  ) {
    this.#feed = feed;
    this.#socket = socket;
    this.#out = new LineWriter(socket, {
      spoolBytes: readerBytes,
      lingerMs: LINGER_MS,
      name: 'a reader of the feed',
    });
    // No data is expected; reading is the way to notice that the reader has gone.
    socket.resume();
    this.ended = once(socket, 'close').then(
      () => undefined,
      () => undefined,
    );
    this.#out.write(noteLine({ feed: 1, id, first: feed.first, last: feed.last }));
    if (about !== undefined) this.#out.write(noteLine({ about: about() }));
    for (const { number, line } of feed.kept()) this.#take(number, line);
    this.#out.write(noteLine({ live: feed.last }));
    const subscription = feed.subscribe((number, line) => this.#take(number, line));
    void this.ended.then(() => {
      subscription[Symbol.dispose]();
      void this.#out[Symbol.asyncDispose]();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#out[Symbol.asyncDispose]();
    this.#socket.destroy();
    await this.ended;
  }

  #take(number: number, line: string): void {
    if (this.#out.write(`${number} ${line}`) || this.#isBehind) return;
    this.#isBehind = true;
    void this.#reportWhenCaughtUp();
  }

  /** Sends the last number once there is room again: no further line may come whose number would show that lines were dropped. */
  async #reportWhenCaughtUp(): Promise<void> {
    await this.#out.flush().catch(() => undefined);
    this.#isBehind = false;
    this.#out.write(noteLine({ at: this.#feed.last }));
  }
}

async function listen(server: Server, path: string): Promise<SocketPath> {
  try {
    makeDirectories(dirname(path));
    const socketPath = new SocketPath(path);
    try {
      await removeDeadSocket(path, socketPath.address);
      // Private from the start: bind(2) creates the file with the mode that the umask leaves.
      const before = process.umask(0o177);
      try {
        server.listen(socketPath.address);
      } finally {
        process.umask(before);
      }
      await once(server, 'listening');
      chmodSync(path, 0o600);
      // Failing to accept one connection must not end the process; failures of accepted ones are reported by their sockets.
      server.on('error', () => undefined);
      return socketPath;
    } catch (error) {
      socketPath[Symbol.dispose]();
      throw error;
    }
  } catch (error) {
    if (error instanceof RampartError) throw error;
    throw new RampartError(errorCodes.SYSTEM, {
      what: `cannot serve on the socket ${path}`,
      why: error instanceof Error ? error.message : String(error),
      cause: error,
    });
  }
}

/** Removes the socket that a killed process left. */
async function removeDeadSocket(path: string, address: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  const taken = (why: string): RampartError =>
    new RampartError(errorCodes.IN_USE, {
      what: `cannot serve on the socket ${path}`,
      why,
      next: 'Choose another path',
    });
  if (!stats.isSocket()) throw taken('the path is in use by something else');
  if (await answers(address)) throw taken('another process is serving on it');
  unlinkSync(path);
}

async function answers(address: string): Promise<boolean> {
  const socket = connect(address);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    // Only this error means that no process listens; one with too much to do (EAGAIN) is alive.
    return (error as NodeJS.ErrnoException).code !== 'ECONNREFUSED';
  } finally {
    socket.destroy();
  }
}
