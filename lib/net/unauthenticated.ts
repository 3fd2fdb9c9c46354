/**
 * Small HTTP servers without authentication, for metrics and probes. Connections are shared among addresses, so that the kubelet is
 * answered however many others open (decision 0019).
 */
import type { Server, ServerOptions } from 'node:http';

import { ConnectionShares } from './connection-shares.ts';

/** Limits for slow and silent clients. */
export const unauthenticatedServer: ServerOptions = {
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 5_000,
};

/**
 * A prober or a scraper needs one connection or two. A client that opens hundreds closes its own, so that the kubelet is
 * answered whatever pods do.
 */
export function shareUnauthenticated(server: Server): void {
  void new ConnectionShares(server, { total: 64, perSource: 16 });
  // Also closes connections of clients that do not read their answer.
  server.timeout = 10_000;
}
