/**
 * One request while it is being answered.
 *
 * @module
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Resource, Subresource, Verb } from '../resources/resource.ts';
import type { Body, PatchMediaType, ResourceRequest, User } from '../verbs/request.ts';
import type { ResourceRoute } from './route.ts';

export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly auditId = randomUUID();
  readonly startedMs = performance.now();
  readonly warnings: string[] = [];
  /** For what is counted; the verb in capitals where it is a method. */
  verb: string;
  resource = '';
  /** A watch, or a text that may be followed: has no time limit, and is ended when the server stops. */
  isLong = false;
  /** Since when its client has taken nothing. */
  stalledSinceMs: number | undefined;
  /** Its time is up and its client told so: what comes now is for nobody. */
  isAbandoned = false;
  #abort: AbortController | undefined;
  #isAborted = false;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request;
    this.response = response;
    this.verb = request.method ?? '';
  }

  /** Made when somebody wants it: most requests are over before anything could be aborted. */
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

  /** Ends the connection: an answer that has begun cannot be taken back. */
  destroy(): void {
    this.abort();
    this.request.socket.destroy();
  }
}

/** What the verbs see of an exchange. */
export class ExchangeRequest implements ResourceRequest {
  readonly verb: Verb;
  readonly resource: Resource;
  readonly subresource: Subresource | undefined;
  readonly namespace: string;
  readonly name: string;
  readonly query: URLSearchParams;
  readonly body: Body | undefined;
  readonly patchType: PatchMediaType | undefined;
  readonly user: User;
  readonly takesTexts: boolean;
  readonly #exchange: Exchange;

  constructor(
    exchange: Exchange,
    route: ResourceRoute,
    parts: Pick<ResourceRequest, 'body' | 'patchType' | 'query' | 'user'> & { readonly takesTexts: boolean },
  ) {
    this.#exchange = exchange;
    this.verb = route.verb;
    this.resource = route.resource;
    this.subresource = route.subresource;
    this.namespace = route.namespace;
    this.name = route.name;
    this.query = parts.query;
    this.body = parts.body;
    this.patchType = parts.patchType;
    this.user = parts.user;
    this.takesTexts = parts.takesTexts;
  }

  get userAgent(): string | undefined {
    return this.#exchange.request.headers['user-agent'];
  }

  get warnings(): string[] {
    return this.#exchange.warnings;
  }

  get signal(): AbortSignal {
    return this.#exchange.signal;
  }
}
