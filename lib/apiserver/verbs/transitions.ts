/**
 * A change as a watch with a selection sees it: an object that comes to match is added, one that ceases to is deleted
 * (apiserver `pkg/storage/cacher/cache_watcher.go`).
 */
import { itemOf, sharedItem } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';
import { type Change, restamp, type StoredObject } from '../store/object.ts';
import type { WatchEvent } from './request.ts';
import type { Selection } from './selection.ts';

/** `undefined` for a change that the watch does not see. What is made for one watch is there for all. */
export function seenChange(resource: Resource, selection: Selection, change: Change): WatchEvent | undefined {
  const { type, previous } = change;
  const item = itemOf(resource, change);
  if (selection.isAll) return { type, item };
  const matches = selection.matches(item);
  if (type !== 'MODIFIED' || !selection.looksInside || previous === undefined) {
    return matches ? { type, item } : undefined;
  }
  const matched = selection.matches(sharedItem(resource, previous));
  if (matches) return { type: matched ? 'MODIFIED' : 'ADDED', item };
  return matched ? { type: 'DELETED', item: sharedItem(resource, departed(change, previous)) } : undefined;
}

const departures = new WeakMap<Change, StoredObject>();

/** The end of an object for those who ask for it as it was: its state before, with the version of the change. */
function departed(change: Change, previous: StoredObject): StoredObject {
  let object = departures.get(change);
  if (object === undefined) {
    object = restamp(previous, change.object.resourceVersion);
    departures.set(change, object);
  }
  return object;
}
