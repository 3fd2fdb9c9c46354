import { serveFeed } from '../../lib/feed/feed-server.ts';
import { LineFeed } from '../../lib/feed/line-feed.ts';
import { say } from '../../lib/cli/process.ts';
import { kindOf } from '../stream/finding.ts';
import type { FindingCounts } from '../stream/finding-counts.ts';
import { messageOf } from '../../lib/errors/errors.ts';

/** The default socket on which `rampart agent` serves its alerts. */
export const agentAlertsSocket = '/run/rampart/alerts.sock';
/** The name of standalone's alert socket, in its data directory. */
export const standaloneAlertsSocket = 'alerts.sock';

interface AlertFeed extends AsyncDisposable {
  /** The recent lines, for clients that connect. */
  readonly lines: LineFeed;
  /** Takes a finding of a guard, as one line. Never waits. */
  push(guard: string, line: string): void;
}

/**
 * Serves the findings that are pushed to it, until disposed: the last 1,000 of each kind of each guard, and their counts.
 *
 * @param required - Whether it is an error if the socket cannot be served. If the user did not ask for a socket, the guards run without it:
 * a container may have no place for it, and two agents on one machine (kind) have the same default.
 * @throws {RampartError} as `serveFeed`, if it is required.
 */
export async function openAlertFeed(
  path: string,
  required: boolean,
  counts: Pick<FindingCounts, 'hours'>,
): Promise<AlertFeed> {
  const feed = new LineFeed();
  try {
    const server = await serveFeed(feed, path, { about: () => ({ hours: counts.hours() }) });
    return {
      lines: feed,
      push: (guard, line) => feed.push(line, `${guard} ${kindOf(line) ?? ''}`),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  } catch (error) {
    if (required) throw error;
    say(`cannot serve \`rampart alerts\`: ${messageOf(error)}`);
    return { lines: feed, push: () => undefined, [Symbol.asyncDispose]: async () => undefined };
  }
}
