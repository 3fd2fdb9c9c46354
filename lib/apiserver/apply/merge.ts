/** Merges an applied configuration into an object: its fields win, everything else stays. */
import { deepEqual, fieldOf, isObject, setField, type JsonObject } from '../../json/json.ts';
import { itemElement, type PathElement } from './path-element.ts';
import { fieldType, kindIn, type ApplyType, type ListType, type MapType } from './type.ts';

/**
 * Changes neither argument. Parts that the configuration leaves alone are identical (`===`), so comparing
 * costs nothing.
 */
export function mergeApplied(live: unknown, applied: unknown, type: ApplyType): unknown {
  if (applied === undefined) return live;
  if (live === undefined || live === applied) return applied;
  switch (kindIn(type, applied)) {
    case 'scalar':
      return oneValue(live, applied);
    case 'list': {
      const isOneValue = type.list === undefined || type.list.relation === 'atomic';
      if (isOneValue || (isEmpty(live) && isEmpty(applied))) return oneValue(live, applied);
      return mergeItems(listOf(live), listOf(applied), live, type.list);
    }
    case 'map': {
      const isOneValue = type.map === undefined || type.map.atomic;
      if (isOneValue || (isEmpty(live) && isEmpty(applied))) return oneValue(live, applied);
      return mergeFields(isObject(live) ? live : {}, isObject(applied) ? applied : {}, live, type.map);
    }
  }
}

function oneValue(live: unknown, applied: unknown): unknown {
  return deepEqual(live, applied) ? live : applied;
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return !isObject(value) || Object.keys(value).length === 0;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function mergeFields(live: JsonObject, applied: JsonObject, original: unknown, map: MapType): unknown {
  let merged: JsonObject | undefined;
  for (const name of Object.keys(applied)) {
    const before = fieldOf(live, name);
    const after = mergeApplied(before, applied[name], fieldType(map, name));
    if (before === after) continue;
    merged ??= { ...live };
    setField(merged, name, after);
  }
  return merged ?? (live === original ? live : { ...live });
}

/**
 * The items of the configuration come in its order. An item that only the live object has stays after the items that
 * preceded it, as far as these kept their order.
 */
function mergeItems(
  live: readonly unknown[],
  applied: readonly unknown[],
  original: unknown,
  list: ListType,
): unknown {
  const wanted = new Map<PathElement, unknown>();
  for (const item of applied) {
    const element = itemElement(list, item);
    if (typeof element === 'string') wanted.set(element, item);
  }
  const liveElements = live.map((item) => itemElement(list, item));
  const found = new Map<PathElement, unknown>();
  for (const [index, element] of liveElements.entries()) {
    // Several items with the same key cannot be distinguished: the applied item replaces them.
    if (typeof element === 'string') found.set(element, found.has(element) ? undefined : live[index]);
  }
  const pending = [...wanted.keys()];
  const shared = pending.filter((element) => found.has(element));
  const merged: unknown[] = [];
  let next = 0;
  let nextShared = 0;
  const takeUpTo = (end: number) => {
    for (; next < end; next++) {
      const element = pending[next] ?? '';
      merged.push(mergeApplied(found.get(element), wanted.get(element), list.items));
    }
  };
  for (const [index, element] of liveElements.entries()) {
    if (typeof element !== 'string' || !wanted.has(element)) merged.push(live[index]);
    else if (element === shared[nextShared]) {
      nextShared++;
      takeUpTo(pending.indexOf(element, next) + 1);
    }
  }
  takeUpTo(pending.length);
  const isSame = merged.length === live.length && merged.every((item, index) => live[index] === item);
  return isSame && live === original ? live : merged;
}
