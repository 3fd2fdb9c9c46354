import { resolve } from 'node:path';

import manifest from '../../package.json' with { type: 'json' };
import type { ListenAddress } from '../../lib/apiserver/http/server-options.ts';
import { startApiServer } from '../../lib/apiserver/server.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { registerProcessMetrics } from '../../lib/telemetry/process-metrics.ts';
import { createMetrics, serveMetrics } from '../../lib/telemetry/metrics.ts';
import type { ApiServerCommandOptions } from './command.ts';
import { listenAddress } from './listen-address.ts';
import { aborted } from '../../lib/time/abort.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import { say, sayInLog, stopSignal } from '../../lib/cli/process.ts';

/** Runs until SIGINT or SIGTERM. @throws as `startApiServer`; `INPUT` for options that exclude each other. */
export async function runApiServer(options: ApiServerCommandOptions): Promise<void> {
  // An empty path, as from `--data "$UNSET"`, must not be taken for the working directory.
  refuseEmpty({ '--data': options.data, '--socket': options.socket }, 'Give a path');
  if (options.data === undefined && options.memory === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: 'no storage is selected',
      next: 'Give a directory with --data DIR, or use --memory to keep objects in memory only',
    });
  }
  const listen: ListenAddress =
    options.socket === undefined ? listenAddress(options.listen) : { socketPath: resolve(options.socket) };
  const logger = createLogger();
  const { signal } = stopSignal();
  const metrics = options.metrics === undefined ? undefined : await createMetrics();
  registerProcessMetrics(metrics, manifest.version);
  // Served before anything is created: an address that is invalid or in use must not change anything.
  await using scraped =
    metrics === undefined
      ? undefined
      : await serveMetrics({ registry: metrics.registry, address: options.metrics ?? '' });
  await using server = await startApiServer({
    dataDirectory: options.data === undefined ? undefined : resolve(options.data),
    memory: options.memory === true,
    listen,
    hosts: options.host,
    version: manifest.version,
    logger,
    metrics,
  });
  // Failures go to the log only from here on: if the start fails, the caller prints the reason.
  sayInLog(logger);
  if (scraped !== undefined) say(`metrics on ${scraped.url}/metrics`);
  if (server.kubeconfig !== undefined) {
    process.stdout.write(`${server.kubeconfig}\n`);
    say(`serving ${server.url}; try: kubectl --kubeconfig ${server.kubeconfig} get namespaces`);
  } else if ('socketPath' in server.address) {
    process.stdout.write(`${server.address.socketPath}\n`);
    say(
      `serving on a unix socket; try: curl --unix-socket ${server.address.socketPath} http://localhost/api`,
    );
  }
  await aborted(signal);
  say('stopping');
}
