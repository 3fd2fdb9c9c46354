/**
 * A manifest some parts of which are there only under a condition: made of an object and of the patches of kustomize components, and
 * written as a template of Helm.
 */
import { stringify } from 'yaml';

import { patchTypeOf, type PatchField, type PatchType } from '../lib/apiserver/patch/merge-keys.ts';
import { isObject, type JsonObject } from '../lib/json/json.ts';
import type { Manifest } from './kustomize.ts';

export type JsonValue =
  string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** Expressions of Go's templates, any of which has to be true. `undefined`: always. */
type When = ReadonlySet<string> | undefined;

/** Text of a template in place of a value: what follows `key:` or `-`, or lines of their own. */
export class TemplateText {
  /** Given how deep the lines are indented. */
  readonly at: (indent: number) => string;
  /** A list's item that is written without `- `, as it makes items. */
  readonly isItems: boolean;

  constructor(at: (indent: number) => string, isItems = false) {
    [this.at, this.isItems] = [at, isItems];
  }
}

type Part = Fields | Items | TemplateText | string | number | boolean | null;

interface Field {
  readonly key: string;
  part: Part;
  when: When;
}

interface Item {
  part: Part;
  when: When;
}

class Fields {
  readonly all: Field[] = [];

  /** The one that is always there, or under a condition of its own. */
  field(key: string): Field | undefined {
    return this.all.find((one) => one.key === key);
  }
}

class Items {
  readonly all: Item[] = [];
}

/** The effects of kustomize components on one object. */
export class ChartTemplate {
  readonly kind: string;
  readonly name: string;
  readonly #root: Fields;
  readonly #type: PatchType;

  constructor(object: Manifest) {
    [this.kind, this.name] = [object.kind, object.metadata.name];
    this.#root = partOf(object as unknown as JsonValue) as Fields;
    this.#type = patchTypeOf(object.apiVersion, object.kind);
  }

  /**
   * Applies a patch under a condition: operations of a JSON patch, or a strategic merge patch.
   *
   * @throws {Error} for what our components do not have
   */
  patch(patch: unknown, when: string): void {
    if (!Array.isArray(patch)) return merge(this.#root, patch as JsonObject, this.#type, when);
    for (const { op, path, value } of patch as { op: string; path: string; value: JsonValue }[]) {
      const keys = path.split('/').slice(1);
      const last = keys.pop() ?? '';
      const parent = partAt(this.#root, keys);
      if (op === 'add' && last === '-' && parent instanceof Items) {
        parent.all.push({ part: partOf(value), when: new Set([when]) });
      } else if (op === 'replace' && parent instanceof Fields) {
        const before = parent.field(last);
        if (before === undefined || before.when !== undefined) throw unsupported(`${op} ${path}`);
        before.when = new Set([`not ${when}`]);
        parent.all.push({ key: last, part: partOf(value), when: new Set([when]) });
      } else throw unsupported(`${op} ${path}`);
    }
  }

  /** Sets a field, whatever it was; the way to it is made. Without `when`, it is always there. */
  set(path: readonly string[], value: JsonValue | TemplateText, when?: string): void {
    const last = path.at(-1) ?? '';
    let parent: Part = this.#root;
    for (const key of path.slice(0, -1)) {
      let next: Part | undefined = stepTo(parent, key);
      if (next === undefined && parent instanceof Fields)
        parent.all.push({ key, part: (next = new Fields()), when: undefined });
      if (next === undefined) throw unsupported(path.join('/'));
      parent = next;
    }
    if (!(parent instanceof Fields)) throw unsupported(path.join('/'));
    const field = { key: last, part: partOf(value), when: when === undefined ? undefined : new Set([when]) };
    const before = parent.field(last);
    if (before === undefined) parent.all.push(field);
    else Object.assign(before, field);
  }

  /** Adds lines to a list, which make items of it. */
  append(path: readonly string[], text: (indent: number) => string): void {
    const list = partAt(this.#root, path);
    if (!(list instanceof Items)) throw unsupported(path.join('/'));
    list.all.push({ part: new TemplateText(text, true), when: undefined });
  }

  /** The value of a field, without what is conditional. */
  get(path: readonly string[]): JsonValue | undefined {
    const part = partAt(this.#root, path);
    return part === undefined ? undefined : plain(part);
  }

  /** The lines of the template, each ended. */
  text(): string {
    return written(this.#root, 0);
  }
}

function unsupported(what: string): Error {
  return new Error(`the chart cannot express: ${what}`);
}

function partOf(value: JsonValue | TemplateText): Part {
  if (value instanceof TemplateText || value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) {
    const items = new Items();
    items.all.push(...value.map((item) => ({ part: partOf(item), when: undefined })));
    return items;
  }
  const fields = new Fields();
  fields.all.push(...Object.entries(value).map(([key, of]) => ({ key, part: partOf(of), when: undefined })));
  return fields;
}

function stepTo(part: Part | undefined, key: string): Part | undefined {
  if (part instanceof Fields) return part.field(key)?.part;
  return part instanceof Items ? part.all[Number(key)]?.part : undefined;
}

function partAt(root: Part, keys: readonly string[]): Part | undefined {
  return keys.reduce<Part | undefined>(stepTo, root);
}

/** Our patches have neither directives nor fields of another value than before. */
function merge(into: Fields, patch: JsonObject, type: PatchType | undefined, when: string): void {
  for (const [key, value] of Object.entries(patch)) {
    const before = into.field(key);
    const field = type?.get(key);
    if (before === undefined) into.all.push({ key, part: partOf(value as JsonValue), when: new Set([when]) });
    else if (isSame(before.part, value)) widen(before, when);
    else if (before.when !== undefined) throw unsupported(`two values of ${key}`);
    else if (before.part instanceof Fields && isObject(value)) merge(before.part, value, field?.type, when);
    else if (before.part instanceof Items && Array.isArray(value))
      mergeItems(before.part, value, field, when);
    else throw unsupported(`two values of ${key}`);
  }
}

function mergeItems(
  into: Items,
  items: readonly unknown[],
  field: PatchField | undefined,
  when: string,
): void {
  const mergeKey = field?.mergeKey;
  if (mergeKey === undefined) throw unsupported('a list without a merge key');
  for (const item of items as JsonObject[]) {
    const before = into.all.find(
      ({ part }) => part instanceof Fields && part.field(mergeKey)?.part === item[mergeKey],
    );
    if (before === undefined) into.all.push({ part: partOf(item as JsonValue), when: new Set([when]) });
    else if (isSame(before.part, item)) widen(before, when);
    else if (before.when === undefined && before.part instanceof Fields)
      merge(before.part, item, field?.type, when);
    else throw unsupported(`two items ${String(item[mergeKey])}`);
  }
}

function widen(part: Field | Item, when: string): void {
  if (part.when !== undefined) part.when = new Set([...part.when, when]);
}

function isSame(part: Part, value: unknown): boolean {
  return !isConditional(part) && JSON.stringify(plain(part)) === JSON.stringify(value);
}

/** Whether it can only be written as a template. */
function isConditional(part: Part): boolean {
  if (part instanceof TemplateText) return true;
  if (!(part instanceof Fields) && !(part instanceof Items)) return false;
  return part.all.some((one: Field | Item) => one.when !== undefined || isConditional(one.part));
}

function plain(part: Part): JsonValue {
  if (part instanceof Items)
    return part.all.filter(({ when }) => when === undefined).map((item) => plain(item.part));
  if (part instanceof Fields) {
    return Object.fromEntries(
      part.all.filter(({ when }) => when === undefined).map((field) => [field.key, plain(field.part)]),
    );
  }
  if (part instanceof TemplateText) throw unsupported('the value of a template');
  return part;
}

/** The text, escaped where the template's language would interpret it. */
export function literal(text: string): string {
  return text.replaceAll('{{', '{{ "{{" }}');
}

function written(part: Part, indent: number): string {
  if (!isConditional(part)) return literal(yaml(plain(part), indent));
  const space = ' '.repeat(indent);
  if (part instanceof Fields) return grouped(part.all, space, (field) => writtenField(field, indent));
  if (part instanceof Items) return grouped(part.all, space, (item) => writtenItem(item, indent));
  throw unsupported('a template without a field');
}

/** Consecutive parts under one condition are written under it once. */
function grouped<T extends Field | Item>(
  all: readonly T[],
  space: string,
  write: (one: T) => string,
): string {
  const groups: { readonly when: When; lines: string }[] = [];
  for (const one of all) {
    const last = groups.at(-1);
    if (last !== undefined && isSameCondition(last.when, one.when)) last.lines += write(one);
    else groups.push({ when: one.when, lines: write(one) });
  }
  return groups
    .map(({ when, lines }) =>
      when === undefined ? lines : `${space}{{- if ${expression(when)} }}\n${lines}${space}{{- end }}\n`,
    )
    .join('');
}

function isSameCondition(one: When, other: When): boolean {
  return one !== undefined && other !== undefined && expression(one) === expression(other);
}

function writtenField({ key, part }: Field, indent: number): string {
  const space = ' '.repeat(indent);
  if (part instanceof TemplateText) return `${space}${key}:${part.at(indent + 2)}\n`;
  if (!isConditional(part)) return literal(yaml({ [key]: plain(part) }, indent));
  const below = `${space}${key}:\n${written(part, indent + 2)}`;
  const all = (part as Fields | Items).all as readonly (Field | Item)[];
  if (all.some((one) => one.when === undefined)) return below;
  // It is never null: without any of them, it is empty.
  const any = expression(new Set(all.flatMap((one) => [...(one.when ?? [])])));
  const empty = `${space}${key}: ${part instanceof Items ? '[]' : '{}'}\n`;
  return `${space}{{- if ${any} }}\n${below}${space}{{- else }}\n${empty}${space}{{- end }}\n`;
}

function writtenItem({ part }: Item, indent: number): string {
  if (part instanceof TemplateText) {
    if (!part.isItems) throw unsupported('a template in a list');
    return part.at(indent);
  }
  if (!isConditional(part)) return literal(yaml([plain(part)], indent));
  const below = written(part, indent + 2);
  if (below.trimStart().startsWith('{{')) throw unsupported('an item whose first field is conditional');
  return `${' '.repeat(indent)}- ${below.slice(indent + 2)}`;
}

/** For `if`. */
export function expression(when: ReadonlySet<string>): string {
  const all = [...when];
  return all.length === 1
    ? all.join('')
    : `or ${all.map((one) => (one.includes(' ') ? `(${one})` : one)).join(' ')}`;
}

function yaml(value: JsonValue, indent: number): string {
  const text = stringify(value, {
    ...{ lineWidth: 0, singleQuote: true, aliasDuplicateObjects: false },
    // Helm reads YAML 1.1.
    compat: 'yaml-1.1',
  });
  return text.replaceAll(/^(?=.)/gm, ' '.repeat(indent));
}
