/**
 * Field sets as JSON: the `fieldsV1` of `metadata.managedFields`. A step without anything further in is a
 * member; one with, when it has the field `.`.
 */
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { FieldSet } from './field-set.ts';
import { compareElements, readElement } from './path-element.ts';

export function toFieldsV1(set: FieldSet): JsonObject {
  const fields: JsonObject = {};
  const elements =
    set.children.size === 0 ? [...set.members] : [...new Set([...set.members, ...set.children.keys()])];
  for (const element of elements.sort(compareElements)) {
    const child = set.children.get(element);
    const inner = child === undefined ? {} : toFieldsV1(child);
    // A subset without members writes like a member: it must not be written at all.
    const isMember = set.members.has(element);
    const isBare = Object.keys(inner).length === 0;
    if (isBare && !isMember) continue;
    fields[element] = isMember && !isBare ? { '.': {}, ...inner } : inner;
  }
  return fields;
}

/** Reads `fieldsV1`; `undefined` for what is none. Steps of a kind that is not known are left out. */
export function fromFieldsV1(fields: unknown): FieldSet | undefined {
  const set = new FieldSet();
  return readInto(set, fields) ? set : undefined;
}

function readInto(set: FieldSet, fields: unknown): boolean {
  if (!isObject(fields)) return false;
  for (const text of Object.keys(fields)) {
    if (text === '.') continue;
    const element = readElement(text);
    if (element === null) return false;
    if (element === undefined) continue;
    const inner = fieldOf(fields, text);
    const child = new FieldSet();
    if (!readInto(child, inner)) return false;
    const isLeaf = child.members.size === 0 && child.children.size === 0;
    if (isLeaf || Object.hasOwn(inner as JsonObject, '.')) set.members.add(element);
    if (!isLeaf) set.children.set(element, child);
  }
  return true;
}
