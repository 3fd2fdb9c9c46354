/** The requests in progress: their time limits, and how they end when the server stops. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import type { Exchange } from './exchange.ts';
import type { Limits } from './server-options.ts';

const sweepMs = 1_000;
/** How often to check whether the server can end. */
const pollMs = 20;
/** Time for complete answers to reach their clients when the server stops. */
const flushMs = 500;

export class ActiveExchanges implements Disposable {
  readonly #limits: Limits;
  readonly #exchanges = new Set<Exchange>();
  readonly #sockets = new Set<Socket>();
  readonly #sweep: NodeJS.Timeout;

  /**
   * One timer for all requests: making one for each costs more than the rest of the bookkeeping.
   *
   * @param onTimeout answers a request whose time is up and whose answer has not begun.
   */
  constructor(limits: Limits, onTimeout: (exchange: Exchange) => void) {
    this.#limits = limits;
    this.#sweep = setInterval(
      () => this.#sweepOld(onTimeout),
      Math.min(sweepMs, limits.requestTimeoutMs, limits.stallMs),
    ).unref();
  }

  add(exchange: Exchange): void {
    this.#exchanges.add(exchange);
  }

  delete(exchange: Exchange): void {
    this.#exchanges.delete(exchange);
  }

  /** Records the server's connections for `close`, including those that never send a request. */
  follow(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  isAnswering(socket: Duplex): boolean {
    for (const { request, response } of this.#exchanges) {
      if (request.socket === socket && response.headersSent) return true;
    }
    return false;
  }

  #sweepOld(onTimeout: (exchange: Exchange) => void): void {
    const now = performance.now();
    for (const exchange of this.#exchanges) {
      if (exchange.isLong) {
        const { stalledSinceMs } = exchange;
        if (stalledSinceMs !== undefined && now - stalledSinceMs > this.#limits.stallMs) exchange.destroy();
      } else if (!exchange.isAbandoned && now - exchange.startedMs > this.#limits.requestTimeoutMs) {
        if (exchange.response.headersSent) exchange.destroy();
        else onTimeout(exchange);
        exchange.isAbandoned = true;
        exchange.abort();
      }
    }
  }

  /** Accepts no more connections, ends the watches, and gives other requests time to end. Resolves when all connections are closed. */
  async close(server: Server): Promise<void> {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    for (const exchange of this.#exchanges) if (exchange.isLong) exchange.abort();
    const deadline = performance.now() + this.#limits.stopMs;
    let quietSinceMs: number | undefined;
    const poll = setInterval(() => {
      const now = performance.now();
      server.closeIdleConnections();
      if (this.#exchanges.size > 0) quietSinceMs = undefined;
      else quietSinceMs ??= now;
      // From here on, only slow requests, connections without a request and clients that do not read remain: they are cut off.
      if (now < deadline && (quietSinceMs === undefined || now - quietSinceMs < flushMs)) return;
      for (const exchange of this.#exchanges) exchange.abort();
      for (const socket of this.#sockets) socket.destroy();
    }, pollMs);
    await closed;
    clearInterval(poll);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweep);
  }
}
