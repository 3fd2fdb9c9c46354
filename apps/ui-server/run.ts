import type { AddressInfo } from 'node:net';

import type { Guard } from '../../guard/guard.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { say, sayInLog, stopSignal } from '../../lib/cli/process.ts';
import { errorCodes, messageOf, RampartError } from '../../lib/errors/errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { type Address, parseAddress } from '../../lib/net/address.ts';
import { listen } from '../../lib/net/listen.ts';
import { createServer } from '../../lib/net/node-http.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { SingleFlightCache } from '../../lib/time/single-flight-cache.ts';
import { type Asked, ask } from '../status/ask.ts';
import { feedOf } from '../ui/finding-feed.ts';
import { FindingSource } from '../ui/finding-source.ts';
import { readPageFiles } from '../ui/page-files.ts';
import { Pictures } from '../ui/pictures.ts';
import { answerUi, pathOf } from '../ui/ui-answers.ts';
import { AccessReviews } from './access-reviews.ts';
import type { UiServerCommandOptions } from './command.ts';
import { FindingGroups } from './finding-groups.ts';
import { ReviewGate } from './review-gate.ts';
import { TokenReviews } from './token-reviews.ts';

/** How long one reading of the status is used for all requests. */
const STATUS_MS = 3_000;
/** A browser keeps one connection open for findings, and uses a few more briefly. */
const MAX_CONNECTIONS = 2_000;

/**
 * Serves the page until SIGINT or SIGTERM.
 *
 * @throws {RampartError} `INPUT` without a cluster or for an invalid address, `SYSTEM` if the page is missing or the address is in use.
 */
export async function runUiServer(guards: readonly Guard[], options: UiServerCommandOptions): Promise<void> {
  const address = addressOf(options.listen);
  const choice = { kubeconfig: options.kubeconfig, context: options.context };
  const access = clusterAccess(choice);
  const page = readPageFiles();
  const logger = createLogger();
  sayInLog(logger);
  const { signal } = stopSignal();
  // Separate from the client that reads, so that reviews and reads do not delay each other.
  using client = new KubeClient(access, { perSecond: 500, burst: 1_000 });
  const source = new FindingSource({
    guards,
    origin: () => ({ kind: 'cluster', access: clusterAccess(choice) }),
    clusterWords: [],
  });
  using groups = new FindingGroups(guards, source.feed);
  const looks = new SingleFlightCache<Asked | { readonly failure: string }>({
    ...{ fresh: { sinceEndMs: () => STATUS_MS }, maxEntries: 1 },
  });
  const look = async (waiting: AbortSignal): Promise<Asked | { readonly failure: string }> => {
    try {
      return await ask(guards, choice, waiting);
    } catch (error) {
      return { failure: messageOf(error) };
    }
  };
  const pictures = new Pictures({
    ...{ guards, choice, clusterWords: [], isThisMachine: false },
    findingsOf: (guard) => source.of(guard),
    live: () => source.state(),
  });
  const gate = new ReviewGate({
    sources: {
      ...{ guards, groups, pictures, findings: feedOf(source.feed), state: () => source.state() },
      status: (waiting) => looks.get('', look, { signal: waiting }),
    },
    tokens: new TokenReviews(client),
    access: new AccessReviews(client),
  });
  const failed = (err: unknown): void => logger.error({ err }, 'a request for the page has failed');
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 10_000 }, (request, response) => {
    const path = pathOf(request.url);
    // For probes: answered whether or not the API server can be reached.
    if (path === '/healthz') response.end('ok\n');
    else void answerUi(request, response, path, { page, gate, failed });
  });
  server.maxConnections = MAX_CONNECTIONS;
  await listen(server, address, 'the page');
  const { port } = server.address() as AddressInfo;
  say(`page of ${access.server.href} on http://${options.listen.replace(/:\d+$/, `:${port}`)}/`);
  await source.run(signal);
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeAllConnections();
  await closed;
  say('stopped');
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  throw new RampartError(errorCodes.INPUT, {
    what: `"${text}" is not an address to serve the page on`,
    next: 'Use host:port such as 127.0.0.1:8080',
  });
}
