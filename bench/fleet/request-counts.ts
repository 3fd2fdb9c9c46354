/**
 * A process's requests to the API, counted where they leave it: by Node.js' diagnostics, without a change of
 * the client.
 */
import { subscribe } from 'node:diagnostics_channel';
import type { EventEmitter } from 'node:events';
import type { ClientRequest } from 'node:http';
import type { ClientHttp2Stream, OutgoingHttpHeaders } from 'node:http2';

/** Answered since the last time that it was asked. */
export interface RequestCounts {
  /** `list pods`, `patch kivepolicies (409)` and how many. */
  readonly requests: Readonly<Record<string, number>>;
  /** By the second of the wall clock in which they were sent. */
  readonly bySecond: Readonly<Record<string, number>>;
  /** Open now, by resource. */
  readonly watches: Readonly<Record<string, number>>;
  readonly heldMiB: number;
}

const verbs: Readonly<Record<string, string>> = {
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};
/** Namespaces are a resource themselves where nothing follows. */
const resourcePath = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)(?:\/namespaces\/[^/?]+(?=\/))?\/([^/?]+)(\/[^?]*)?/;
const MIB = 1024 * 1024;

interface StreamMessage {
  readonly stream: ClientHttp2Stream;
  readonly headers: OutgoingHttpHeaders & { readonly ':method'?: string; readonly ':path'?: string };
}

const secondNow = (): string => String(Math.floor(Date.now() / 1000));

/** Counts from now on. @returns what takes the counts. */
export function countRequests(): () => RequestCounts {
  let requests: Record<string, number> = {};
  let bySecond: Record<string, number> = {};
  const watches: Record<string, number> = {};
  const add = (to: Record<string, number>, key: string, by = 1): void => void (to[key] = (to[key] ?? 0) + by);
  const count = (method: string, path: string, second: string, status: number): string | undefined => {
    const [, resource = 'discovery', name] = resourcePath.exec(path) ?? [];
    const isWatch = /[?&]watch=true/.test(path);
    const read = isWatch ? 'watch' : name === undefined ? 'list' : 'get';
    const refused = status >= 300 ? ` (${status})` : '';
    add(requests, `${verbs[method] ?? read} ${resource}${refused}`);
    add(bySecond, second);
    return isWatch && refused === '' ? resource : undefined;
  };
  const watched = (resource: string | undefined, stream: EventEmitter): void => {
    if (resource === undefined) return;
    add(watches, resource);
    stream.once('close', () => add(watches, resource, -1));
  };
  // A server that is away has no work with it: counted when it answers.
  subscribe('http.client.request.start', (message) => {
    const { request } = message as { readonly request: ClientRequest };
    const second = secondNow();
    request.once('response', ({ statusCode = 0 }) =>
      watched(count(request.method, request.path, second, statusCode), request),
    );
  });
  subscribe('http2.client.stream.created', (message) => {
    const { stream, headers } = message as StreamMessage;
    const second = secondNow();
    stream.once('response', ({ ':status': status = 0 }) =>
      watched(count(headers[':method'] ?? '', headers[':path'] ?? '', second, status), stream),
    );
  });
  return () => {
    const taken = { requests, bySecond, watches: { ...watches }, heldMiB: process.memoryUsage().rss / MIB };
    [requests, bySecond] = [{}, {}];
    return taken;
  };
}

/** Sum of several processes. */
export function sumOfCounts(all: readonly RequestCounts[]): RequestCounts {
  return {
    requests: together(...all.map(({ requests }) => requests)),
    bySecond: together(...all.map(({ bySecond }) => bySecond)),
    watches: together(...all.map(({ watches }) => watches)),
    heldMiB: all.reduce((sum, { heldMiB }) => sum + heldMiB, 0),
  };
}

/** The sums, by key. */
export function together(...all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const merged: Record<string, number> = {};
  for (const [key, count] of all.flatMap((one) => Object.entries(one)))
    merged[key] = (merged[key] ?? 0) + count;
  return merged;
}
