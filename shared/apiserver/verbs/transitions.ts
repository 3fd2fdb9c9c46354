/**
 * A change as a watch with a selection sees it: an object that comes to match is added, one that ceases to is deleted
 * (apiserver `pkg/storage/cacher/cache_watcher.go`).
 *
 * @module
 */
import { itemOf } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';
import { type Change, restamp } from '../store/object.ts';
import type { WatchEvent } from './request.ts';
import type { Selection } from './selection.ts';

/** `undefined` for a change that the watch does not see. What is made for one watch is there for all. */
export function seenChange(resource: Resource, selection: Selection, change: Change): WatchEvent | undefined {
  const { type } = change;
  const item = itemOf(resource, change);
  if (selection.isAll) return { type, item };
  const matches = selection.matches(item);
  if (type !== 'MODIFIED' || !selection.looksInside || change.previous === undefined) {
    return matches ? { type, item } : undefined;
  }
  const matched = selection.matches(itemOf(resource, before(change)));
  if (matches) return { type: matched ? 'MODIFIED' : 'ADDED', item };
  return matched ? { type: 'DELETED', item: itemOf(resource, departure(change)) } : undefined;
}

const befores = new WeakMap<Change, Change>();
const departures = new WeakMap<Change, Change>();

/** What was there before, to have an item of it that all share. */
function before(change: Change): Change {
  let previous = befores.get(change);
  if (previous === undefined) {
    previous = { type: 'ADDED', object: change.previous ?? change.object };
    befores.set(change, previous);
  }
  return previous;
}

/** The end of an object for those who ask for it as it was: its state before, with the version of the change. */
function departure(change: Change): Change {
  let departed = departures.get(change);
  if (departed === undefined) {
    const { previous = change.object, object } = change;
    departed = { type: 'DELETED', object: restamp(previous, object.resourceVersion) };
    departures.set(change, departed);
  }
  return departed;
}
