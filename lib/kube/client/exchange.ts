/** One exchange with an API server, whatever the version of HTTP: what is sent, what comes, and how it fails. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';

import { describeConnectionFailure } from '../../net/connection-failure.ts';

export interface Outgoing {
  readonly method: string;
  /** From the server's root, with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | undefined;
}

/** An answer whose body has not been read. Read it to its end, or destroy it. */
export interface Incoming {
  readonly status: number;
  /** Keyed by names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
}

/** Unused connections are closed before the API server does so, after 90 s: otherwise a request could take one at that very moment. */
export const IDLE_CONNECTION_MS = 60_000;

/** A request that failed before an answer began. */
export class SendError extends Error {
  /** The server had closed the connection, which had been used before, so it most likely never saw the request. */
  readonly stale: boolean;
  /** The server said that it has not processed the request. */
  readonly unprocessed: boolean;

  constructor(cause: unknown, { stale = false, unprocessed = false } = {}) {
    super(describeConnectionFailure(cause), { cause });
    this.name = 'SendError';
    this.stale = stale;
    this.unprocessed = unprocessed;
  }
}

export function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
