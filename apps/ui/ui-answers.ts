/** Answers browsers' requests for the page, wherever it is served. It only reads. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import { visibleJson } from '../../lib/output/printable.ts';
import { streamFindings } from './finding-events.ts';
import { bearerIn, type Gate, isRefusal } from './gate.ts';
import type { PageFiles } from './page-files.ts';
import { type Refusal, refusalOf } from './refusal.ts';
import type { UiPicture, UiReport } from './report.ts';

export interface UiPart {
  readonly page: PageFiles;
  readonly gate: Gate;
  /** Receives faults of the program for the log; the browser learns only that there was one. */
  readonly failed: (error: unknown) => void;
  /** Called if the request comes from a known user. */
  readonly known?: () => void;
}

const headers = {
  'Cache-Control': 'no-store',
  // No inline script or style, nothing from other origins, in no frame.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/**
 * Never rejects.
 *
 * @param path - Relative to the page: `/` is the page. Undefined: outside the page, answered as not found.
 */
export async function answerUi(
  request: IncomingMessage,
  response: ServerResponse,
  path: string | undefined,
  part: UiPart,
): Promise<void> {
  const left = new AbortController();
  response.on('close', () => left.abort());
  try {
    await answer(request, response, path, { ...part, signal: left.signal });
  } catch (error) {
    // The browser no longer waits for the answer.
    if (left.signal.aborted) return;
    part.failed(error);
    if (response.headersSent) response.destroy();
    else refuse(response, { status: 500, why: 'a fault of the program: the log says more' });
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  path: string | undefined,
  { page, gate, known, signal }: UiPart & { readonly signal: AbortSignal },
): Promise<void> {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  const refusal = refusalOf(request, gate.site);
  if (refusal !== undefined) return refuse(response, refusal);
  const file = page.get(path ?? '');
  if (file !== undefined) {
    response.setHeader('Content-Type', file.type);
    return void response.end(file.content);
  }
  if (path === '/session') return exchange(request, response, gate);
  const [, pictured] = /^\/pictures\/([\w-]+)\.json$/.exec(path ?? '') ?? [];
  if (path !== '/status.json' && path !== '/findings' && pictured === undefined)
    return refuse(response, { status: 404, why: 'there is no such page' });
  const view = await gate.admit(request.headers);
  if (isRefusal(view)) return refuse(response, view, gate);
  known?.();
  if (path === '/findings') return streamFindings(request, response, view.findings);
  const answered = await (pictured === undefined ? view.report(signal) : view.picture(pictured, signal));
  if (answered === undefined) return refuse(response, { status: 404, why: 'this guard has no picture' });
  answerReport(request, response, answered);
}

async function exchange(request: IncomingMessage, response: ServerResponse, gate: Gate): Promise<void> {
  const exchanged = await gate.exchange(bearerIn(request.headers.authorization));
  if (typeof exchanged !== 'string') return refuse(response, exchanged, gate);
  response.setHeader('Set-Cookie', exchanged);
  response.writeHead(204).end();
}

/** Keys that differ in each reading, even if nothing has happened: they do not count for the ETag. */
const volatile: ReadonlySet<string> = new Set(['time', 'agentRenewed', 'renewedSecondsAgo']);

function answerReport(
  request: IncomingMessage,
  response: ServerResponse,
  report: UiPicture | UiReport,
): void {
  const stable = JSON.stringify(report, (key, value: unknown) => (volatile.has(key) ? undefined : value));
  const tag = `"${createHash('sha256').update(stable).digest('base64url')}"`;
  response.setHeader('ETag', tag);
  if (request.headers['if-none-match'] === tag) return void response.writeHead(304).end();
  response.setHeader('Content-Type', 'application/json');
  response.end(visibleJson(JSON.stringify(report)));
}

export function refuse(response: ServerResponse, { status, why }: Refusal, gate?: Gate): void {
  if (status === 405) response.setHeader('Allow', 'GET');
  // The page asks for a token then.
  if (status === 401 && gate?.takesTokens === true) response.setHeader('WWW-Authenticate', 'Bearer');
  response.setHeader('Content-Type', 'text/plain; charset=utf-8');
  response.writeHead(status).end(`${why}\n`);
}

/** Without the query. */
export function pathOf(url = ''): string {
  return url.replace(/\?.*$/, '');
}
