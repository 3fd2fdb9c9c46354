/**
 * Turns requests into {@link ResourceRequest}s, and the verbs' answers into bytes.
 *
 * No request can end the process. A client learns nothing about an internal error but the audit ID under which it
 * was logged.
 */
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';

import { YamlReader } from '../body/yaml-reader.ts';
import { ConnectionShares } from '../../net/connection-shares.ts';
import { type Format, offeredMediaTypes } from '../render/format.ts';
import { ApiError, apiErrors } from '../resources/api-error.ts';
import type { ResourceAnswer, User } from '../verbs/request.ts';
import { ActiveExchanges } from './active-exchanges.ts';
import { authorize } from './authorize.ts';
import { ClientGoneError, readResourceBody } from './body.ts';
import { refuseConnection } from './connections.ts';
import { Exchange, requestOf } from './exchange.ts';
import { createHealth, type Health } from './health.ts';
import type { PlainAnswer } from './plain.ts';
import { readPath, splitTarget } from './request-path.ts';
import { MethodNotAllowedError, type ResourceRoute, routeRequest } from './route.ts';
import { compressFromUnits, sendPieces, sendWhole, streamText } from './send.ts';
import type { HttpServerOptions, Limits } from './server-options.ts';
import { Traffic } from './traffic.ts';
import { streamWatch } from './watch-stream.ts';

const ignore = (): void => undefined;

export class RequestServer {
  readonly traffic = new Traffic();
  readonly #options: HttpServerOptions;
  readonly #limits: Limits;
  readonly #compress: boolean;
  readonly #health: Health;
  readonly #errorFormat: Format;
  readonly #active: ActiveExchanges;
  readonly #yaml = new YamlReader();
  #unauthenticated: ConnectionShares | undefined;
  #isStopping = false;

  constructor(options: HttpServerOptions, limits: Limits, compress: boolean) {
    this.#options = options;
    this.#limits = limits;
    this.#compress = compress;
    this.#active = new ActiveExchanges(limits, (exchange) =>
      this.#fail(exchange, apiErrors.timeout('request did not complete within the allotted timeout')),
    );
    const format = options.renderer.negotiate(undefined, 'item');
    if (format === undefined) throw new TypeError('a renderer without a default format');
    this.#errorFormat = format;
    const shutdown = { name: 'shutdown', of: 'readyz', check: () => this.#whyStopping() } as const;
    this.#health = createHealth([...(options.health ?? []), shutdown], (check, reason) =>
      options.log.warn({ check, reason }, 'a health check fails'),
    );
  }

  #whyStopping(): string | undefined {
    return this.#isStopping ? 'the server is being stopped' : undefined;
  }

  /** Limits the connections that have not yet sent an authenticated request. */
  limitUnauthenticated(server: Server): void {
    const { unauthenticated, unauthenticatedPerSource, authenticateMs } = this.#limits;
    this.#unauthenticated = new ConnectionShares(server, {
      total: unauthenticated,
      perSource: unauthenticatedPerSource,
      withinMs: authenticateMs,
    });
  }

  /** Answers bad requests with a Status; Node.js would answer them without one, or not at all. */
  watchOver(server: Server): void {
    this.#active.follow(server);
    server.on('clientError', (error: Error & { code?: string }, socket) => {
      this.traffic.badConnections++;
      // If the answer has begun, another one cannot follow.
      if (this.#active.isAnswering(socket)) socket.destroy();
      else refuseConnection(error, socket);
    });
    server.on('tlsClientError', () => void this.traffic.badConnections++);
    server.on('drop', () => void this.traffic.badConnections++);
    server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
      this.take(
        request,
        response,
        new ApiError({ code: 417, reason: 'BadRequest', message: 'unknown expectation' }),
      );
    });
  }

  /** Reports later errors; those thrown by `listen` are not reported twice. */
  logErrors(server: Server): void {
    const { log } = this.#options;
    server.on('error', (err) => log.error({ err }, 'the listening socket of the API fails'));
  }

  dispose(): void {
    this.#active[Symbol.dispose]();
    this.#yaml[Symbol.dispose]();
  }

  async stop(servers: readonly Server[]): Promise<void> {
    this.#isStopping = true;
    await Promise.all(servers.map((server) => this.#active.close(server)));
    this.dispose();
  }

  /** @param refusal answers the request, whatever it contains. */
  take(request: IncomingMessage, response: ServerResponse, refusal?: ApiError): void {
    // Writing to a client that has disconnected causes an error event, which has no other listener.
    response.on('error', ignore);
    const { mounted } = this.#options;
    if (refusal === undefined && mounted !== undefined && isBelow(mounted.path, request.url)) {
      if (this.#isStopping) response.shouldKeepAlive = false;
      return mounted.take(request, response, () => this.#leaveUnauthenticated(request));
    }
    const exchange = new Exchange(request, response);
    this.#active.add(exchange);
    if (this.#isStopping) response.shouldKeepAlive = false;
    if (refusal === undefined) void this.#serve(exchange);
    else {
      this.#fail(exchange, refusal);
      this.#done(exchange, undefined);
    }
  }

  async #serve(exchange: Exchange): Promise<void> {
    let kind: 'mutating' | 'readonly' | undefined;
    try {
      const { request } = exchange;
      const method = request.method ?? '';
      if (request.headers.host === undefined && request.httpVersionMinor > 0) {
        throw apiErrors.badRequest('missing required Host header');
      }
      const { path, query: queryText } = splitTarget(request.url ?? '/');
      const query = new URLSearchParams(queryText);
      if (this.#sendHealth(exchange, method, path, query)) return;
      if (this.#isStopping) throw apiErrors.unavailable('the server is being stopped');
      const user = this.#options.authenticate(request.headers.authorization);
      if (user === undefined) throw apiErrors.unauthorized();
      this.#leaveUnauthenticated(request);
      refuseImpersonation(request.headers, user);
      const target = readPath(path);
      const route =
        target.kind === 'plain' ? undefined : routeRequest(this.#options.registry, target, method, query);
      if (route !== undefined) {
        exchange.verb = route.verb;
        exchange.resource = route.resource.storeName;
        // kube-apiserver counts logs as long-running too (BasicLongRunningRequestCheck).
        if (route.subresource?.text !== undefined) exchange.verb = route.subresource.name;
        authorize(user, route, query);
        exchange.isLong = route.verb === 'watch' || route.subresource?.text !== undefined;
      }
      if (!exchange.isLong) kind = this.#enter(route);
      if (target.kind === 'plain') this.#sendPlain(exchange, method, target.path, query);
      else if (route !== undefined) {
        const isText = route.subresource?.text !== undefined;
        const format = isText ? this.#errorFormat : this.#negotiate(exchange, route.verb, query);
        const { body, patchType } = await readResourceBody(
          exchange,
          route,
          this.#limits.bodyBytes,
          this.#yaml,
          this.traffic,
        );
        if (exchange.isAbandoned) return;
        const resourceRequest = requestOf(exchange, route, {
          body,
          patchType,
          query,
          user,
          takesTexts: this.#options.renderer.takesTexts(format),
        });
        await this.#send(exchange, await this.#options.verbs.handle(resourceRequest), format);
      }
    } catch (error) {
      this.#fail(exchange, error);
    } finally {
      this.#done(exchange, kind);
    }
  }

  #leaveUnauthenticated({ socket }: IncomingMessage): void {
    this.#unauthenticated?.of(socket)?.[Symbol.dispose]();
  }

  #done(exchange: Exchange, kind: 'mutating' | 'readonly' | undefined): void {
    if (kind !== undefined) this.traffic.inFlight[kind]--;
    this.#active.delete(exchange);
    const seconds = (performance.now() - exchange.startedMs) / 1000;
    const { response, verb, resource } = exchange;
    this.traffic.done(verb, resource, response.headersSent ? response.statusCode : 499, seconds);
  }

  /** @throws {ApiError} 429 */
  #enter(route: ResourceRoute | undefined): 'mutating' | 'readonly' {
    const kind =
      route === undefined || route.verb === 'get' || route.verb === 'list' ? 'readonly' : 'mutating';
    const limit = kind === 'mutating' ? this.#limits.mutatingInFlight : this.#limits.readonlyInFlight;
    if (this.traffic.inFlight[kind] >= limit) {
      this.traffic.rejected++;
      throw apiErrors.tooManyRequests(1);
    }
    this.traffic.inFlight[kind]++;
    return kind;
  }

  #negotiate(exchange: Exchange, verb: ResourceRoute['verb'], query: URLSearchParams): Format {
    const what =
      verb === 'watch' ? 'watch' : verb === 'list' || verb === 'deletecollection' ? 'list' : 'item';
    const format = this.#options.renderer.negotiate(exchange.request.headers.accept, what, query);
    if (format === undefined) throw apiErrors.notAcceptable(offeredMediaTypes);
    return format;
  }

  #sendHealth(exchange: Exchange, method: string, path: string, query: URLSearchParams): boolean {
    const answer = this.#health.answer(path, query);
    if (answer === undefined) return false;
    if (method !== 'GET') throw plainMethodNotAllowed();
    sendAnswer(exchange, answer);
    return true;
  }

  #sendPlain(exchange: Exchange, method: string, path: string, query: URLSearchParams): void {
    const { headers } = exchange.request;
    // Unknown paths get 404 for all methods, known ones 405 for all methods but GET.
    for (const route of this.#options.routes) {
      const answer = route({ method: 'GET', path, query, headers });
      if (answer === undefined) continue;
      if (method !== 'GET') throw plainMethodNotAllowed();
      this.traffic.sentBytes += sendAnswer(exchange, answer);
      return;
    }
    throw apiErrors.noRoute();
  }

  async #send(exchange: Exchange, answer: ResourceAnswer, format: Format): Promise<void> {
    if (exchange.isAbandoned) return;
    const { renderer } = this.#options;
    const { traffic } = this;
    switch (answer.kind) {
      case 'item': {
        const body = renderer.renderItem(answer.item, format, new Date());
        traffic.sentBytes +=
          typeof body === 'string' && body.length >= compressFromUnits && this.#mayCompress(exchange)
            ? await sendPieces(exchange, answer.code, format.contentType, [body], true)
            : sendWhole(exchange, answer.code, format.contentType, body);
        return;
      }
      case 'status': {
        const body = renderer.renderError(answer.body, format);
        traffic.sentBytes += sendWhole(exchange, answer.code, format.contentType, body);
        return;
      }
      case 'list':
      case 'texts': {
        const pieces =
          answer.kind === 'list'
            ? renderer.renderList(answer.list, format, new Date())
            : renderer.renderTexts(answer.list);
        const compress = this.#mayCompress(exchange);
        traffic.sentBytes += await sendPieces(exchange, 200, format.contentType, pieces, compress);
        return;
      }
      case 'stream':
        await streamText(exchange, answer.stream, traffic);
        return;
      case 'watch':
        exchange.isLong = true;
        await streamWatch(exchange, answer.watch, {
          renderer,
          format,
          traffic,
          reported: (error) => this.#reported(exchange, error),
        });
    }
  }

  #mayCompress({ request }: Exchange): boolean {
    return (
      this.#compress &&
      /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(String(request.headers['accept-encoding']))
    );
  }

  /** The error as the client sees it. Logs what it must not see. */
  #reported(exchange: Exchange, error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    const { auditId, verb, resource } = exchange;
    this.#options.log.error({ err: error, auditId, verb, resource }, 'a request to the API has failed');
    return apiErrors.internal(`see the log of the server for the audit id ${auditId}`);
  }

  /** Answers with a Status, if the client still waits. Never throws: no caller could catch it. */
  #fail(exchange: Exchange, error: unknown): void {
    if (error instanceof ClientGoneError || exchange.isAbandoned) return;
    try {
      this.#sendStatus(exchange, error);
    } catch (err) {
      const { auditId } = exchange;
      this.#options.log.error({ err, auditId }, 'cannot report an error to the client of the API');
      exchange.destroy();
    }
  }

  #sendStatus(exchange: Exchange, error: unknown): void {
    const reported = this.#reported(exchange, error);
    const { response } = exchange;
    if (response.headersSent || response.destroyed) {
      // Breaks off the connection, so that a partial answer does not look complete.
      if (!response.writableEnded) exchange.destroy();
      return;
    }
    const { status } = reported;
    const more: string[] = [];
    if (reported instanceof MethodNotAllowedError) more.push('Allow', reported.allow);
    const retryAfter = status.details?.retryAfterSeconds;
    if (retryAfter !== undefined && (status.code === 429 || status.code >= 500)) {
      more.push('Retry-After', String(retryAfter));
    }
    const format =
      this.#options.renderer.negotiate(exchange.request.headers.accept, 'item') ?? this.#errorFormat;
    const body = this.#options.renderer.renderError(status, format);
    this.traffic.sentBytes += sendWhole(exchange, status.code, format.contentType, body, more);
  }
}

/** @returns the length of its body in bytes. */
function sendAnswer(exchange: Exchange, { code, headers, body }: PlainAnswer): number {
  const { 'content-type': contentType = 'text/plain', ...more } = headers;
  return sendWhole(exchange, code, contentType, body, Object.entries(more).flat());
}

function isBelow(path: string, url = ''): boolean {
  return url.startsWith(path) && /^(?:[/?]|$)/.test(url.slice(path.length));
}

function plainMethodNotAllowed(): MethodNotAllowedError {
  const message = 'the server does not allow this method on the requested resource';
  const error = new ApiError({ code: 405, reason: 'MethodNotAllowed', message, details: {} });
  return new MethodNotAllowedError(error, ['GET']);
}

/**
 * Impersonation would need the rights of the other user, which are unknown here; an answer with the rights of the actual user
 * would be wrong (user impersonation: k8s.io/apiserver pkg/endpoints/filters/impersonation.go).
 *
 * @throws {ApiError} 403
 */
function refuseImpersonation(headers: IncomingHttpHeaders, user: User): void {
  const wanted = headers['impersonate-user'] ?? headers['impersonate-group'] ?? headers['impersonate-uid'];
  if (wanted === undefined) return;
  throw new ApiError({
    code: 403,
    reason: 'Forbidden',
    message:
      `users ${JSON.stringify(String(wanted))} is forbidden: User ${JSON.stringify(user.name)} cannot impersonate ` +
      `resource "users" in API group "" at the cluster scope: this server knows nobody's rights but those of who asks`,
    details: { name: String(wanted), kind: 'users' },
  });
}
