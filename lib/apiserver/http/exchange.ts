import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import type { ResourceRequest } from '../verbs/request.ts';
import type { ResourceRoute } from './route.ts';

export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly auditId = randomUUID();
  readonly startedMs = performance.now();
  readonly warnings: string[] = [];
  /** For metrics: a Kubernetes verb in lower case or, for other paths, an HTTP method in upper case. */
  verb: string;
  resource = '';
  /** Whether this is a watch or a text that may be followed: it has no time limit, and is ended when the server stops. */
  isLong = false;
  /** Since when the client has read nothing; `undefined` if it is not behind. */
  stalledSinceMs: number | undefined;
  /** Whether its time is up and the client was told: later results are dropped. */
  isAbandoned = false;
  #abort: AbortController | undefined;
  #isAborted = false;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request;
    this.response = response;
    this.verb = request.method ?? '';
  }

  /** Created on demand: most requests end before there is anything to abort. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      if (this.#isAborted || this.response.destroyed) abort.abort();
      else {
        this.response.once('close', () => {
          if (!this.response.writableFinished) abort.abort();
        });
      }
    }
    return this.#abort.signal;
  }

  abort(): void {
    this.#isAborted = true;
    this.#abort?.abort();
  }

  /** Ends the connection: an answer that has begun cannot be replaced by an error. */
  destroy(): void {
    this.abort();
    this.request.socket.destroy();
  }
}

/** The verbs' view of an exchange. */
export function requestOf(
  exchange: Exchange,
  route: ResourceRoute,
  parts: Pick<ResourceRequest, 'body' | 'patchType' | 'query' | 'takesTexts' | 'user'>,
): ResourceRequest {
  return {
    ...route,
    ...parts,
    userAgent: exchange.request.headers['user-agent'],
    warnings: exchange.warnings,
    get signal() {
      return exchange.signal;
    },
  };
}
