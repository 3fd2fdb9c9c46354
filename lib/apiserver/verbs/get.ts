import { apiErrors } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import type { VerbContext } from './context.ts';
import { tooLargeVersion } from './failures.ts';
import { checkName } from './object-write.ts';
import { versionCause, versionOf } from './query.ts';
import type { ResourceAnswer, ResourceRequest } from './request.ts';

export function get({ store }: VerbContext, request: ResourceRequest): ResourceAnswer {
  const { resource, subresource, namespace, name, query } = request;
  checkName(name);
  if (query.size > 0) checkMinimum(store, query.get('resourceVersion') ?? '');
  const stored = store.get(resource.storeName, namespace, name);
  if (stored === undefined) throw apiErrors.notFound(resource, name);
  const item = Item.ofStored(resource, stored);
  const isOther = subresource !== undefined && subresource.model !== undefined;
  return {
    kind: 'item',
    code: 200,
    item: isOther ? Item.ofObject(resource, subresource.read(item.object)) : item,
  };
}

/**
 * Checks that a requested minimum version has been reached. That suffices, as every read sees the newest state.
 *
 * @returns the requested version, 0 if no version was requested.
 * @throws {ApiError} 400, 504
 */
export function checkMinimum(store: VerbContext['store'], text: string): bigint {
  const version = askedVersion(text);
  // The version may be from a read, which can see a commit before it is published to watches.
  if (version > store.version) {
    const { version: current } = store.list('', { limit: 1 });
    if (version > current) throw tooLargeVersion(version, current);
  }
  return version;
}

/** @throws {ApiError} 400 */
export function askedVersion(text: string): bigint {
  const version = versionOf(text);
  if (version !== undefined) return version;
  const { field, message } = versionCause('resourceVersion', text);
  throw apiErrors.badRequest(`invalid resource version: ${field}: ${message}`);
}
