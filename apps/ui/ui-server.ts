/** The server of the page: it listens on this machine only, and only reads. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { LineFeed } from '../../lib/feed/line-feed.ts';
import { listen } from '../../lib/net/listen.ts';
import { createServer } from '../../lib/net/node-http.ts';
import { visibleJson } from '../../lib/output/printable.ts';
import { streamFindings } from './finding-events.ts';
import type { PageFiles } from './page-files.ts';
import { refusalOf } from './refusal.ts';
import type { UiReport } from './report.ts';
import { Session } from './session.ts';

export interface UiServerOptions {
  /** 0: a free one. */
  readonly port: number;
  readonly page: PageFiles;
  /** Never rejects. */
  readonly report: () => Promise<UiReport>;
  /** Of lines that are JSON. */
  readonly findings: LineFeed;
}

/** Disposing it ends its connections. */
export interface UiServer extends AsyncDisposable {
  readonly port: number;
  /** With the token, which works once. */
  readonly link: string;
}

const headers = {
  'Cache-Control': 'no-store',
  // No inline script or style, nothing from elsewhere, in nobody's frame.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

const toStart = 'Stop rampart ui and start it again: it prints a new link';

/** @throws {RampartError} `SYSTEM` where the port cannot be listened on. */
export async function serveUi(options: UiServerOptions): Promise<UiServer> {
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 10_000 });
  await listen(server, { host: '127.0.0.1', port: options.port }, 'the page');
  const { port } = server.address() as AddressInfo;
  const session = new Session(port);
  server.on('request', (request, response) => void answer(request, response, session, options));
  return {
    port,
    link: `http://127.0.0.1:${port}/#${session.token}`,
    async [Symbol.asyncDispose]() {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      server.closeAllConnections();
      await promise;
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  session: Session,
  { page, report, findings }: UiServerOptions,
): Promise<void> {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  const refusal = refusalOf(request);
  if (refusal !== undefined) return refuse(response, refusal.status, refusal.why);
  const path = (request.url ?? '').replace(/\?.*$/, '');
  const file = page.get(path);
  if (file !== undefined) {
    response.setHeader('Content-Type', file.type);
    return void response.end(file.content);
  }
  if (path === '/session') return exchange(request, response, session);
  if (path !== '/status.json' && path !== '/findings') return refuse(response, 404, 'there is no such page');
  if (!session.admits(request.headers.cookie)) return refuse(response, 401, `no session. ${toStart}`);
  if (path === '/findings') return streamFindings(request, response, findings);
  answerReport(request, response, await report());
}

function exchange(request: IncomingMessage, response: ServerResponse, session: Session): void {
  const [, token = ''] = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '') ?? [];
  const exchanged = session.exchange(token);
  if (exchanged === 'wrong') return refuse(response, 401, `this is not the link of this process. ${toStart}`);
  if (exchanged === 'used') return refuse(response, 401, `the link was used before. ${toStart}`);
  response.setHeader('Set-Cookie', exchanged.setCookie);
  response.writeHead(204).end();
}

/** Changes at each look, although nothing has happened. */
const volatile: ReadonlySet<string> = new Set(['time', 'agentRenewed', 'renewedSecondsAgo']);

function answerReport(request: IncomingMessage, response: ServerResponse, report: UiReport): void {
  const stable = JSON.stringify(report, (key, value: unknown) => (volatile.has(key) ? undefined : value));
  const tag = `"${createHash('sha256').update(stable).digest('base64url')}"`;
  response.setHeader('ETag', tag);
  if (request.headers['if-none-match'] === tag) return void response.writeHead(304).end();
  response.setHeader('Content-Type', 'application/json');
  response.end(visibleJson(JSON.stringify(report)));
}

function refuse(response: ServerResponse, status: number, why: string): void {
  if (status === 405) response.setHeader('Allow', 'GET');
  response.setHeader('Content-Type', 'text/plain; charset=utf-8');
  response.writeHead(status).end(`${why}\n`);
}
