import type { Guard } from '../guard.ts';
import { selectGuards } from '../run-guards.ts';
import type { RampartError } from '../../lib/errors/errors.ts';
import { LineWriter } from '../../lib/output/lines.ts';
import { wantsColour } from '../../lib/output/table.ts';
import { say, stopSignal } from '../../lib/cli/process.ts';
import type { AlertsOptions } from './options.ts';
import { clusterAlerts } from './cluster-alerts.ts';
import { alertFilter, parseSince } from './filter.ts';
import { AlertPrinter } from './printer.ts';
import { socketAlerts } from './socket-alerts.ts';
import { type AlertRequest, findOrigin } from './source.ts';

/** As many as an agent keeps of each kind. */
const LAST_OF_EACH = 1000;
const LAST_BEFORE_FOLLOWING = 10;

/**
 * Prints the kept alerts and, with `follow`, new ones, until SIGINT, SIGTERM or the reader of stdout is gone.
 *
 * @throws {RampartError} `INPUT` or `PRIVILEGE` before anything is printed, and what the sources throw.
 */
export async function runAlerts(guards: readonly Guard[], options: AlertsOptions): Promise<void> {
  const { follow = false } = options;
  const sinceMs = options.since === undefined ? undefined : parseSince(options.since, Date.now());
  const filter = alertFilter({ ...options, sinceMs });
  const tail =
    options.tail ?? (sinceMs !== undefined ? Infinity : follow ? LAST_BEFORE_FOLLOWING : LAST_OF_EACH);
  const chosen = selectGuards(guards, options.guard ?? []);
  const origin = await findOrigin(options);
  const kinds = new Map(
    await Promise.all(chosen.map(async ({ name, lines }) => [name, (await lines?.()) ?? []] as const)),
  );
  const stop = stopSignal();
  const { signal } = stop;
  await using out = new LineWriter(process.stdout.fd, { name: 'stdout' });
  let failure: RampartError | undefined;
  void out.closed.then((closed) => {
    if (closed.reason === 'failed') failure = closed.error;
    if (closed.reason !== 'disposed') stop.abort();
  });
  const printer = new AlertPrinter({
    out,
    kinds,
    filter,
    tail,
    isTailOfEach: options.tail === undefined && !follow,
    signal,
    format: options.output ?? (process.stdout.isTTY ? 'pretty' : 'json'),
    colour: wantsColour(process.stdout),
  });
  const request: AlertRequest = {
    follow,
    sinceMs,
    tail,
    handler: { line: (text) => printer.line(text), live: () => printer.live(), say },
    signal,
  };
  if (origin.kind === 'socket') await socketAlerts(origin.path, request);
  else await clusterAlerts(origin.access, request);
  await printer.end();
  await out.flush(signal).catch(() => undefined);
  if (failure !== undefined) throw failure;
}
