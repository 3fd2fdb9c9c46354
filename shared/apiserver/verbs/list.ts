/**
 * GET of a collection: all of it or a page, of one version.
 *
 * @module
 */
import { setImmediate } from 'node:timers/promises';

import { apiErrors } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import { ExpiredError } from '../store/errors.ts';
import type { List } from '../store/list.ts';
import type { VerbContext } from './context.ts';
import { askedVersion, checkMinimum } from './get.ts';
import { type ListOptions, listOptions } from './list-options.ts';
import type { ItemList, ResourceAnswer, ResourceRequest } from './request.ts';
import { type Selection, selectionOf } from './selection.ts';

/** Objects read at once: others have their turn in between. */
const pageSize = 2_500;
/** Objects looked at together for a page of selected ones. */
const minScan = 500;

export async function list(context: VerbContext, request: ResourceRequest): Promise<ResourceAnswer> {
  const options = listOptions(request);
  const selection = selectionOf(request);
  const { resource, takesTexts = false } = request;
  const isWhole = options.limit === 0 && options.continue === '' && selection.isAll;
  if (takesTexts && isWhole && resource.codec === undefined) {
    const { namespace } = selection;
    const version = exactVersion(context, options);
    const { parts, version: at } = context.store.listTexts(resource.storeName, { namespace, version });
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
  if (limit > 0) {
    return selection.isAll
      ? wholePage(context, request, selection, limit, first)
      : selectedPage(context, request, selection, limit, first);
  }
  try {
    return await all(context, request, selection, first, pageSize);
  } catch (error) {
    // The version has become too old between the pages that only we have made: no client can be blamed for it.
    if (!(error instanceof ExpiredError) || first.continue !== undefined || version !== undefined)
      throw error;
    return all(context, request, selection, first, 0);
  }
}

interface Start {
  readonly continue: string | undefined;
  readonly version: bigint | undefined;
}

/** The version that the list has to be of; `undefined` for the newest. */
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
  // Pages of a version have always been exactly of it.
  if (resourceVersionMatch === 'Exact' || (resourceVersionMatch === '' && limit > 0)) return version;
  checkMinimum(store, resourceVersion);
  return undefined;
}

function one({ store }: VerbContext, { resource }: ResourceRequest, selection: Selection): ItemList {
  const stored = store.get(resource.storeName, selection.namespace ?? '', selection.name ?? '');
  const item = stored === undefined ? undefined : Item.ofStored(resource, stored);
  const items = item !== undefined && selection.matches(item) ? [item] : [];
  // The object may be of a commit that is not told to all yet.
  const version =
    stored !== undefined && stored.resourceVersion > store.version ? stored.resourceVersion : store.version;
  return { resource, items, version, continue: undefined, remaining: undefined };
}

/** Without selectors, no object is looked into. */
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

/** A full page of selected objects: reads on while it is not full. */
async function selectedPage(
  { store }: VerbContext,
  { resource, signal }: ResourceRequest,
  selection: Selection,
  limit: number,
  first: Start,
): Promise<ItemList> {
  const { namespace } = selection;
  const items: Item[] = [];
  const scan = Math.min(Math.max(limit, minScan), pageSize);
  let page = store.list(resource.storeName, { namespace, limit: scan, ...first });
  for (;;) {
    for (const [index, stored] of page.items.entries()) {
      const item = Item.ofStored(resource, stored);
      if (!selection.matches(item)) continue;
      items.push(item);
      if (items.length < limit) continue;
      const isLast = index === page.items.length - 1 && page.continue === undefined;
      const token = isLast ? undefined : page.continueAfter(stored);
      return { resource, items, version: page.version, continue: token, remaining: undefined };
    }
    if (page.continue === undefined) {
      return { resource, items, version: page.version, continue: undefined, remaining: undefined };
    }
    page = await nextPage(store, resource.storeName, namespace, scan, page, signal);
  }
}

async function all(
  { store }: VerbContext,
  { resource, signal }: ResourceRequest,
  selection: Selection,
  first: Start,
  size: number,
): Promise<ItemList> {
  const { namespace, isAll } = selection;
  const items: Item[] = [];
  let page = store.list(resource.storeName, { namespace, limit: size, ...first });
  for (;;) {
    for (const stored of page.items) {
      const item = Item.ofStored(resource, stored);
      if (isAll || selection.matches(item)) items.push(item);
    }
    if (page.continue === undefined) {
      return { resource, items, version: page.version, continue: undefined, remaining: undefined };
    }
    page = await nextPage(store, resource.storeName, namespace, size, page, signal);
  }
}

async function nextPage(
  store: VerbContext['store'],
  storeName: string,
  namespace: string | undefined,
  limit: number,
  page: List,
  signal: AbortSignal,
): Promise<List> {
  await setImmediate();
  // Nobody waits for it any more.
  if (signal.aborted) throw apiErrors.timeout('request did not complete within the allotted timeout');
  return store.list(storeName, { namespace, limit, continue: page.continue });
}
