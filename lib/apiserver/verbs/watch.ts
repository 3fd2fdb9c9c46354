/** GET of a collection with `watch`: the present objects, if requested, and then each change. */
import { apiErrors } from '../resources/api-error.ts';
import { Item } from '../resources/item.ts';
import type { PortionedList } from '../store/list.ts';
import type { VerbContext } from './context.ts';
import { checkMinimum } from './get.ts';
import { type WatchOptions, watchOptions } from './list-options.ts';
import { versionCause, versionOf } from './query.ts';
import type { ResourceAnswer, ResourceRequest, WatchEvent } from './request.ts';
import { type Selection, selectionOf } from './selection.ts';
import { type Beginning, WatchEvents } from './watch-events.ts';

export function watch(context: VerbContext, request: ResourceRequest): ResourceAnswer {
  const options = watchOptions(request);
  const selection = selectionOf(request);
  const { store } = context;
  const { resource } = request;
  const { resourceVersion: text } = options;
  const asked = versionOf(text);
  if (asked === undefined) {
    throw apiErrors.invalid({ group: resource.group, kind: resource.plural }, '', [
      versionCause('resourceVersion', text),
    ]);
  }
  checkMinimum(store, text);
  return {
    kind: 'watch',
    watch: {
      resource,
      events: new WatchEvents(
        context,
        request,
        selection,
        options,
        beginning(context, request, selection, options, asked),
      ),
    },
  };
}

function beginning(
  context: VerbContext,
  request: ResourceRequest,
  selection: Selection,
  { sendInitialEvents, allowBookmarks }: WatchOptions,
  asked: bigint,
): Beginning {
  const { store } = context;
  if (!sendInitialEvents) return { version: asked === 0n ? store.version : asked, initial: [] };
  const { namespace } = selection;
  const list = store.listPortions(request.resource.storeName, { namespace });
  return { version: list.version, initial: initialEvents(request, selection, list, allowBookmarks) };
}

/** ADDED events for the existing objects, in the order in which they are read. */
function* initialEvents(
  { resource }: ResourceRequest,
  selection: Selection,
  { version, portions }: PortionedList,
  allowBookmarks: boolean,
): Generator<readonly WatchEvent[]> {
  for (const portion of portions) {
    const events: WatchEvent[] = [];
    for (const stored of portion) {
      const item = Item.ofStored(resource, stored);
      if (selection.isAll || selection.matches(item)) events.push({ type: 'ADDED', item });
    }
    if (events.length > 0) yield events;
  }
  if (allowBookmarks) yield [{ type: 'BOOKMARK', version, initialEventsEnd: true }];
}
