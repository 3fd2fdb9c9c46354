/**
 * A proxy before an API server that does to its answers what networks, load balancers and servers do. Which server it
 * is does not matter to it: it takes a base URL.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { createServer, request as send } from '../../net/node-http.ts';
import { json, status } from './api-server.fixture.ts';

/** A fault in one answer. */
export type Fault =
  /** An error instead of it. */
  | { readonly kind: 'status'; readonly code: number }
  /** The connection is reset before it begins. */
  | { readonly kind: 'refuse' }
  /** It never begins, or stops after some bytes, and the connection stays open. */
  | { readonly kind: 'silent' }
  | { readonly kind: 'stall'; readonly afterBytes: number }
  /** Reset after `afterBytes`, or ended as if it were complete. */
  | { readonly kind: 'reset'; readonly afterBytes: number }
  | { readonly kind: 'truncate'; readonly afterBytes: number }
  /** In small pieces with pauses, for `pieces` pieces. */
  | { readonly kind: 'slow'; readonly pieceBytes: number; readonly pieces: number; readonly pauseMs: number }
  /** 410: for a list instead of the answer, for a watch after `afterLines` lines. */
  | { readonly kind: 'gone'; readonly afterLines: number }
  /** Something that is not an answer of the API, for a watch after some lines. */
  | {
      readonly kind: 'garbage';
      readonly afterLines: number;
      readonly text: string;
      readonly contentType: string;
    }
  /**
   * After every `every` lines: older ones of this watch and of earlier ones come again, newest or oldest
   * first.
   */
  | { readonly kind: 'replay'; readonly every: number; readonly reversed: boolean }
  /** Bookmarks are held back, and come twice, after others. */
  | { readonly kind: 'bookmarks' }
  /** An answer to the same request from before. */
  | { readonly kind: 'stale' }
  /** All connections are reset, and none is accepted for `downMs`. */
  | { readonly kind: 'restart'; readonly downMs: number };

export interface Asked {
  readonly url: URL;
  readonly watch: boolean;
  /** Requests before this one. */
  readonly count: number;
}

/** A chunk of an answer on its way: what to write instead, and whether that is the end. */
type Pass = (chunk: Buffer) => Promise<void> | void;

interface Line {
  readonly version: number;
  readonly text: string;
}

const LINES_KEPT = 200;

/** Use {@link startFaultProxy}. */
class FaultProxy implements AsyncDisposable {
  readonly #target: URL;
  readonly #decide: (asked: Asked) => Fault | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** By what is watched: the lines that were sent last. By URL: the list that was sent last. */
  readonly #lines = new Map<string, Line[]>();
  readonly #lists = new Map<string, Buffer>();
  #down: Promise<unknown> | undefined;
  #count = 0;
  readonly faults: Record<string, number> = {};

  constructor(target: string, decide: (asked: Asked) => Fault | undefined) {
    this.#target = new URL(target);
    this.#decide = decide;
    this.#server = createServer((request, response) => this.#answer(request, response));
    this.#server.on('connection', (socket: Socket) => {
      if (this.#down !== undefined) return reset(socket);
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Faults that were done. */
  get done(): number {
    return Object.values(this.faults).reduce((sum, count) => sum + count, 0);
  }

  /** Resets all connections, those of watches that were well too. Counts as a fault. */
  breakConnections(): void {
    this.faults['break'] = (this.faults['break'] ?? 0) + 1;
    for (const socket of this.#sockets) reset(socket);
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#down;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', 'http://api');
    const watch = url.searchParams.get('watch') === 'true';
    const fault = this.#decide({ url, watch, count: this.#count++ });
    if (fault !== undefined) this.faults[fault.kind] = (this.faults[fault.kind] ?? 0) + 1;
    response.on('error', () => undefined);
    switch (fault?.kind) {
      case 'status':
        return json(response, fault.code, status(fault.code, 'Injected', 'a fault'), { 'retry-after': '0' });
      case 'refuse':
        return reset(response.socket);
      case 'silent':
        return;
      case 'restart':
        this.#restart(fault.downMs);
        return;
      case 'gone':
        if (!watch) return json(response, 410, status(410, 'Expired', 'a fault'));
        break;
      case 'garbage':
        if (watch) break;
        response.writeHead(200, { 'content-type': fault.contentType });
        return void response.end(fault.text);
      case 'stale': {
        const old = this.#lists.get(url.search);
        if (watch || old === undefined) break;
        response.writeHead(200, { 'content-type': 'application/json' });
        return void response.end(old);
      }
      case undefined:
      case 'stall':
      case 'reset':
      case 'truncate':
      case 'slow':
      case 'replay':
      case 'bookmarks':
        break;
    }
    this.#forward(request, response, watch, fault);
  }

  #restart(downMs: number): void {
    this.#down ??= sleep(downMs).then(() => (this.#down = undefined));
    for (const socket of this.#sockets) reset(socket);
  }

  #forward(
    request: IncomingMessage,
    response: ServerResponse,
    watch: boolean,
    fault: Fault | undefined,
  ): void {
    const outgoing = send(new URL(request.url ?? '', this.#target), {
      agent: false,
      headers: { host: 'api' },
    });
    const stop = (): void => reset(response.socket);
    outgoing.on('error', stop);
    outgoing.on('response', (incoming) => {
      response.writeHead(incoming.statusCode ?? 502, { 'content-type': incoming.headers['content-type'] });
      response.flushHeaders();
      const pass = this.#pass(request, response, watch, fault);
      const body: Buffer[] = [];
      void (async () => {
        for await (const chunk of incoming as AsyncIterable<Buffer>) {
          if (!watch) body.push(chunk);
          await pass(chunk);
        }
        if (!watch && incoming.statusCode === 200 && !request.url?.includes('continue=')) {
          this.#lists.set(new URL(request.url ?? '', 'http://api').search, Buffer.concat(body));
        }
        if (fault?.kind !== 'stall') response.end();
      })().catch(stop);
    });
    // A watch whose reader has gone ends at the server too.
    response.on('close', () => outgoing.destroy());
    outgoing.end();
  }

  #pass(request: IncomingMessage, response: ServerResponse, watch: boolean, fault: Fault | undefined): Pass {
    if (fault?.kind === 'slow') return slow(response, fault);
    if (fault?.kind === 'stall' || fault?.kind === 'reset' || fault?.kind === 'truncate') {
      return cutting(response, fault.kind, fault.afterBytes);
    }
    if (!watch) return (chunk) => void response.write(chunk);
    return this.#lineByLine(response, subjectOf(request.url), fault);
  }

  #lineByLine(response: ServerResponse, subject: string, fault: Fault | undefined): Pass {
    const sent = this.#lines.get(subject) ?? [];
    this.#lines.set(subject, sent);
    let rest = '';
    let count = 0;
    const held: string[] = [];
    return (chunk) => {
      const lines = (rest + chunk.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const write = (text: string): void => void response.write(`${text}\n`, 'latin1');
        if (fault?.kind === 'gone' && count >= fault.afterLines) {
          return void response.end(
            `${JSON.stringify({ type: 'ERROR', object: status(410, 'Expired', 'a fault') })}\n`,
          );
        }
        if (fault?.kind === 'garbage' && count >= fault.afterLines)
          return void response.end(`${fault.text}\n`);
        count++;
        if (fault?.kind === 'bookmarks' && line.includes('"BOOKMARK"')) {
          held.unshift(line);
          if (held.length >= 3) for (const bookmark of [...held.splice(0), line]) write(bookmark);
          continue;
        }
        write(line);
        const version = Number(/"resourceVersion":"(\d+)"/.exec(line)?.[1] ?? NaN);
        if (fault?.kind === 'replay' && count % fault.every === 0) {
          // Newer ones would be more than old news: the connection before may have lost them.
          const old = sent.filter((one) => one.version <= version);
          for (const { text } of fault.reversed ? old.reverse() : old) write(text);
        }
        if (!Number.isNaN(version)) sent.push({ version, text: line });
        if (sent.length > LINES_KEPT) sent.shift();
      }
    };
  }
}

/** A proxy on a free port of loopback; dispose it. `decide` is asked once for each request. */
export async function startFaultProxy(
  target: string,
  decide: (asked: Asked) => Fault | undefined,
): Promise<FaultProxy> {
  const proxy = new FaultProxy(target, decide);
  await proxy.listen();
  return proxy;
}

/** Ends a connection with a RST. Node.js never frees a socket that is reset while it is shutting down. */
function reset(socket: Socket | null): void {
  if (socket === null || socket.destroyed) return;
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/** The listed or watched resource, without the version to start from. */
export function subjectOf(path = ''): string {
  const { pathname, searchParams } = new URL(path, 'http://api');
  return `${pathname} ${searchParams.get('labelSelector') ?? ''} ${searchParams.get('fieldSelector') ?? ''}`;
}

function cutting(response: ServerResponse, kind: 'stall' | 'reset' | 'truncate', afterBytes: number): Pass {
  let left = afterBytes;
  return async (chunk) => {
    if (left > 0) response.write(chunk.subarray(0, left));
    left -= chunk.length;
    if (left > 0 || kind === 'stall') return;
    if (kind === 'truncate') return void response.end();
    // Written data should arrive before the reset.
    await sleep(2);
    reset(response.socket);
  };
}

function slow(response: ServerResponse, { pieceBytes, pieces, pauseMs }: Fault & { kind: 'slow' }): Pass {
  let left = pieces;
  return async (chunk) => {
    for (let at = 0; at < chunk.length && !response.destroyed;) {
      const end = left-- > 0 ? at + pieceBytes : chunk.length;
      response.write(chunk.subarray(at, end));
      at = end;
      if (at < chunk.length || left > 0) await sleep(pauseMs);
    }
  };
}
