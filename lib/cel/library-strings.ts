/**
 * Functions on strings (cel-go `ext/strings.go`, version 2 and `reverse`) and regular expressions (apiserver
 * `pkg/cel/library/regex.go`). Positions count code points.
 */
import { goQuote } from './go-text.ts';
import { Regex, RegexBudgetError } from '../regex/regex.ts';
import { formatText } from './format-text.ts';
import { failure, noOverload } from './failure.ts';
import { charge } from './meter.ts';
import type { Library } from './register.ts';
import { messageOf } from '../errors/errors.ts';

/** The code points of a string; the string itself if each is one UTF-16 unit. */
function points(text: string): readonly string[] | string {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text) : text;
}

function slice(text: string, from: number, to?: number): string {
  const units = points(text);
  return typeof units === 'string' ? units.slice(from, to) : units.slice(from, to).join('');
}

const outOfRange = (index: bigint | number): Error => failure(`index out of range: ${index}`);

function indexOf(text: string, part: string, offset = 0n): bigint {
  const units = points(text);
  if (offset < 0n || (part !== '' && offset >= BigInt(units.length) && units.length > 0))
    throw outOfRange(offset);
  if (part === '') return offset;
  const from = slice(text, 0, Number(offset)).length;
  const found = text.indexOf(part, from);
  return found < 0 ? -1n : BigInt(points(text.slice(0, found)).length);
}

function lastIndexOf(text: string, part: string, offset?: bigint): bigint {
  const length = points(text).length;
  if (offset !== undefined && (offset < 0n || offset >= BigInt(Math.max(length, 1))))
    throw outOfRange(offset);
  if (part === '') return offset ?? BigInt(length);
  const found = text.lastIndexOf(
    part,
    offset === undefined ? Infinity : slice(text, 0, Number(offset)).length,
  );
  return found < 0 ? -1n : BigInt(points(text.slice(0, found)).length);
}

function substring(text: string, start: bigint, end = BigInt(points(text).length)): string {
  const length = BigInt(points(text).length);
  if (start < 0n || start > length) throw outOfRange(start);
  if (end < 0n || end > length) throw outOfRange(end);
  if (start > end) throw failure(`invalid substring range. start: ${start}, end: ${end}`);
  return slice(text, Number(start), Number(end));
}

function split(text: string, separator: string, limit = -1n): string[] {
  if (limit === 0n) return [];
  const parts = separator === '' ? Array.from(text) : text.split(separator);
  if (limit < 0n || BigInt(parts.length) <= limit) return parts;
  const head = parts.slice(0, Number(limit) - 1);
  return [...head, parts.slice(Number(limit) - 1).join(separator)];
}

function replace(text: string, old: string, replacement: string, limit = -1n): string {
  if (limit === 0n) return text;
  const max = limit < 0n ? Infinity : Number(limit);
  // An empty string is found before each character and at the end.
  const parts = old === '' ? ['', ...Array.from(text)] : text.split(old);
  if (old === '') {
    return parts.map((part, index) => part + (index < max ? replacement : '')).join('');
  }
  const head = parts.slice(0, max === Infinity ? undefined : max + 1);
  if (head.length < parts.length) head[head.length - 1] = parts.slice(head.length - 1).join(old);
  return head.join(replacement);
}

function charAt(text: string, index: bigint): string {
  const units = points(text);
  if (index < 0n || index > BigInt(units.length)) throw outOfRange(index);
  return units[Number(index)] ?? '';
}

const expressions = new Map<string, Regex>();
const maxExpressions = 500;
/** Compiling a regular expression takes about as long as this many steps, plus some for each character. */
const [compilationCost, perCharacter] = [200, 10];

/** A compiled regular expression, cached for later calls. */
export function expression(pattern: string): Regex {
  const known = expressions.get(pattern);
  if (known !== undefined) return known;
  if (expressions.size >= maxExpressions) expressions.clear();
  charge(compilationCost + pattern.length * perCharacter);
  try {
    const regex = new Regex(pattern);
    expressions.set(pattern, regex);
    return regex;
  } catch (error) {
    throw failure(messageOf(error));
  }
}

/** Runs a search, and turns one with too many steps into a CEL error. */
function searched<T>(pattern: string, search: (regex: Regex) => T): T {
  const regex = expression(pattern);
  try {
    return search(regex);
  } catch (error) {
    if (error instanceof RegexBudgetError) throw failure(error.message);
    throw error;
  }
}

function matches(text: string, pattern: string): boolean {
  return searched(pattern, (regex) => regex.test(text));
}

function findAll(text: string, pattern: string, limit = -1n): string[] {
  return searched(pattern, (regex) => regex.findAll(text, limit < 0n ? Infinity : Number(limit)));
}

export function addStrings(library: Library): void {
  library
    .add('strings.quote(string): string', (text: string) => goQuote(text))
    .add('string.charAt(int): string', charAt)
    .add('string.indexOf(string): int', indexOf)
    .add('string.indexOf(string, int): int', indexOf)
    .add('string.lastIndexOf(string): int', lastIndexOf)
    .add('string.lastIndexOf(string, int): int', lastIndexOf)
    .add('string.lowerAscii(): string', (text: string) =>
      text.replaceAll(/[A-Z]+/g, (part) => part.toLowerCase()),
    )
    .add('string.upperAscii(): string', (text: string) =>
      text.replaceAll(/[a-z]+/g, (part) => part.toUpperCase()),
    )
    .add('string.substring(int): string', substring)
    .add('string.substring(int, int): string', substring)
    .add('string.split(string): list<string>', split)
    .add('string.split(string, int): list<string>', split)
    .add('string.replace(string, string): string', replace)
    .add('string.replace(string, string, int): string', replace)
    .add('string.reverse(): string', (text: string) => Array.from(text).reverse().join(''))
    .add('string.format(list): string', formatText)
    .add('string.matches(string): bool', matches)
    .add('matches(string, string): bool', matches)
    .add('string.find(string): string', (text: string, pattern: string) => {
      const found = searched(pattern, (regex) => regex.find(text));
      return found === undefined ? '' : text.slice(...found);
    })
    .add('string.findAll(string): list<string>', findAll)
    .add('string.findAll(string, int): list<string>', findAll)
    .add('string.startsWith(string): bool', (text: string, part: string) => text.startsWith(part))
    .add('string.endsWith(string): bool', (text: string, part: string) => text.endsWith(part))
    .add('string.contains(string): bool', (text: string, part: string) => text.includes(part))
    .add('string.trim(): string', trim)
    .add('list<string>.join(): string', join)
    .add('list<string>.join(string): string', join);
}

/** White space as defined by Unicode; JavaScript differs for U+0085 and U+FEFF. */
const space = String.raw`[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]`;
const [leading, trailing] = [new RegExp(`^${space}+`), new RegExp(`${space}$`)];

function trim(text: string): string {
  const rest = text.replace(leading, '');
  let end = rest.length;
  // A regular expression for trailing white space would start at each space, which takes quadratic time.
  while (end > 0 && trailing.test(rest.charAt(end - 1))) end--;
  return rest.slice(0, end);
}

function join(list: readonly unknown[], separator = ''): string {
  if (list.some((item) => typeof item !== 'string')) throw noOverload();
  return list.join(separator);
}
