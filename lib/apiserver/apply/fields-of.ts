/** The fields of a value, which a manager owns after applying it. */
import { isObject } from '../../json/json.ts';
import { FieldSet } from './field-set.ts';
import { fieldElement, itemsByElement, type PathElement } from './path-element.ts';
import { fieldType, kindIn, type ApplyType, type ListType, type MapType } from './type.ts';

/** All leaves of an object and all items of its lists, except for items without a key. */
export function fieldsOf(value: unknown, type: ApplyType): FieldSet {
  const set = new FieldSet();
  if (isObject(value) && type.map !== undefined && !type.map.atomic) addFields(set, value, type.map);
  return set;
}

function addValue(parent: FieldSet, element: PathElement, value: unknown, type: ApplyType): void {
  switch (kindIn(type, value)) {
    case 'scalar':
      parent.members.add(element);
      return;
    case 'list':
      if (type.list === undefined || type.list.relation === 'atomic') parent.members.add(element);
      else if (Array.isArray(value)) {
        const set = new FieldSet();
        addItems(set, value, type.list);
        attach(parent, element, set);
      }
      return;
    case 'map':
      if (type.map === undefined || type.map.atomic) parent.members.add(element);
      else if (isObject(value)) {
        const set = new FieldSet();
        addFields(set, value, type.map);
        attach(parent, element, set);
      }
  }
}

function attach(parent: FieldSet, element: PathElement, set: FieldSet): void {
  if (set.members.size > 0 || set.children.size > 0) parent.children.set(element, set);
}

function addFields(set: FieldSet, value: Readonly<Record<string, unknown>>, map: MapType): void {
  for (const name of Object.keys(value)) {
    const element = fieldElement(name);
    const field = value[name];
    addValue(set, element, field, fieldType(map, name));
    // A key of a map can be owned even without content; a field of a struct only with content.
    if (field === null || isEmptyObject(field) || !map.fields.has(name)) set.members.add(element);
  }
}

function isEmptyObject(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length === 0;
}

function addItems(set: FieldSet, items: readonly unknown[], list: ListType): void {
  for (const [element, same] of itemsByElement(list, items)) {
    // Several items with the same key cannot be distinguished: they are owned as one.
    if (same.length === 1) addValue(set, element, same[0], list.items);
    set.members.add(element);
  }
}
