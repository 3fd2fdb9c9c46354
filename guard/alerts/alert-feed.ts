import { serveFeed } from '../../lib/feed/feed-server.ts';
import { LineFeed } from '../../lib/feed/line-feed.ts';
import { say } from '../../lib/cli/process.ts';
import { messageOf } from '../../lib/errors/errors.ts';

/** Where `rampart agent` serves its alerts. */
export const agentAlertsSocket = '/run/rampart/alerts.sock';
/** Where `rampart standalone` does, in its directory. */
export const standaloneAlertsSocket = 'alerts.sock';

interface AlertFeed extends AsyncDisposable {
  /** Takes an alert, as one line. Never waits. */
  push(line: string): void;
}

/**
 * Serves the alerts that are given to it, until disposed.
 *
 * @param required - Whether a socket that cannot be served is an error. Where nobody asked for one, guarding goes on
 *   without: a container may have no place for it, and two agents of one machine (kind) have one default.
 * @throws {RampartError} as `serveFeed`, where it is required.
 */
export async function openAlertFeed(path: string, required: boolean): Promise<AlertFeed> {
  const feed = new LineFeed();
  try {
    const server = await serveFeed(feed, path);
    return {
      push: (line) => feed.push(line),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  } catch (error) {
    if (required) throw error;
    say(`cannot serve \`rampart alerts\`: ${messageOf(error)}`);
    return { push: () => undefined, [Symbol.asyncDispose]: async () => undefined };
  }
}
