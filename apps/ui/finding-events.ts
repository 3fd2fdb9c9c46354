/**
 * Findings as server-sent events (https://html.spec.whatwg.org/#server-sent-events): a browser that reconnects names the last event it
 * received.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

import type { FindingFeed } from './finding-feed.ts';

/** A reader with more waiting than this is disconnected, and resumes. It is more than all kept findings of one kind. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
/** Without traffic, a broken connection is not detected. */
const ALIVE_MS = 15_000;

/**
 * Sends the kept findings after `Last-Event-ID`, then new ones, until the connection ends. The event `live` follows the kept ones; `anew`
 * precedes them if the id is from another epoch.
 */
export function streamFindings(request: IncomingMessage, response: ServerResponse, feed: FindingFeed): void {
  const last = String(request.headers['last-event-id'] ?? '');
  const [epoch, number] = last.split('-');
  const isSame = epoch === feed.epoch && /^\d+$/.test(number ?? '');
  // Otherwise nginx would hold events back until it has some kilobytes.
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' });
  response.flushHeaders();
  // The kept findings are sent in one piece.
  response.cork();
  if (last !== '' && !isSame) response.write('event: anew\ndata: \n\n');
  const following = feed.follow(isSame ? Number(number) : 0, {
    line: (at, line) => {
      response.write(`id: ${feed.epoch}-${at}\ndata: ${line}\n\n`);
      if (response.writableLength > MAX_WAITING_BYTES) response.destroy();
    },
    live: () => {
      response.write('event: live\ndata: \n\n');
      response.uncork();
    },
    fail: () => response.destroy(),
  });
  const alive = setInterval(() => response.write(':\n\n'), ALIVE_MS);
  response.on('error', () => undefined);
  response.on('close', () => {
    clearInterval(alive);
    following[Symbol.dispose]();
  });
}
