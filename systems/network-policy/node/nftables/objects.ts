/**
 * What a table consists of, in the words that nft itself lists it with: so what is to be there and what is there can be
 * compared, and the difference of the two is one transaction.
 *
 * @module
 */
import { tableName } from './names.ts';

export interface Chain {
  readonly kind: 'chain';
  readonly name: string;
  readonly comment?: string | undefined;
  /** `type filter hook forward priority -10; policy accept;` */
  readonly base?: string | undefined;
  readonly rules: readonly string[];
}

/** A set or a map. The elements of a set lead to an empty text, those of a map to their verdict. */
export interface ElementSet {
  readonly kind: 'set' | 'map';
  readonly name: string;
  /** `ipv4_addr`, `ipv4_addr : verdict` */
  readonly type: string;
  readonly interval: boolean;
  readonly elements: ReadonlyMap<string, string>;
}

export interface Counter {
  readonly kind: 'counter';
  readonly name: string;
}

export type TableObject = Chain | ElementSet | Counter;

/** By {@link objectKey}. */
export type TableObjects = ReadonlyMap<string, TableObject>;

export function objectKey({ kind, name }: Pick<TableObject, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

export function objectsOf(list: readonly TableObject[]): Map<string, TableObject> {
  return new Map(list.map((object) => [objectKey(object), object]));
}

const nothing: TableObjects = new Map();

/** The commands that make a table that has `before` have `after`, as one transaction; `undefined` where it has to be made anew. */
export function commandsBetween(before: TableObjects, after: TableObjects): string[] | undefined {
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

/** The commands that put a new table with `after` in place of one that may be there. */
export function commandsAnew(after: TableObjects): string[] {
  return [
    `add table ${tableName}`,
    `delete table ${tableName}`,
    `add table ${tableName}`,
    ...(commandsBetween(nothing, after) ?? []),
  ];
}

export function sameObject(a: TableObject, b: TableObject): boolean {
  return commandsBetween(objectsOf([a]), objectsOf([b]))?.length === 0;
}

/** Collects commands by when they may run: nothing is deleted that is still referred to, nothing referred to that is not there. */
class Commands {
  readonly #elementsOut: string[] = [];
  readonly #flushes: string[] = [];
  readonly #sets: string[] = [];
  readonly #chains: string[] = [];
  readonly #rules: string[] = [];
  readonly #elementsIn: string[] = [];
  readonly #deletions: string[] = [];

  add(object: TableObject): void {
    switch (object.kind) {
      case 'chain':
        this.#chains.push(chainCommand(object));
        this.#addRules(object);
        break;
      case 'counter':
        this.#sets.push(`add counter ${tableName} ${object.name}`);
        break;
      case 'set':
      case 'map':
        this.#sets.push(setCommand(object));
        this.#elements('add', object, [...object.elements.keys()]);
        break;
    }
  }

  /** Whether `before` can become `after` where it is. */
  change(before: TableObject, after: TableObject): boolean {
    if (before.kind === 'chain' && after.kind === 'chain') {
      if (before.base !== after.base || before.comment !== after.comment) return false;
      if (before.rules.join('\n') !== after.rules.join('\n')) {
        this.#flush(after);
        this.#addRules(after);
      }
    } else if (before.kind !== 'counter' && before.kind !== 'chain' && before.kind === after.kind) {
      if (before.type !== after.type || before.interval !== after.interval) return false;
      const differs = (a: ElementSet, b: ElementSet): string[] =>
        [...a.elements].filter(([key, value]) => b.elements.get(key) !== value).map(([key]) => key);
      this.#elements('delete', before, differs(before, after));
      this.#elements('add', after, differs(after, before));
    }
    return true;
  }

  delete(object: TableObject): void {
    if (object.kind === 'chain') this.#flush(object);
    // Its elements may refer to chains that go with it.
    if (object.kind === 'map') this.#elements('delete', object, [...object.elements.keys()]);
    this.#deletions.push(`delete ${object.kind} ${tableName} ${object.name}`);
  }

  inOrder(): string[] {
    return [
      ...this.#elementsOut,
      ...this.#flushes,
      ...this.#sets,
      ...this.#chains,
      ...this.#rules,
      ...this.#elementsIn,
      ...this.#deletions.sort(),
    ];
  }

  #flush({ name }: Chain): void {
    this.#flushes.push(`flush chain ${tableName} ${name}`);
  }

  #addRules({ name, rules }: Chain): void {
    for (const rule of rules) this.#rules.push(`add rule ${tableName} ${name} ${rule}`);
  }

  #elements(verb: 'add' | 'delete', { name, elements }: ElementSet, keys: readonly string[]): void {
    if (keys.length === 0) return;
    const texts =
      verb === 'delete'
        ? keys
        : keys.map((key) => (elements.get(key) ? `${key} : ${elements.get(key)}` : key));
    (verb === 'add' ? this.#elementsIn : this.#elementsOut).push(
      `${verb} element ${tableName} ${name} { ${texts.join(', ')} }`,
    );
  }
}

function chainCommand({ name, base, comment }: Chain): string {
  const parts = [base ?? '', comment === undefined ? '' : `comment "${comment}";`].filter(Boolean);
  return `add chain ${tableName} ${name}${parts.length === 0 ? '' : ` { ${parts.join(' ')} }`}`;
}

function setCommand({ kind, name, type, interval }: ElementSet): string {
  return `add ${kind} ${tableName} ${name} { type ${type};${interval ? ' flags interval;' : ''} }`;
}
