/** The contents of a table, in a form in which the desired and the actual state can be compared and the difference applied as one transaction. */
import type { ElementSet } from './nft-sets.ts';
import type { BaseChain, Listed, Rule, Verdict } from './rule.ts';
import { baseText, ruleText, verdictText } from './rule-text.ts';

export interface Chain {
  readonly kind: 'chain';
  readonly name: string;
  readonly comment?: string | undefined;
  readonly base?: BaseChain | Listed | undefined;
  readonly rules: readonly Rule[];
}

export interface Counter {
  readonly kind: 'counter';
  readonly name: string;
}

/** Limits the rate of reports about one pod: all rules that refer to it share it. */
export interface Limit {
  readonly kind: 'limit';
  readonly name: string;
  readonly perMinute: number;
  readonly burst: number;
}

export type TableObject = Chain | ElementSet | Counter | Limit;

/** Keyed by {@link objectKey}. */
export type TableObjects = ReadonlyMap<string, TableObject>;

export function objectKey({ kind, name }: Pick<TableObject, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

export function objectsOf(list: readonly TableObject[]): Map<string, TableObject> {
  return new Map(list.map((object) => [objectKey(object), object]));
}

/** One step of a transaction. A chain is added without its rules, a set without its elements. */
export type Command =
  | { readonly do: 'add table' | 'delete table' }
  | { readonly do: 'add' | 'delete'; readonly object: TableObject }
  | { readonly do: 'flush chain'; readonly chain: string }
  | { readonly do: 'add rule'; readonly chain: string; readonly rule: Rule }
  | {
      readonly do: 'add element' | 'delete element';
      readonly set: ElementSet;
      readonly keys: readonly string[];
    };

const nothing: TableObjects = new Map();

/** The commands that change a table from `before` to `after`, as one transaction; `undefined` if it must be created again. */
export function commandsBetween(before: TableObjects, after: TableObjects): Command[] | undefined {
  const commands = new Commands();
  for (const [key, object] of after) {
    const old = before.get(key);
    if (old === object) continue;
    if (old === undefined) commands.add(object);
    else if (!commands.change(old, object)) return undefined;
  }
  for (const [key, object] of before) {
    if (!after.has(key)) commands.delete(object);
  }
  return commands.inOrder();
}

/** The commands that replace a table, if there is one, with a new one that has `after`. */
export function commandsAnew(after: TableObjects): Command[] {
  return [
    { do: 'add table' },
    { do: 'delete table' },
    { do: 'add table' },
    ...(commandsBetween(nothing, after) ?? []),
  ];
}

export function sameObject(a: TableObject, b: TableObject): boolean {
  return commandsBetween(objectsOf([a]), objectsOf([b]))?.length === 0;
}

function headOf({ base, comment }: Chain): string {
  return `${base === undefined ? '' : baseText(base)} ${comment ?? ''}`;
}

function sameRules(a: readonly Rule[], b: readonly Rule[]): boolean {
  return (
    a === b ||
    (a.length === b.length &&
      a.every((one, at) => one === b[at] || ruleText(one) === ruleText(b[at] as Rule)))
  );
}

function sameType(a: ElementSet, b: ElementSet): boolean {
  return a.holds !== 'unknown' && b.holds !== 'unknown' && a.holds === b.holds && a.family === b.family;
}

/** Keys of `a` that are missing in `b`, or have another value there. */
function changedKeys(a: ElementSet, b: ElementSet): string[] {
  return [...a.elements.keys()].filter((key) => {
    if (!b.elements.has(key)) return true;
    const [one, other] = [a.elements.get(key), b.elements.get(key)];
    return one !== other && valueText(one) !== valueText(other);
  });
}

/** Value of an element of a map. Elements of sets have only keys. */
function valueText(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'object' && value !== null && 'kind' in value ? verdictText(value as Verdict) : '';
}

/** Collects commands by when they may run: nothing is deleted while it is referenced, and nothing is referenced before it exists. */
class Commands {
  readonly #elementsOut: Command[] = [];
  readonly #flushes: Command[] = [];
  readonly #sets: Command[] = [];
  readonly #chains: Command[] = [];
  readonly #rules: Command[] = [];
  readonly #elementsIn: Command[] = [];
  readonly #chainsOut: Command[] = [];
  readonly #setsOut: Command[] = [];

  add(object: TableObject): void {
    (object.kind === 'chain' ? this.#chains : this.#sets).push({ do: 'add', object });
    if (object.kind === 'chain') this.#addRules(object);
    else if ('elements' in object) this.#elements('add element', object, [...object.elements.keys()]);
  }

  /** Adds the commands that change an object in place. @returns whether that is possible */
  change(before: TableObject, after: TableObject): boolean {
    if (before.kind === 'chain' && after.kind === 'chain') {
      if (headOf(before) !== headOf(after)) return false;
      if (!sameRules(before.rules, after.rules)) {
        this.#flush(after);
        this.#addRules(after);
      }
    } else if ('elements' in before && 'elements' in after) {
      if (!sameType(before, after)) return false;
      this.#elements('delete element', before, changedKeys(before, after));
      this.#elements('add element', after, changedKeys(after, before));
    } else if (before.kind === 'limit' && after.kind === 'limit') {
      return before.perMinute === after.perMinute && before.burst === after.burst;
    }
    return true;
  }

  delete(object: TableObject): void {
    if (object.kind === 'chain') this.#flush(object);
    // The map's elements may refer to chains that are deleted with it.
    if (object.kind === 'map') this.#elements('delete element', object, [...object.elements.keys()]);
    (object.kind === 'chain' ? this.#chainsOut : this.#setsOut).push({ do: 'delete', object });
  }

  inOrder(): Command[] {
    return [
      ...this.#elementsOut,
      ...this.#flushes,
      ...this.#sets,
      ...this.#chains,
      ...this.#rules,
      ...this.#elementsIn,
      ...this.#chainsOut,
      ...this.#setsOut,
    ];
  }

  #flush({ name }: Chain): void {
    this.#flushes.push({ do: 'flush chain', chain: name });
  }

  #addRules({ name, rules }: Chain): void {
    for (const rule of rules) this.#rules.push({ do: 'add rule', chain: name, rule });
  }

  #elements(verb: 'add element' | 'delete element', set: ElementSet, keys: readonly string[]): void {
    if (keys.length === 0) return;
    (verb === 'add element' ? this.#elementsIn : this.#elementsOut).push({ do: verb, set, keys });
  }
}
