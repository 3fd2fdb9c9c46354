/** Sends a watch as an endless answer: lines of events, only as fast as the client reads them. */
import type { Format } from '../render/format.ts';
import type { Renderer } from '../render/renderer.ts';
import type { ApiError } from '../resources/api-error.ts';
import type { ItemWatch } from '../verbs/request.ts';
import type { Exchange } from './exchange.ts';
import { drained, writeHead } from './send.ts';
import type { Traffic } from './traffic.ts';

interface WatchStreamParts {
  readonly renderer: Renderer;
  readonly format: Format;
  readonly traffic: Traffic;
  /** Converts an error into what the client may see. */
  readonly reported: (error: unknown) => ApiError;
}

/** Resolves when the watch ends or the client has disconnected. An error of the watch becomes its last event. */
export async function streamWatch(
  exchange: Exchange,
  watch: ItemWatch,
  { renderer, format, traffic, reported }: WatchStreamParts,
): Promise<void> {
  const { response } = exchange;
  writeHead(exchange, 200, ['Content-Type', format.contentType]);
  // The client has to learn that the watch runs, even if there is no event yet.
  response.flushHeaders();
  traffic.watchers++;
  let isFirst = true;
  try {
    for await (const batch of watch.events) {
      if (response.destroyed) return;
      const text = renderer.renderEvents(batch, watch.resource, format, new Date(), isFirst);
      isFirst = false;
      traffic.watchEvents += batch.length;
      traffic.sentBytes += text.length;
      if (response.write(text)) continue;
      traffic.watchStalls++;
      exchange.stalledSinceMs = performance.now();
      if (!(await drained(response, response))) return;
      exchange.stalledSinceMs = undefined;
    }
  } catch (error) {
    const { status } = reported(error);
    if (!response.destroyed) {
      response.write(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`);
    }
  } finally {
    traffic.watchers--;
    response.end();
  }
}
