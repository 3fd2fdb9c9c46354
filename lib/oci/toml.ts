/**
 * TOML 1.0 as far as registries.conf uses it: tables, arrays of tables, dotted and quoted keys, strings on one line, booleans,
 * integers, arrays, inline tables. Anything else (dates, floats, multi-line strings) is rejected with its line.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';

export type TomlValue = string | boolean | number | TomlValue[] | TomlTable;
export interface TomlTable {
  [key: string]: TomlValue;
}

const MAX_DEPTH = 32;
const escapes: Readonly<Record<string, string>> = {
  b: '\b',
  t: '\t',
  n: '\n',
  f: '\f',
  r: '\r',
  '"': '"',
  '\\': '\\',
};

/** @throws {RampartError} `INPUT`, with the line. @param what - Where the text comes from, for messages. */
export function parseToml(text: string, what: string): TomlTable {
  return new Parser(text, what).document();
}

class Parser {
  readonly #text: string;
  readonly #what: string;
  #at = 0;
  /** Tables that were defined by a header: a second header for the same table is an error. */
  readonly #named = new Set<TomlTable>();

  constructor(text: string, what: string) {
    this.#text = text.replaceAll('\r\n', '\n').replace(/^\uFEFF/, '');
    this.#what = what;
  }

  document(): TomlTable {
    const root = newTable();
    let table = root;
    for (;;) {
      this.#skipLines();
      if (this.#at >= this.#text.length) return root;
      if (this.#peek('[[')) table = this.#arrayHeader(root);
      else if (this.#peek('[')) table = this.#tableHeader(root);
      else this.#pair(table, 0);
      this.#endOfLine();
    }
  }

  #tableHeader(root: TomlTable): TomlTable {
    this.#at += 1;
    const keys = this.#keys();
    this.#expect(']');
    const table = this.#descend(root, keys, 'header');
    if (this.#named.has(table)) throw this.#fault(`[${keys.join('.')}] must appear exactly once`);
    this.#named.add(table);
    return table;
  }

  #arrayHeader(root: TomlTable): TomlTable {
    this.#at += 2;
    const keys = this.#keys();
    this.#expect(']]');
    const last = keys.at(-1) ?? '';
    const parent = this.#descend(root, keys.slice(0, -1), 'header');
    const list = (parent[last] ??= []);
    if (!Array.isArray(list)) throw this.#fault(`${keys.join('.')} is not an array of tables`);
    const table = newTable();
    list.push(table);
    return table;
  }

  /** The table of dotted keys; for an array of tables, its last. */
  #descend(from: TomlTable, keys: readonly string[], where: string): TomlTable {
    let table = from;
    for (const key of keys) {
      let next = (table[key] ??= newTable());
      if (Array.isArray(next)) next = next.at(-1) ?? '';
      if (typeof next !== 'object' || Array.isArray(next)) {
        throw this.#fault(`${key} in this ${where} is a value, not a table`);
      }
      table = next;
    }
    return table;
  }

  #pair(table: TomlTable, depth: number): void {
    const keys = this.#keys();
    this.#expect('=');
    this.#skipBlanks();
    const value = this.#value(depth);
    const target = this.#descend(table, keys.slice(0, -1), 'key');
    const last = keys.at(-1) ?? '';
    if (Object.hasOwn(target, last)) throw this.#fault(`${keys.join('.')} must appear exactly once`);
    target[last] = value;
  }

  #keys(): string[] {
    const keys: string[] = [];
    do {
      this.#skipBlanks();
      const first = this.#text[this.#at];
      if (first === '"' || first === "'") keys.push(this.#string());
      else keys.push(this.#match(/[\w-]+/y, 'a key'));
      this.#skipBlanks();
    } while (this.#take('.'));
    return keys;
  }

  #value(depth: number): TomlValue {
    if (depth > MAX_DEPTH) throw this.#fault(`more than ${MAX_DEPTH} levels`);
    const first = this.#text[this.#at];
    if (first === '"' || first === "'") return this.#string();
    if (first === '[') return this.#array(depth);
    if (first === '{') return this.#inlineTable(depth);
    const word = this.#match(/[^\s,\]}#=]+/y, 'a value');
    if (word === 'true' || word === 'false') return word === 'true';
    if (/^[+-]?(0|[1-9](_?\d)*)$/.test(word)) {
      const number = Number(word.replaceAll('_', ''));
      if (Number.isSafeInteger(number)) return number;
    }
    throw this.#fault(`${JSON.stringify(word)} is not one of: a string in quotes, true, false, an integer`);
  }

  #array(depth: number): TomlValue[] {
    this.#at += 1;
    const list: TomlValue[] = [];
    for (;;) {
      this.#skipLines();
      if (this.#take(']')) return list;
      list.push(this.#value(depth + 1));
      this.#skipLines();
      if (!this.#take(',') && !this.#peek(']')) throw this.#fault('"," or "]" is missing');
    }
  }

  #inlineTable(depth: number): TomlTable {
    this.#at += 1;
    const table = newTable();
    this.#skipBlanks();
    if (this.#take('}')) return table;
    for (;;) {
      this.#pair(table, depth + 1);
      this.#skipBlanks();
      if (this.#take('}')) return table;
      this.#expect(',');
    }
  }

  #string(): string {
    const quote = this.#text[this.#at] ?? '';
    if (this.#peek(quote.repeat(3))) throw this.#fault('multi-line strings are not supported');
    this.#at += 1;
    let out = '';
    for (;;) {
      const character = this.#text[this.#at++];
      if (character === undefined || character === '\n')
        throw this.#fault('the string is not terminated on its line');
      if (character === quote) return out;
      out += character === '\\' && quote === '"' ? this.#escape() : character;
    }
  }

  #escape(): string {
    const kind = this.#text[this.#at++] ?? '';
    const plain = escapes[kind];
    if (plain !== undefined) return plain;
    const length = kind === 'u' ? 4 : kind === 'U' ? 8 : 0;
    const digits = this.#text.slice(this.#at, this.#at + length);
    const code = Number.parseInt(digits, 16);
    const isScalar = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    if (length === 0 || !/^[0-9a-fA-F]+$/.test(digits) || digits.length !== length || !isScalar) {
      throw this.#fault(`"\\${kind}" is not an escape sequence`);
    }
    this.#at += length;
    return String.fromCodePoint(code);
  }

  #match(form: RegExp, what: string): string {
    form.lastIndex = this.#at;
    const found = form.exec(this.#text)?.[0];
    if (found === undefined) throw this.#fault(`${what} is missing`);
    this.#at += found.length;
    return found;
  }

  #peek(token: string): boolean {
    return this.#text.startsWith(token, this.#at);
  }

  #take(token: string): boolean {
    if (!this.#peek(token)) return false;
    this.#at += token.length;
    return true;
  }

  #expect(token: string): void {
    this.#skipBlanks();
    if (!this.#take(token)) throw this.#fault(`"${token}" is missing`);
  }

  #skipBlanks(): void {
    while (this.#text[this.#at] === ' ' || this.#text[this.#at] === '\t') this.#at += 1;
  }

  #skipLines(): void {
    for (;;) {
      this.#skipBlanks();
      if (this.#peek('#')) while (this.#at < this.#text.length && !this.#peek('\n')) this.#at += 1;
      if (!this.#take('\n')) return;
    }
  }

  #endOfLine(): void {
    this.#skipBlanks();
    if (this.#at < this.#text.length && !this.#peek('\n') && !this.#peek('#')) {
      throw this.#fault('unexpected text at the end of the line');
    }
  }

  #fault(why: string): RampartError {
    const line = this.#text.slice(0, Math.min(this.#at, this.#text.length)).split('\n').length;
    return new RampartError(errorCodes.INPUT, { what: `${this.#what}, line ${line}`, why });
  }
}

/** Without a prototype: any name can be a key. */
function newTable(): TomlTable {
  return Object.create(null) as TomlTable;
}
