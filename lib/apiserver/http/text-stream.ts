/**
 * A text without a known end as an answer: bytes as they come, as fast as the client takes them and no faster.
 */
import type { TextStream } from '../verbs/request.ts';
import type { Exchange } from './exchange.ts';
import { drained, writeHead } from './send.ts';
import type { Traffic } from './traffic.ts';

/**
 * Ends when the text does or the client has gone.
 *
 * @throws what reading the text throws; the answer has begun then.
 */
export async function streamText(
  exchange: Exchange,
  { contentType, chunks }: TextStream,
  traffic: Traffic,
): Promise<void> {
  const { response } = exchange;
  writeHead(exchange, 200, ['Content-Type', contentType]);
  // Who follows has to know that it has begun, which may be long before there is anything to tell.
  response.flushHeaders();
  for await (const chunk of chunks) {
    if (response.destroyed) return;
    traffic.sentBytes += chunk.length;
    if (chunk.length === 0 || response.write(chunk)) continue;
    exchange.stalledSinceMs = performance.now();
    if (!(await drained(response, response))) return;
    exchange.stalledSinceMs = undefined;
  }
  response.end();
}
