/** Requests to the API of a process, counted where they leave it: as Node.js tells of them, without a change of the client. */
import { subscribe } from 'node:diagnostics_channel';
import type { ClientRequest } from 'node:http';

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

/** Counts from now on. @returns what takes the counts. */
export function countRequests(): () => RequestCounts {
  let requests: Record<string, number> = {};
  let bySecond: Record<string, number> = {};
  const watches: Record<string, number> = {};
  const add = (to: Record<string, number>, key: string, by = 1): void => void (to[key] = (to[key] ?? 0) + by);
  subscribe('http.client.request.start', (message) => {
    const { request } = message as { readonly request: ClientRequest };
    const { method, path } = request;
    const [, resource = 'discovery', name] = resourcePath.exec(path) ?? [];
    const isWatch = /[?&]watch=true/.test(path);
    const read = isWatch ? 'watch' : name === undefined ? 'list' : 'get';
    const second = String(Math.floor(Date.now() / 1000));
    // A server that is away has no work with it.
    request.once('response', ({ statusCode = 0 }) => {
      const refused = statusCode >= 300 ? ` (${statusCode})` : '';
      add(requests, `${verbs[method] ?? read} ${resource}${refused}`);
      add(bySecond, second);
      if (!isWatch || refused !== '') return;
      add(watches, resource);
      request.once('close', () => add(watches, resource, -1));
    });
  });
  return () => {
    const taken = { requests, bySecond, watches: { ...watches }, heldMiB: process.memoryUsage().rss / MIB };
    [requests, bySecond] = [{}, {}];
    return taken;
  };
}
