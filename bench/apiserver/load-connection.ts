/**
 * A connection that costs the measuring process as little as possible: HTTP/1.1 over TLS, one request at a time, of
 * the answer only the code and the length of the body. Node's own client would take the CPU that the server is
 * measured on.
 */
import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  /** PEM. */
  readonly ca: string;
  readonly token: string;
}

export interface LoadAnswer {
  readonly code: number;
  /** Bytes of the body, without those of the chunked encoding. */
  readonly size: number;
}

const headEnd = Buffer.from('\r\n\r\n');
const lineEnd = Buffer.from('\r\n');

/** Dispose it to close the connection. */
export class LoadConnection implements Disposable {
  readonly #socket: TLSSocket;
  readonly #endpoint: Endpoint;
  #answered: ((answer: LoadAnswer) => void) | undefined;
  #failed: ((error: Error) => void) | undefined;
  #reader = new AnswerReader();

  private constructor(socket: TLSSocket, endpoint: Endpoint) {
    this.#socket = socket;
    this.#endpoint = endpoint;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      const answer = this.#reader.push(chunk);
      if (answer === undefined) return;
      this.#reader = new AnswerReader();
      this.#answered?.(answer);
    });
    socket.on('error', (error) => this.#failed?.(error));
    socket.on('close', () => this.#failed?.(new Error('the server closed the connection')));
  }

  static async open(endpoint: Endpoint): Promise<LoadConnection> {
    const { host, port, ca } = endpoint;
    const socket = connect({ host, port, ca, servername: 'localhost', ALPNProtocols: ['http/1.1'] });
    await once(socket, 'secureConnect');
    return new LoadConnection(socket, endpoint);
  }

  /** A server closes one that sends nothing for a while. */
  get isOpen(): boolean {
    return this.#socket.readyState === 'open';
  }

  /** Text that can be sent many times, see {@link send}. */
  request(method: string, path: string, body = ''): string {
    const { host, port, token } = this.#endpoint;
    return (
      `${method} ${path} HTTP/1.1\r\nhost: ${host}:${port}\r\nauthorization: Bearer ${token}\r\n` +
      'accept: application/json\r\nuser-agent: bench\r\n' +
      (body === ''
        ? '\r\n'
        : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    );
  }

  /** @throws {Error} when the connection breaks. */
  send(request: string): Promise<LoadAnswer> {
    return new Promise((resolve, reject) => {
      this.#answered = resolve;
      this.#failed = reject;
      // It emits nothing more.
      if (this.#socket.destroyed) reject(new Error('the server closed the connection'));
      this.#socket.write(request);
    });
  }

  [Symbol.dispose](): void {
    this.#failed = undefined;
    this.#socket.destroy();
  }
}

/** Finds the end of one answer. */
class AnswerReader {
  #held = Buffer.alloc(0);
  #code = 0;
  #size = 0;
  #state: 'head' | 'length' | 'chunk-head' | 'chunk' | 'last' = 'head';
  /** Remaining bytes of the body, or of a chunk with its line end. */
  #left = 0;

  push(chunk: Buffer): LoadAnswer | undefined {
    let bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      if (this.#state === 'length' || this.#state === 'chunk') {
        const taken = Math.min(this.#left, bytes.length);
        this.#left -= taken;
        bytes = bytes.subarray(taken);
        if (this.#left > 0) break;
        if (this.#state === 'length') return { code: this.#code, size: this.#size };
        this.#state = 'chunk-head';
        continue;
      }
      const mark = this.#state === 'head' ? headEnd : lineEnd;
      const at = bytes.indexOf(mark);
      if (at < 0) {
        this.#held = Buffer.from(bytes);
        return undefined;
      }
      const text = bytes.toString('latin1', 0, at);
      bytes = bytes.subarray(at + mark.length);
      if (this.#state === 'last') return { code: this.#code, size: this.#size };
      if (this.#state === 'head') this.#head(text);
      else this.#chunkHead(text);
    }
    this.#held = Buffer.alloc(0);
    return undefined;
  }

  #head(text: string): void {
    this.#code = Number(text.slice(9, 12));
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
    this.#state = length === undefined ? 'chunk-head' : 'length';
    this.#left = Number(length ?? 0);
    this.#size = this.#left;
  }

  #chunkHead(text: string): void {
    const size = Number.parseInt(text, 16);
    this.#size += size;
    this.#left = size + lineEnd.length;
    this.#state = size === 0 ? 'last' : 'chunk';
  }
}

/** Sends `count` requests over these connections, each connection one at a time. Returns what it took, in ms. */
export async function sendAll(
  connections: readonly LoadConnection[],
  count: number,
  request: (connection: LoadConnection, index: number) => string,
  check: (answer: LoadAnswer) => void,
): Promise<number> {
  let next = 0;
  const startMs = performance.now();
  await Promise.all(
    connections.map(async (connection) => {
      while (next < count) check(await connection.send(request(connection, next++)));
    }),
  );
  return performance.now() - startMs;
}
