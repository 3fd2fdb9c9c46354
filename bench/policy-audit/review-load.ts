/** Reviews sent on schedule over persistent connections, whether or not earlier ones are answered. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

import { type Endpoint, LoadConnection } from '../apiserver/load-connection.ts';

/** A server answers as many at once as come; more connections than that wait for nothing. */
const CONNECTIONS = 64;

export interface Schedule {
  /** How often a second something is due. */
  readonly perSecond: number;
  readonly forMs: number;
  readonly signal: AbortSignal;
}

export interface Latencies {
  /** From when it was due, or when this process came to it if that is later, until all of its reviews were answered. */
  readonly timesMs: readonly number[];
  /** How much later than due this process came to it: not the server's fault, so not part of the times. */
  readonly lateMs: readonly number[];
}

/** A review: its URL path, and its JSON. */
export type Posted = readonly [path: string, body: string];

/** Dispose it to close the connections. */
export class ReviewLoad implements Disposable {
  readonly #endpoint: Endpoint;
  readonly #free: LoadConnection[] = [];
  readonly #waiting: ((connection: LoadConnection) => void)[] = [];
  readonly #stack = new DisposableStack();
  /** Bytes of an answer that allows, keyed by path. */
  readonly #allowedSizes = new Map<string, number>();

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  /**
   * Opens the connections, and learns from one review to each path how an answer looks that allows it.
   *
   * @throws {Error} if one is not allowed.
   */
  async open(paths: readonly string[], body: string): Promise<void> {
    for (let index = 0; index < CONNECTIONS; index++)
      this.#free.push(this.#stack.use(await LoadConnection.open(this.#endpoint)));
    // One on which nothing was sent yet is closed sooner than others.
    for (const connection of this.#free)
      await connection.send(connection.request('POST', paths[0] ?? '', body));
    for (const path of paths) {
      const answer = await this.#answerText(path, body);
      if (!answer.includes('"allowed":true')) throw new Error(`${path}: not allowed: ${answer}`);
      this.#allowedSizes.set(path, Buffer.byteLength(answer));
    }
  }

  /**
   * @param reviewsOf what is sent at once for the given number: the reviews of one object.
   * @throws {Error} if a review is not allowed. The signal's reason.
   */
  async run(
    reviewsOf: (number: number) => readonly Posted[],
    { perSecond, forMs, signal }: Schedule,
  ): Promise<Latencies> {
    const [timesMs, lateMs]: [number[], number[]] = [[], []];
    const running: Promise<void>[] = [];
    const startMs = performance.now();
    const count = Math.max(10, Math.round((perSecond * forMs) / 1000));
    for (let number = 0; number < count; number++) {
      const dueMs = startMs + (number * 1000) / perSecond;
      // A timer may end a fraction of a millisecond early.
      while (performance.now() < dueMs) await delay(1, undefined, { signal });
      const sentMs = performance.now();
      lateMs.push(sentMs - dueMs);
      const answered = Promise.all(reviewsOf(number).map((review) => this.#post(review)));
      const timed = answered.then(() => void timesMs.push(performance.now() - sentMs));
      // Thrown below, when nothing is under way.
      timed.catch(() => undefined);
      running.push(timed);
    }
    await Promise.all(running);
    return { timesMs, lateMs };
  }

  async #post([path, body]: Posted): Promise<void> {
    while (this.#free.at(-1)?.isOpen === false) this.#free.pop();
    const connection =
      this.#free.pop() ?? (await new Promise<LoadConnection>((give) => this.#waiting.push(give)));
    const { code, size } = await connection.send(connection.request('POST', path, body));
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(connection);
    else next(connection);
    const allowedSize = this.#allowedSizes.get(path);
    if (code !== 200 || size !== allowedSize)
      throw new Error(`${path}: not allowed: HTTP ${code}, ${size} bytes instead of ${allowedSize}`);
  }

  async #answerText(path: string, body: string): Promise<string> {
    const { host, port, ca } = this.#endpoint;
    const request = httpsRequest({
      host,
      port,
      path,
      ca,
      servername: 'localhost',
      method: 'POST',
      agent: false,
    });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return text(response);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
