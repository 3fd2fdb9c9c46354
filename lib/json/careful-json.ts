/**
 * A JSON parser for the texts that need a closer look than `JSON.parse` gives: it keeps large integers and
 * keys with escapes, names duplicate fields, and describes errors in the words of an API server. About twenty
 * times slower than `JSON.parse`, so it comes second.
 */
import { jsonInteger, setField } from './json.ts';

/** The text is not JSON. The message has the wording of Go's encoding/json (`scanner.go`). */
export class JsonSyntaxError extends SyntaxError {
  override readonly name = 'JsonSyntaxError';
}

interface CarefulJson {
  readonly value: unknown;
  /** Paths of duplicate fields, such as `spec.containers[0].name`; only the first hundred. */
  readonly duplicates: readonly string[];
}

const maxDuplicates = 100;

/** Recurses once per level: the caller limits the depth. @throws {JsonSyntaxError} */
export function parseJsonCarefully(text: string): CarefulJson {
  const parser = new Parser(text);
  return { value: parser.document(), duplicates: parser.duplicates };
}

const literals: Readonly<Record<string, readonly [text: string, value: boolean | null]>> = {
  t: ['true', true],
  f: ['false', false],
  n: ['null', null],
};

class Parser {
  readonly duplicates: string[] = [];
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): unknown {
    const value = this.#value('');
    if (this.#peek() !== undefined) throw this.#mistake('after top-level value');
    return value;
  }

  /** The next character that is not white space. */
  #peek(): string | undefined {
    for (;;) {
      const next = this.#text[this.#at];
      if (next !== ' ' && next !== '\n' && next !== '\r' && next !== '\t') return next;
      this.#at++;
    }
  }

  #mistake(where: string): JsonSyntaxError {
    const next = this.#text.codePointAt(this.#at);
    if (next === undefined) return new JsonSyntaxError('unexpected end of JSON input');
    return new JsonSyntaxError(`invalid character ${shown(String.fromCodePoint(next))} ${where}`);
  }

  #value(path: string): unknown {
    const next = this.#peek();
    if (next === '{') return this.#object(path);
    if (next === '[') return this.#list(path);
    if (next === '"') return this.#string();
    if (next !== undefined && (next === '-' || isDigit(next))) return this.#number();
    const literal = literals[next ?? ''];
    if (literal === undefined) throw this.#mistake('looking for beginning of value');
    for (const expected of literal[0]) {
      if (this.#text[this.#at] !== expected) {
        throw this.#mistake(`in literal ${literal[0]} (expecting ${shown(expected)})`);
      }
      this.#at++;
    }
    return literal[1];
  }

  #object(path: string): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    this.#at++;
    if (this.#peek() === '}') {
      this.#at++;
      return object;
    }
    for (;;) {
      if (this.#peek() !== '"') throw this.#mistake('looking for beginning of object key string');
      const name = this.#string();
      const fieldPath = path === '' ? name : `${path}.${name}`;
      if (this.#peek() !== ':') throw this.#mistake('after object key');
      this.#at++;
      if (Object.hasOwn(object, name) && this.duplicates.length < maxDuplicates) {
        this.duplicates.push(fieldPath);
      }
      setField(object, name, this.#value(fieldPath));
      const next = this.#peek();
      if (next !== ',' && next !== '}') throw this.#mistake('after object key:value pair');
      this.#at++;
      if (next === '}') return object;
    }
  }

  #list(path: string): unknown[] {
    const list: unknown[] = [];
    this.#at++;
    if (this.#peek() === ']') {
      this.#at++;
      return list;
    }
    for (;;) {
      list.push(this.#value(`${path}[${list.length}]`));
      const next = this.#peek();
      if (next !== ',' && next !== ']') throw this.#mistake('after array element');
      this.#at++;
      if (next === ']') return list;
    }
  }

  #string(): string {
    const start = this.#at++;
    let isEscaped = false;
    for (;;) {
      const next = this.#text[this.#at];
      if (next === undefined || next < ' ') throw this.#mistake('in string literal');
      if (next === '"') break;
      if (next === '\\') {
        isEscaped = true;
        this.#escape();
      } else this.#at++;
    }
    this.#at++;
    if (!isEscaped) return this.#text.slice(start + 1, this.#at - 1);
    const text = JSON.parse(this.#text.slice(start, this.#at)) as string;
    // Half of a surrogate pair is not a character; Go replaces it by U+FFFD.
    return text.toWellFormed();
  }

  #escape(): void {
    this.#at++;
    const kind = this.#text[this.#at];
    if (kind === undefined || !'"\\/bfnrtu'.includes(kind)) throw this.#mistake('in string escape code');
    this.#at++;
    if (kind !== 'u') return;
    for (let digits = 0; digits < 4; digits++, this.#at++) {
      if (!/^[0-9a-fA-F]$/.test(this.#text[this.#at] ?? '')) {
        throw this.#mistake('in \\u hexadecimal character escape');
      }
    }
  }

  #number(): number | bigint {
    const start = this.#at;
    if (this.#text[this.#at] === '-') this.#at++;
    if (this.#text[this.#at] === '0') this.#at++;
    else this.#digits('in numeric literal');
    let isInteger = true;
    if (this.#text[this.#at] === '.') {
      isInteger = false;
      this.#at++;
      this.#digits('after decimal point in numeric literal');
    }
    if (this.#text[this.#at] === 'e' || this.#text[this.#at] === 'E') {
      isInteger = false;
      this.#at++;
      if (this.#text[this.#at] === '+' || this.#text[this.#at] === '-') this.#at++;
      this.#digits('in exponent of numeric literal');
    }
    const text = this.#text.slice(start, this.#at);
    const number = Number(text);
    if (!Number.isFinite(number)) {
      throw new JsonSyntaxError(
        `json: cannot unmarshal number ${text.slice(0, 40)} into Go value of type float64`,
      );
    }
    if (!isInteger || Number.isSafeInteger(number) || text.length > 20) return number;
    return jsonInteger(BigInt(text));
  }

  #digits(where: string): void {
    if (!isDigit(this.#text[this.#at] ?? '')) throw this.#mistake(where);
    while (isDigit(this.#text[this.#at] ?? '')) this.#at++;
  }
}

function isDigit(char: string): boolean {
  return char >= '0' && char <= '9';
}

/** A character as Go's encoding/json quotes it in errors. */
function shown(char: string): string {
  if (char === "'") return "'\\''";
  if (char === '"') return `'"'`;
  return `'${JSON.stringify(char).slice(1, -1)}'`;
}
