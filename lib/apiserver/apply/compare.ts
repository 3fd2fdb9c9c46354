import { deepEqual, fieldOf, isObject } from '../../json/json.ts';
import { FieldSet } from './field-set.ts';
import { fieldElement, itemsByElement, type PathElement } from './path-element.ts';
import { fieldType, kindIn, type ApplyType, type ListType, type MapType } from './type.ts';

/** No field is in more than one of the sets. */
export interface Comparison {
  readonly added: FieldSet;
  readonly modified: FieldSet;
  readonly removed: FieldSet;
}

/** Parts that are identical (`===`) are not looked into. `undefined` means that there is no object. */
export function compare(before: unknown, after: unknown, type: ApplyType): Comparison {
  const comparer = new Comparer();
  comparer.value(before, after, type);
  return comparer;
}

class Comparer implements Comparison {
  readonly added = new FieldSet();
  readonly modified = new FieldSet();
  readonly removed = new FieldSet();
  readonly #path: PathElement[] = [];

  value(before: unknown, after: unknown, type: ApplyType): void {
    if (before === after) return;
    const [old, now] = [kindIn(type, before), kindIn(type, after)];
    const isOther = before !== undefined && after !== undefined && old !== now;
    // The value became another kind (map, list or scalar): its former fields are removed, and the value itself has changed.
    if (isOther) this.#as(old, before, after, type);
    const isLeaf = this.#as(after === undefined ? old : now, before, after, type);
    if (!isLeaf) {
      if (before === undefined) this.added.insert(this.#path);
      else if (after === undefined) this.removed.insert(this.#path);
    }
  }

  /** Compares two values as maps, lists or scalars. @returns whether the value is a leaf, compared as a whole. */
  #as(kind: 'map' | 'list' | 'scalar', before: unknown, after: unknown, type: ApplyType): boolean {
    if (kind === 'map' && type.map !== undefined && !type.map.atomic && hasContent(before, after, isObject)) {
      this.#fields(isObject(before) ? before : {}, isObject(after) ? after : {}, type.map);
      return false;
    }
    if (kind === 'list' && type.list !== undefined && type.list.relation !== 'atomic') {
      if (hasContent(before, after, Array.isArray)) {
        this.#items(Array.isArray(before) ? before : [], Array.isArray(after) ? after : [], type.list);
        return false;
      }
    }
    if (before === undefined) this.added.insert(this.#path);
    else if (after === undefined) this.removed.insert(this.#path);
    else if (!deepEqual(before, after)) this.modified.insert(this.#path);
    return true;
  }

  #fields(
    before: Readonly<Record<string, unknown>>,
    after: Readonly<Record<string, unknown>>,
    map: MapType,
  ): void {
    for (const name of Object.keys(before)) {
      this.#at(fieldElement(name), before[name], fieldOf(after, name), fieldType(map, name));
    }
    for (const name of Object.keys(after)) {
      if (!Object.hasOwn(before, name))
        this.#at(fieldElement(name), undefined, after[name], fieldType(map, name));
    }
  }

  #items(before: readonly unknown[], after: readonly unknown[], list: ListType): void {
    const [old, now] = [itemsByElement(list, before), itemsByElement(list, after)];
    for (const element of new Set([...old.keys(), ...now.keys()])) {
      const [olds, nows] = [old.get(element) ?? [], now.get(element) ?? []];
      if (olds.length <= 1 && nows.length <= 1) this.#at(element, olds[0], nows[0], list.items);
      else this.#repeated(element, olds, nows, list);
    }
  }

  /** Several items with the same key are compared as one value. */
  #repeated(
    element: PathElement,
    before: readonly unknown[],
    after: readonly unknown[],
    list: ListType,
  ): void {
    const path = [...this.#path, element];
    if (before.length > 1 && after.length > 1) {
      if (!deepEqual(before, after)) this.modified.insert(path);
    } else if (before.length > 1) {
      if (after.length === 1) this.#at(element, undefined, after[0], list.items);
      else this.removed.insert(path);
    } else {
      if (before.length === 1) this.#at(element, before[0], undefined, list.items);
      this.added.insert(path);
    }
  }

  #at(element: PathElement, before: unknown, after: unknown, type: ApplyType): void {
    this.#path.push(element);
    this.value(before, after, type);
    this.#path.pop();
  }
}

function hasContent(before: unknown, after: unknown, isContainer: (value: unknown) => boolean): boolean {
  const has = (value: unknown) => isContainer(value) && Object.keys(value as object).length > 0;
  return has(before) || has(after);
}
