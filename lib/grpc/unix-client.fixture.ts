/** A client that is not ours, on a unix socket: it makes the calls of tests. */
import { connect } from 'node:net';

import type { DescMethod } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';

/** Calls methods of a server, each with its request. */
export function unixClient(
  socketPath: string,
): (method: DescMethod, request: object) => Promise<Readonly<Record<string, unknown>>> {
  const transport = createGrpcTransport({
    baseUrl: 'http://localhost',
    nodeOptions: { createConnection: () => connect(socketPath) },
    // No connection stays behind.
    idleConnectionTimeoutMs: 1,
  });
  return async (method, request) => {
    const client = createClient(method.parent, transport) as unknown as Readonly<
      Record<string, (request: object) => Promise<Readonly<Record<string, unknown>>>>
    >;
    const call = client[method.localName];
    if (call === undefined) throw new TypeError(`no method ${method.name}`);
    return await call(request);
  };
}
