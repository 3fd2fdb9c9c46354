/** The HTTP/2 connections to one server with one client certificate: one, and more only if the server's limit of streams is reached. */
import type { ClientHttp2Session } from 'node:http2';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';

import { orAborted } from '../../time/abort.ts';
import type { Clock } from '../../time/clock.ts';
import { type Incoming, type Outgoing, SendError } from './exchange.ts';
import { connectHttp2, Http2Session } from './http2-session.ts';

/** Limit for the connection, the TLS handshake and the server's settings: client-go gives a connection 30 s. */
const OPEN_TIMEOUT_MS = 30_000;

interface Http2SessionsOptions {
  readonly server: URL;
  readonly tls: ConnectionOptions;
  readonly keepAliveProbeMs: number;
  readonly clock: Clock;
  /** Gets the socket of a handshake where the server chose HTTP/1.1. */
  readonly onHttp1: (socket: TLSSocket) => void;
}

/** A handshake that several requests may wait for. */
interface Opening {
  readonly done: Promise<'h2' | 'http/1.1'>;
  readonly cancel: () => void;
  waiting: number;
}

/** Opens sessions on demand. The owner disposes it, which destroys all of them. */
export class Http2Sessions implements Disposable {
  readonly #options: Http2SessionsOptions;
  readonly #sessions = new Set<Http2Session>();
  #opening: Opening | undefined;
  #retired = false;
  #disposed = false;

  constructor(options: Http2SessionsOptions) {
    this.#options = options;
  }

  /** Like {@link Transport.send}, with its errors; undefined if the server speaks HTTP/1.1. */
  async send(outgoing: Outgoing, signal: AbortSignal): Promise<Incoming | undefined> {
    for (;;) {
      if (this.#disposed) throw new SendError(new Error('socket hang up'));
      const session = this.#withRoom();
      if (session !== undefined) return session.exchange(outgoing, signal);
      if ((await this.#opened(signal)) === 'http/1.1') return undefined;
    }
  }

  closeUnused(): void {
    for (const session of this.#sessions) session.closeUnused();
  }

  /** Opens no more streams; each session ends with the last of its own. */
  retire(): void {
    this.#retired = true;
    for (const session of this.#sessions) session.close();
  }

  get unused(): boolean {
    return this.#opening === undefined && this.#sessions.size === 0;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#opening?.cancel();
    for (const session of this.#sessions) session[Symbol.dispose]();
  }

  #withRoom(): Http2Session | undefined {
    for (const session of this.#sessions) if (session.hasRoom) return session;
    return undefined;
  }

  async #opened(signal: AbortSignal): Promise<'h2' | 'http/1.1'> {
    const opening = (this.#opening ??= this.#open());
    opening.waiting++;
    try {
      return await orAborted(opening.done, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw new SendError(error);
    } finally {
      if (--opening.waiting === 0) opening.cancel();
    }
  }

  #open(): Opening {
    const { server, tls, keepAliveProbeMs, clock, onHttp1 } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<'h2' | 'http/1.1'>();
    const socket = connect({ ...tls, ALPNProtocols: ['h2', 'http/1.1'] });
    socket.setNoDelay(true).setKeepAlive(true, keepAliveProbeMs);
    let session: ClientHttp2Session | undefined;
    let open = true;
    const settled = (): void => {
      open = false;
      cancelTimer();
      if (this.#opening === opening) this.#opening = undefined;
    };
    const fail = (error: Error): void => {
      if (!open) return;
      settled();
      reject(error);
      (session ?? socket).destroy();
    };
    const cancelTimer = clock.schedule(OPEN_TIMEOUT_MS, () =>
      fail(new Error(`no connection within ${OPEN_TIMEOUT_MS} ms`)),
    );
    const cancel = (): void => fail(new Error('socket hang up'));
    const opening: Opening = { done: promise, cancel, waiting: 0 };
    // This listener stays: the later owner of the socket adds its own.
    socket.on('error', fail);
    socket.once('close', cancel);
    socket.once('secureConnect', () => {
      if (socket.alpnProtocol !== 'h2') {
        settled();
        onHttp1(socket);
        return resolve('http/1.1');
      }
      session = connectHttp2(server, socket);
      session.on('error', fail);
      session.once('remoteSettings', () => {
        if (!open || session === undefined) return;
        settled();
        this.#add(session);
        resolve('h2');
      });
    });
    return opening;
  }

  #add(connected: ClientHttp2Session): void {
    const session = new Http2Session(connected, this.#options.clock);
    this.#sessions.add(session);
    connected.once('close', () => this.#sessions.delete(session));
    // Requests that wait for the session open their streams in this turn of the event loop. close() then ends the session with its last
    // stream.
    if (this.#retired) setImmediate(() => session.close());
  }
}
