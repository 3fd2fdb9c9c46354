/** GET of a collection: all of it or a page, at one version. */
import { setImmediate } from 'node:timers/promises';

import { apiErrors } from '../resources/api-error.ts';
import { Item, textHead } from '../resources/item.ts';
import { ExpiredError } from '../store/errors.ts';
import type { PortionedList } from '../store/list.ts';
import type { StoredObject } from '../store/object.ts';
import type { VerbContext } from './context.ts';
import { askedVersion, checkMinimum } from './get.ts';
import { type ListOptions, listOptions } from './list-options.ts';
import type { ItemList, ResourceAnswer, ResourceRequest } from './request.ts';
import { type Selection, selectionOf } from './selection.ts';

export async function list(context: VerbContext, request: ResourceRequest): Promise<ResourceAnswer> {
  const options = listOptions(request);
  const selection = selectionOf(request);
  const { resource, takesTexts = false } = request;
  const isWhole = options.limit === 0 && options.continue === '' && selection.isAll;
  if (takesTexts && isWhole && resource.codec === undefined) {
    const { namespace } = selection;
    const version = exactVersion(context, options);
    // In Go's lists of built-in kinds, the items have no `kind` and `apiVersion`.
    const head = resource.isCustom ? '' : textHead(resource.storedApiVersion, resource.kind);
    const { parts, version: at } = context.store.listTexts(resource.storeName, { namespace, version, head });
    return { kind: 'texts', list: { resource, version: at, parts } };
  }
  return { kind: 'list', list: await listItems(context, request, options, selection) };
}

/** @throws {ApiError} and what the store throws. */
export async function listItems(
  context: VerbContext,
  request: ResourceRequest,
  options: ListOptions,
  selection: Selection,
): Promise<ItemList> {
  const version = exactVersion(context, options);
  if (selection.isOne && version === undefined && options.continue === '') {
    return one(context, request, selection);
  }
  const { limit } = options;
  const first: Start = { continue: options.continue === '' ? undefined : options.continue, version };
  if (limit > 0 && selection.isAll) return wholePage(context, request, selection, limit, first);
  const { store } = context;
  const { storeName } = request.resource;
  const range = { namespace: selection.namespace, ...first };
  try {
    return await selected(request, selection, limit, store.listPortions(storeName, range));
  } catch (error) {
    // The version was compacted between portions. The client did not request portions, so the whole list is read in one piece instead.
    if (!(error instanceof ExpiredError) || first.continue !== undefined || version !== undefined)
      throw error;
    const atOnce = store.list(storeName, range);
    return selected(request, selection, limit, { ...atOnce, portions: [atOnce.items] });
  }
}

interface Start {
  readonly continue: string | undefined;
  readonly version: bigint | undefined;
}

/** The version at which to read; `undefined` for the newest. */
function exactVersion({ store }: VerbContext, options: ListOptions): bigint | undefined {
  const { resourceVersion, resourceVersionMatch, limit } = options;
  if (options.continue !== '') {
    if (resourceVersion !== '' && resourceVersion !== '0') {
      throw apiErrors.badRequest('specifying resource version is not allowed when using continue');
    }
    return undefined;
  }
  const version = askedVersion(resourceVersion);
  if (version === 0n) return undefined;
  // For compatibility, a limit with a version but without a match means exactly this version.
  if (resourceVersionMatch === 'Exact' || (resourceVersionMatch === '' && limit > 0)) return version;
  checkMinimum(store, resourceVersion);
  return undefined;
}

function one({ store }: VerbContext, { resource }: ResourceRequest, selection: Selection): ItemList {
  const stored = store.get(resource.storeName, selection.namespace ?? '', selection.name ?? '');
  const item = stored === undefined ? undefined : Item.ofStored(resource, stored);
  const items = item !== undefined && selection.matches(item) ? [item] : [];
  // The object may be from a commit that is not published to watches yet.
  const version =
    stored !== undefined && stored.resourceVersion > store.version ? stored.resourceVersion : store.version;
  return { resource, items, version, continue: undefined, remaining: undefined };
}

/** A page of a list without selectors, for which no object has to be examined. */
function wholePage(
  { store }: VerbContext,
  { resource }: ResourceRequest,
  { namespace }: Selection,
  limit: number,
  first: Start,
): ItemList {
  const page = store.list(resource.storeName, { namespace, limit, ...first });
  return {
    resource,
    items: page.items.map((stored) => Item.ofStored(resource, stored)),
    version: page.version,
    continue: page.continue,
    remaining: page.continue === undefined ? undefined : page.remaining,
  };
}

/** At most `limit` matching objects; 0 means no limit. Reads in portions, and lets other work run between them. */
async function selected(
  { resource, signal }: ResourceRequest,
  selection: Selection,
  limit: number,
  { version, portions, continueAfter }: PortionedList,
): Promise<ItemList> {
  const items: Item[] = [];
  let last: StoredObject | undefined;
  for (const portion of portions) {
    for (const stored of portion) {
      // The page is full, and there are more objects.
      if (last !== undefined) {
        return { resource, items, version, continue: continueAfter(last), remaining: undefined };
      }
      const item = Item.ofStored(resource, stored);
      if (!selection.isAll && !selection.matches(item)) continue;
      items.push(item);
      if (items.length === limit) last = stored;
    }
    await setImmediate();
    // The client has disconnected.
    if (signal.aborted) throw apiErrors.timeout('request did not complete within the allotted timeout');
  }
  return { resource, items, version, continue: undefined, remaining: undefined };
}
