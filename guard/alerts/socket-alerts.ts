import { Backoff } from '../../lib/time/backoff.ts';
import { sleep, systemClock } from '../../lib/time/clock.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { type FeedPosition, readFeed } from '../../lib/feed/feed-client.ts';
import type { AlertRequest } from './source.ts';

/**
 * Passes on the kept lines and, with `follow`, new ones; if the agent ends, waits for the next agent and continues with it. Ends without an
 * error when the signal aborts.
 *
 * @throws {RampartError} as `readFeed`, if no agent runs at the start, or for any failure other than the agent's end.
 */
export async function socketAlerts(path: string, request: AlertRequest): Promise<void> {
  const { follow, handler, signal } = request;
  const backoff = new Backoff({ baseMs: 100, maxMs: 1000 });
  let position: FeedPosition | undefined;
  let goneSinceMs: number | undefined;
  for (;;) {
    try {
      let isLive = false;
      let isOther = true;
      for await (const event of readFeed(path, { signal, position })) {
        if (event.kind === 'begin') {
          isOther = event.isOther;
          if (goneSinceMs !== undefined) handler.say(comeBack(event.isOther, Date.now() - goneSinceMs));
          else handler.say(`alerts of this machine, from ${path}`);
          goneSinceMs = undefined;
          backoff.reset();
          if (event.isOther) position = { id: event.id, number: 0 };
        } else if (event.kind === 'line') {
          if (position !== undefined) position = { id: position.id, number: event.number };
          await handler.line(event.line);
        } else if (event.kind === 'missed') {
          handler.missed?.(event.lines);
          handler.say(missed(event.lines, isLive));
        } else if (event.kind === 'about') handler.about?.(event.about, isOther);
        else if (event.kind === 'live') {
          isLive = true;
          await handler.live();
          if (!follow) return;
        }
      }
      // The socket closed before all earlier lines had come: print those that did.
      if (!follow) return await handler.live();
    } catch (error) {
      if (signal.aborted) return;
      const isGone = error instanceof RampartError && error.code === errorCodes.NOT_FOUND;
      if (!isGone) throw error;
      if (position === undefined) throw notRunning(path, error);
    }
    if (goneSinceMs === undefined) {
      goneSinceMs = Date.now();
      handler.gone?.();
      handler.say('the agent stopped; waiting for a new one. Nothing is guarded meanwhile');
    }
    await sleep(systemClock, backoff.nextMs(), signal).catch(() => undefined);
    if (signal.aborted) return;
  }
}

function comeBack(isOther: boolean, awayMs: number): string {
  const seconds = `${(awayMs / 1000).toFixed(1)} s`;
  return isOther
    ? `an agent is running again after ${seconds}; alerts from that time, and the last ones before it, may be missing`
    : `the agent is reachable again after ${seconds}`;
}

function missed(lines: number, isLive: boolean): string {
  const alerts = lines === 1 ? '1 alert was' : `${lines} alerts were`;
  return isLive
    ? `${alerts} dropped because this reader was too slow (counted before filtering)`
    : `${alerts} discarded before this reader reconnected (counted before filtering)`;
}

function notRunning(path: string, error: RampartError): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, {
    what: error.message,
    next: `Is \`rampart agent\` or \`rampart standalone\` running, with its socket at ${path}?`,
    cause: error,
  });
}
