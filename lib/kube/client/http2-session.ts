/** One HTTP/2 connection to an API server, with its streams. */
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2';
import { Readable } from 'node:stream';
import type { TLSSocket } from 'node:tls';

import type { Clock } from '../../time/clock.ts';
import { asError, IDLE_CONNECTION_MS, type Incoming, type Outgoing, SendError } from './exchange.ts';

/** client-go's ReadIdleTimeout and PingTimeout (k8s.io/apimachinery/pkg/util/net/http.go). */
const SILENT_MS = 30_000;
const PING_TIMEOUT_MS = 15_000;
/** If a request got no answer for this long, and nothing else came either, the next one takes another connection. */
const DOUBTFUL_MS = 5000;
/**
 * How much of one answer may be in flight or wait for a slow reader. With the 64 KiB of HTTP/2's default, a
 * long list takes a round trip for each 64 KiB.
 */
const STREAM_WINDOW_BYTES = 1024 * 1024;
/** How much of all answers together may be in flight. Node.js reopens this window on receipt, so slow readers do not use it up. */
const CONNECTION_WINDOW_BYTES = 4 * STREAM_WINDOW_BYTES;

/** RFC 9113, 7 */
const REFUSED_STREAM = 7;
const CANCEL = 8;

/** The session over a socket whose handshake chose `h2`. It takes requests once its `remoteSettings` have come. */
export function connectHttp2(origin: URL, socket: TLSSocket): ClientHttp2Session {
  // Loaded only once a server speaks HTTP/2.
  const { connect } = process.getBuiltinModule('node:http2');
  const session = connect(origin.origin, {
    createConnection: () => socket,
    settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES },
  });
  session.once('connect', () => {
    if (!session.destroyed) session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
  });
  return session;
}

/** A session that has the server's settings. It ends by itself, by {@link Http2Session.close}, or by disposal. */
export class Http2Session implements Disposable {
  readonly #session: ClientHttp2Session;
  readonly #clock: Clock;
  #streams = 0;
  #heardMs: number;
  /** Whether it has ever answered: then its end does not mean that the server rejected the last request. */
  #answered = false;
  #failure: Error | undefined;
  /** From a GOAWAY: later streams were not processed. */
  #lastStreamId = Infinity;
  /** Whether the peer may be dead; reset by the next data from it. */
  #doubtful = false;
  #cancelCheck: (() => void) | undefined;

  constructor(session: ClientHttp2Session, clock: Clock) {
    this.#session = session;
    this.#clock = clock;
    this.#heardMs = clock.monotonicMs();
    session.on('error', (error) => (this.#failure ??= error));
    session.on('goaway', (_code, lastStreamId) => (this.#lastStreamId = lastStreamId));
    session.on('close', () => this.#cancelCheck?.());
    session.on('timeout', () => this.closeUnused());
    this.#rest();
  }

  get ended(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  /** Whether another stream can be opened now, without waiting. */
  get hasRoom(): boolean {
    // At least one: for a server that allows none, sessions would be opened forever.
    const max = Math.max(1, this.#session.remoteSettings.maxConcurrentStreams ?? Infinity);
    return !this.ended && !this.#doubtful && this.#streams < max;
  }

  /** Like {@link Transport.send}, with its errors. Opens the stream before it first waits. */
  async exchange({ method, path, headers, body }: Outgoing, signal: AbortSignal): Promise<Incoming> {
    const stream = this.#session.request(
      { ...(headers as Record<string, string | string[]>), ':method': method, ':path': path },
      { endStream: body === undefined },
    );
    const startedMs = this.#clock.monotonicMs();
    let failure: Error | undefined;
    const why = (otherwise: string): Error => failure ?? this.#failure ?? new Error(otherwise);
    stream.on('error', (error) => (failure ??= error));
    this.#begin();
    let answer: StreamBody | undefined;
    const { promise, resolve, reject } = Promise.withResolvers<Incoming>();
    stream.once('response', (head: IncomingHttpHeaders & { ':status'?: number }) => {
      this.#answered = true;
      this.#heard();
      answer = new StreamBody(stream, { why: () => why('aborted'), heard: () => this.#heard() });
      resolve({ status: head[':status'] ?? 0, headers: head, body: answer });
    });
    const onAbort = (): void => {
      if (answer !== undefined) return void answer.destroy(asError(signal.reason));
      cancel(stream);
      // Pings find a dead peer too late to keep a lease. Running requests continue: the server may be slow
      // rather than gone.
      const waitedMs = this.#clock.monotonicMs() - startedMs;
      if (this.#heardMs < startedMs && waitedMs >= DOUBTFUL_MS) this.#doubtful = true;
    };
    signal.addEventListener('abort', onAbort, { once: true });
    stream.once('close', () => {
      signal.removeEventListener('abort', onAbort);
      this.#end();
      const unprocessed = stream.rstCode === REFUSED_STREAM || (stream.id ?? 0) > this.#lastStreamId;
      reject(new SendError(why('socket hang up'), { stale: this.#answered && this.ended, unprocessed }));
    });
    if (body !== undefined) stream.end(body);
    try {
      return await promise;
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }

  /** Opens no more streams; the session ends with the last running one. */
  close(): void {
    this.#session.close();
  }

  closeUnused(): void {
    if (this.#streams === 0) this.#session.close();
  }

  [Symbol.dispose](): void {
    this.#session.destroy();
  }

  #begin(): void {
    if (this.#streams++ > 0) return;
    this.#session.ref();
    this.#session.setTimeout(0);
    this.#check();
  }

  #end(): void {
    if (--this.#streams > 0) return;
    this.#cancelCheck?.();
    if (!this.ended) this.#rest();
  }

  /** Called when no stream is left: the connection no longer keeps the process alive, and is closed after a while. */
  #rest(): void {
    this.#session.unref();
    this.#session.setTimeout(IDLE_CONNECTION_MS);
  }

  #heard(): void {
    this.#heardMs = this.#clock.monotonicMs();
    this.#doubtful = false;
  }

  /** Pings a silent peer. */
  #check(): void {
    this.#cancelCheck?.();
    const sinceMs = this.#clock.monotonicMs() - this.#heardMs;
    this.#cancelCheck = this.#clock.schedule(Math.max(0, SILENT_MS - sinceMs), () => {
      // Node.js sends no PING after a GOAWAY: then TCP and the limits of the calls find a dead peer.
      if (this.ended) return;
      if (this.#clock.monotonicMs() - this.#heardMs < SILENT_MS) return this.#check();
      this.#ping();
    });
  }

  #ping(): void {
    const heardMs = this.#heardMs;
    this.#cancelCheck = this.#clock.schedule(PING_TIMEOUT_MS, () => {
      if (this.ended) return;
      if (this.#heardMs !== heardMs) return this.#check();
      this.#session.destroy(new Error(`no answer to a ping within ${PING_TIMEOUT_MS} ms`));
    });
    this.#session.ping((error) => {
      if (error !== null) return;
      this.#heard();
      if (this.#streams > 0) this.#check();
    });
  }
}

/** The body of an answer. Node.js ends one that was cut off like one that is complete; here, reading throws. */
class StreamBody extends Readable {
  readonly #stream: ClientHttp2Stream;

  constructor(
    stream: ClientHttp2Stream,
    { why, heard }: { readonly why: () => Error; readonly heard: () => void },
  ) {
    super();
    this.#stream = stream;
    let complete = false;
    // The reader gets the error; without a reader, it must not end the process.
    this.on('error', () => undefined);
    stream.on('data', (chunk: Buffer) => {
      heard();
      if (!this.push(chunk)) stream.pause();
    });
    stream.once('end', () => {
      if (stream.rstCode) return;
      complete = true;
      this.push(null);
    });
    stream.once('close', () => {
      if (!complete) this.destroy(why());
    });
  }

  override _read(): void {
    this.#stream.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    cancel(this.#stream);
    callback(error);
  }
}

function cancel(stream: ClientHttp2Stream): void {
  if (!stream.closed) stream.close(CANCEL);
  // Otherwise the stream would wait until the received data is read.
  stream.destroy();
}
