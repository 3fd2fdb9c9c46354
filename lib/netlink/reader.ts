/** Reads the unsolicited messages of a netlink socket, when the event loop reports data. */
import { type Poll, pollReadable } from '../ebpf/ffi.ts';
import { messagesOf, type NetlinkMessage } from './message.ts';
import type { NetlinkSocket } from './socket.ts';

/** How long one wake-up may read before the event loop has its turn. */
const SLICE_MS = 4;

export interface NetlinkReaderOptions {
  /** Owned by the reader from now on. */
  readonly socket: NetlinkSocket;
  /** Sets up the socket, before the first read. Default: nothing is set up. */
  readonly begin?: () => void;
  /** A message is valid during the call only. Errors that it throws go to `onError`; reading continues. */
  readonly onMessage: (message: NetlinkMessage) => void;
  /**
   * If there is still more to read after {@link SLICE_MS}, reading pauses for this long: more of a flood is lost, but
   * others get the core. Default: no pause.
   */
  readonly pauseMs?: number;
  /** Messages were lost, as the queue was full. */
  readonly onOverrun?: () => void;
  /** Called after the messages of each wake-up. */
  readonly onRead?: () => void;
  /** Called with errors. After an error of the socket itself, the reader is no longer open. */
  readonly onError: (error: unknown) => void;
}

/** Does not keep the process alive. Dispose it to close the socket. */
export class NetlinkReader implements Disposable {
  readonly #options: NetlinkReaderOptions;
  #poll: Poll | undefined;
  #pause: NodeJS.Timeout | undefined;

  /** @throws what `begin` throws; the socket is closed then. */
  constructor(options: NetlinkReaderOptions) {
    this.#options = options;
    try {
      options.begin?.();
      this.#watch();
    } catch (error) {
      options.socket[Symbol.dispose]();
      throw error;
    }
  }

  /** False after it was disposed, and after the socket has failed. */
  get isOpen(): boolean {
    return this.#poll !== undefined || this.#pause !== undefined;
  }

  #watch(): void {
    this.#poll?.[Symbol.dispose]();
    this.#poll = pollReadable(this.#options.socket.fd, () => this.#read());
    this.#poll.unref();
  }

  #read(): void {
    const { socket, onOverrun, onRead, onError, pauseMs } = this.#options;
    const endMs = performance.now() + SLICE_MS;
    let [isOverrun, isOver] = [false, false];
    try {
      // The reader may have been disposed, by a listener or before this event was handled.
      while (this.#poll !== undefined && !isOver) {
        const bytes = socket.receive();
        if (bytes === 'nothing') break;
        if (bytes === 'overrun') {
          isOverrun = true;
          onOverrun?.();
        } else for (const message of messagesOf(bytes)) this.#take(message);
        isOver = performance.now() >= endMs;
      }
      // libuv stops watching a descriptor after an error such as ENOBUFS (unix/poll.c, uv__poll_io).
      if (isOverrun && this.#poll !== undefined) this.#watch();
      if (this.#poll !== undefined) onRead?.();
      if (this.#poll !== undefined && isOver && pauseMs !== undefined) this.#pauseFor(pauseMs);
    } catch (error) {
      // An error of the socket itself: it would fail again and again.
      this[Symbol.dispose]();
      onError(error);
    }
  }

  #pauseFor(pauseMs: number): void {
    this.#poll?.[Symbol.dispose]();
    this.#poll = undefined;
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.#watch();
    }, pauseMs).unref();
  }

  #take(message: NetlinkMessage): void {
    try {
      this.#options.onMessage(message);
    } catch (error) {
      this.#options.onError(error);
    }
  }

  [Symbol.dispose](): void {
    this.#poll?.[Symbol.dispose]();
    this.#poll = undefined;
    clearTimeout(this.#pause);
    this.#pause = undefined;
    this.#options.socket[Symbol.dispose]();
  }
}
