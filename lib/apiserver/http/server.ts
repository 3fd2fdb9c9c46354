import type { RequestListener } from 'node:http';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { createConnections, isLoopback, listen } from './connections.ts';
import { RequestServer } from './request-server.ts';
import { defaultLimits, type HttpServerOptions, type ListenAddress } from './server-options.ts';
import { registerTraffic, type Traffic } from './traffic.ts';

export interface HttpServer extends AsyncDisposable {
  readonly address: ListenAddress;
  /** `https://127.0.0.1:6443`; `undefined` for a unix socket, which has no URL. */
  readonly url: string | undefined;
  readonly traffic: Traffic;
}

/**
 * Serves the API until it is disposed. Then it accepts no more connections, ends the watches, gives requests in progress
 * at most `limits.stopMs` to finish, and closes the remaining connections.
 *
 * @throws {RampartError} `INPUT` for an address that is not allowed, `IN_USE` or `SYSTEM` when it cannot
 * listen.
 */
export async function serveHttp(options: HttpServerOptions): Promise<HttpServer> {
  const { listen: wanted, tls } = options;
  const isLocal = 'socketPath' in wanted || isLoopback(wanted.host);
  if (!isLocal && tls === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot serve the API on ${wanted.host} without TLS`,
      why: 'the token would be sent unencrypted',
      next: 'Provide TLS keys, or use 127.0.0.1 or a unix socket',
    });
  }
  const limits = { ...defaultLimits, ...options.limits };
  const handler = new RequestServer(options, limits, options.compress ?? !isLocal);
  const take: RequestListener = (request, response) => handler.take(request, response);
  const server = createConnections(tls, limits, take);
  const { privateSocket } = options;
  const ownServer = privateSocket === undefined ? undefined : createConnections(undefined, limits, take);
  const servers = ownServer === undefined ? [server] : [server, ownServer];
  for (const one of servers) handler.watchOver(one);
  handler.limitUnauthenticated(server);
  let address: ListenAddress;
  try {
    if (options.metrics !== undefined) registerTraffic(options.metrics, handler.traffic);
    address = await listen(server, wanted);
    if (ownServer !== undefined && privateSocket !== undefined)
      await listen(ownServer, { socketPath: privateSocket });
    for (const one of servers) handler.logErrors(one);
  } catch (error) {
    handler.dispose();
    server.close();
    throw error;
  }
  return {
    address,
    url: 'socketPath' in address ? undefined : urlOf(address, tls !== undefined),
    traffic: handler.traffic,
    [Symbol.asyncDispose]: () => handler.stop(servers),
  };
}

function urlOf({ host, port }: { readonly host: string; readonly port: number }, isTls: boolean): string {
  return `${isTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
