import { join, resolve } from 'node:path';

import { standaloneAlertsSocket } from '../../guard/alerts/alert-feed.ts';
import type { AlertOrigin } from '../../guard/alerts/source.ts';
import type { Guard } from '../../guard/guard.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { say, stopSignal } from '../../lib/cli/process.ts';
import type { UiOptions } from './command.ts';
import { FindingSource } from './finding-source.ts';
import { readPageFiles } from './page-files.ts';
import { Pictures } from './pictures.ts';
import { StatusPoll } from './status-poll.ts';
import { serveUi } from './ui-server.ts';

/**
 * Serves the page until SIGINT or SIGTERM.
 *
 * @throws {RampartError} `INPUT` without a cluster, `SYSTEM` if the page is missing or the port is taken.
 */
export async function runUi(guards: readonly Guard[], options: UiOptions): Promise<void> {
  const { port, ...choice } = options;
  const { data, kubeconfig, context } = choice;
  // Works for a standalone process that does not run, too: its kubeconfig stays.
  const { server } = clusterAccess(choice);
  const { signal } = stopSignal();
  const status = new StatusPoll(guards, choice);
  const clusterWords = [
    ...(data === undefined ? [] : ['--data', data]),
    ...(kubeconfig === undefined ? [] : ['--kubeconfig', kubeconfig]),
    ...(context === undefined ? [] : ['--context', context]),
  ];
  const source = new FindingSource({
    guards,
    origin: (): AlertOrigin =>
      data === undefined
        ? { kind: 'cluster', access: clusterAccess(choice) }
        : { kind: 'socket', path: join(resolve(data), standaloneAlertsSocket) },
    clusterWords,
  });
  const pictures = new Pictures({
    ...{ guards, choice, clusterWords, isThisMachine: data !== undefined },
    findingsOf: (guard) => source.of(guard),
    live: () => source.state(),
  });
  await using page = await serveUi({
    port,
    page: readPageFiles(),
    report: async (waiting) => ({
      ...(await status.read(waiting)),
      pictures: pictures.guards,
      findings: source.state(),
    }),
    picture: (guard, waiting) => pictures.read(guard, waiting),
    findings: source.feed,
  });
  say(`status and findings of ${data ?? server.href}, until Ctrl-C. The link works once:`);
  process.stdout.write(`${page.link}\n`);
  await source.run(signal);
}
