/** Findings as server-sent events (https://html.spec.whatwg.org/#server-sent-events): a browser that comes back names the last one it had. */
import type { IncomingMessage, ServerResponse } from 'node:http';

import type { LineFeed } from '../../lib/feed/line-feed.ts';

/** Whoever takes so little of what comes is cut off, and resumes. More than all that is kept of one kind. */
const MOST_WAITING_BYTES = 64 * 1024 * 1024;
/** Of a connection through which nothing comes, nobody sees that it is broken. */
const ALIVE_MS = 15_000;

/** Sends those after `Last-Event-ID` and what comes, until the connection ends. `live` comes after what was kept. */
export function streamFindings(request: IncomingMessage, response: ServerResponse, feed: LineFeed): void {
  const after = Number(request.headers['last-event-id'] ?? 0);
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const past = feed.kept().filter(({ number }) => !(number <= after));
  response.write(past.map(({ number, line }) => eventOf(number, line)).join(''));
  response.write('event: live\ndata: \n\n');
  const subscription = feed.subscribe((number, line) => {
    response.write(eventOf(number, line));
    if (response.writableLength > MOST_WAITING_BYTES) response.destroy();
  });
  const alive = setInterval(() => response.write(':\n\n'), ALIVE_MS);
  response.on('error', () => undefined);
  response.on('close', () => {
    clearInterval(alive);
    subscription[Symbol.dispose]();
  });
}

function eventOf(number: number, line: string): string {
  return `id: ${number}\ndata: ${line}\n\n`;
}
