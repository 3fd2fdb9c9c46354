/**
 * Builtins of Rego that its WebAssembly modules leave to the host, as in Open Policy Agent
 * (https://www.openpolicyagent.org/docs/policy-reference). They run in the policy's thread, within its deadline.
 */
import { createHash, randomUUID } from 'node:crypto';
import { isObject } from '../../../../../lib/json/json.ts';
import { applyJsonPatch } from '../../../../../lib/json/json-patch.ts';
import { goFormat } from './rego-sprintf.ts';
import { timeBuiltins } from './rego-time.ts';
import type { Builtin } from './builtin.ts';
import { Semver } from '../../../../../lib/cel/semver.ts';

/** Arguments of the wrong type are errors. */
function ofTexts(make: (...texts: string[]) => unknown): Builtin {
  return (args) => (args.every((arg) => typeof arg === 'string') ? attempt(() => make(...args)) : undefined);
}

function attempt(make: () => unknown): unknown {
  try {
    return make();
  } catch {
    return undefined;
  }
}

const fatal = new TextDecoder('utf-8', { fatal: true });

function decoded(text: string, encoding: 'base64url' | 'hex', alphabet: RegExp): string | undefined {
  return alphabet.test(text) ? fatal.decode(Buffer.from(text, encoding)) : undefined;
}

export const builtins: Readonly<Record<string, Builtin>> = {
  trace(args, say) {
    if (typeof args[0] === 'string') say(args[0]);
    return true;
  },
  print(args, say) {
    say(
      args
        .flat(2)
        .map((arg) => (typeof arg === 'string' ? arg : JSON.stringify(arg)))
        .join(' '),
    );
    return true;
  },
  sprintf: ([how, values]) =>
    typeof how === 'string' && Array.isArray(values) ? goFormat(how, values) : undefined,

  'hex.encode': ofTexts((text) => Buffer.from(text ?? '').toString('hex')),
  'hex.decode': ofTexts((text = '') => decoded(text, 'hex', /^(?:[0-9a-fA-F]{2})*$/)),
  'base64url.encode_no_pad': ofTexts((text = '') => Buffer.from(text).toString('base64url')),
  'base64url.encode': ofTexts((text = '') => padded(Buffer.from(text).toString('base64url'))),
  'base64url.decode': ofTexts((text = '') => decoded(text, 'base64url', /^[\w-]*={0,2}$/)),
  'urlquery.encode': ofTexts((text = '') => queryEscaped(text)),
  'urlquery.decode': ofTexts((text = '') => decodeURIComponent(text.replaceAll('+', ' '))),
  'urlquery.encode_object': ([object]) => (isObject(object) ? queryOf(object) : undefined),
  'urlquery.decode_object': ofTexts((text = '') => {
    const found: Record<string, string[]> = {};
    for (const [key, value] of new URLSearchParams(text)) (found[key] ??= []).push(value);
    return found;
  }),
  'crypto.md5': ofTexts((text = '') => createHash('md5').update(text).digest('hex')),
  'crypto.sha1': ofTexts((text = '') => createHash('sha1').update(text).digest('hex')),
  'crypto.sha256': ofTexts((text = '') => createHash('sha256').update(text).digest('hex')),
  'uuid.rfc4122': () => randomUUID(),

  'glob.quote_meta': ofTexts((text = '') => text.replaceAll(/[*?\\[\]{}]/g, String.raw`\$&`)),
  'json.patch': ([document, patch]) =>
    attempt(() => (applyJsonPatch({ document }, withinDocument(patch)) as { document: unknown }).document),
  'regex.template_match': ([template, text, start, end]) =>
    attempt(() => templateRegex(String(template), String(start), String(end)).test(String(text))),
  'regex.find_n': ([pattern, text, count]) =>
    attempt(() => {
      const most = Number(count) < 0 ? Infinity : Number(count);
      const found: string[] = [];
      for (const [match] of String(text).matchAll(new RegExp(String(pattern), 'gu'))) {
        if (found.length >= most) break;
        found.push(match);
      }
      return found;
    }),
  'regex.split': ([pattern, text]) => attempt(() => String(text).split(new RegExp(String(pattern), 'u'))),
  'regex.replace': ([text, pattern, by]) =>
    attempt(() =>
      String(text).replace(new RegExp(String(pattern), 'gu'), String(by).replaceAll(/\$\{(\w+)\}/g, '$$$1')),
    ),
  'semver.is_valid': ([version]) => typeof version === 'string' && isSemver(version),
  'semver.compare': ofTexts((a = '', b = '') => semverCompare(a, b)),
  indexof_n: ofTexts((text = '', part = '') => {
    const found: number[] = [];
    if (part === '') return undefined;
    for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
      found.push(lengthOf(text.slice(0, at)));
    }
    return found;
  }),
  'strings.count': ofTexts((text = '', part = '') =>
    part === '' ? lengthOf(text) + 1 : text.split(part).length - 1,
  ),
  'units.parse': ofTexts((text = '') => unitsOf(text, false)),
  'units.parse_bytes': ofTexts((text = '') => unitsOf(text, true)),
  ...timeBuiltins,
};

/** In code points, as Go counts. */
function lengthOf(text: string): number {
  return Array.from(text).length;
}

function padded(text: string): string {
  return text.padEnd(Math.ceil(text.length / 4) * 4, '=');
}

/** As Go's url.QueryEscape, which leaves letters, digits and `-_.~`. */
function queryEscaped(text: string): string {
  return encodeURIComponent(text)
    .replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

function queryOf(object: Record<string, unknown>): string {
  return Object.keys(object)
    .toSorted()
    .flatMap((key) =>
      [object[key]].flat().map((value) => `${queryEscaped(key)}=${queryEscaped(String(value))}`),
    )
    .join('&');
}

/** A patch of the value at `/document`; Rego also accepts a path as a list, and one without its leading slash. */
function withinDocument(patch: unknown): unknown {
  if (!Array.isArray(patch)) return patch;
  const within = (path: unknown): string => {
    const text = Array.isArray(path)
      ? path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
      : String(path);
    return `/document${text === '' || text.startsWith('/') ? text : `/${text}`}`;
  };
  return patch.map((operation: Record<string, unknown>) => ({
    ...operation,
    ...('path' in operation && { path: within(operation['path']) }),
    ...('from' in operation && { from: within(operation['from']) }),
  }));
}

/** A text with expressions between two delimiters. */
function templateRegex(template: string, start: string, end: string): RegExp {
  if (lengthOf(start) !== 1 || lengthOf(end) !== 1) throw new RangeError('a delimiter must be one character');
  let [source, at] = ['^', 0];
  for (;;) {
    const from = template.indexOf(start, at);
    if (from < 0) break;
    let depth = 1;
    let to = from + 1;
    for (; to < template.length && depth > 0; to++) {
      if (template[to] === end) depth--;
      else if (template[to] === start) depth++;
    }
    if (depth > 0) throw new RangeError('a delimiter is not closed');
    source += `${RegExpEscape(template.slice(at, from))}(?:${template.slice(from + 1, to - 1)})`;
    at = to;
  }
  return new RegExp(`${source}${RegExpEscape(template.slice(at))}$`, 'u');
}

function RegExpEscape(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}

const decimal = ['', 'K', 'M', 'G', 'T', 'P', 'E'];

function unitsOf(text: string, isBytes: boolean): number | undefined {
  const [, number = '', unit = ''] = /^"?([\d.]+)\s*([a-zA-Z]*)"?$/.exec(text) ?? [];
  if (number === '' || !Number.isFinite(Number(number))) return undefined;
  if (!isBytes && unit === 'm') return Number(number) / 1000;
  let name = unit.toUpperCase();
  if (isBytes) name = name.replace(/B$/, '');
  const binary = name.endsWith('I');
  const power = decimal.indexOf(binary ? name.slice(0, -1) : name);
  if (power < 0) return undefined;
  const value = Number(number) * (binary ? 1024 : 1000) ** power;
  return isBytes ? Math.trunc(value) : value;
}

/** Semantic versions (https://semver.org), for Rego. */
function isSemver(version: string): boolean {
  return Semver.parse(version) instanceof Semver;
}

/** -1, 0 or 1. @throws {RangeError} if it is not a version. */
function semverCompare(a: string, b: string): number {
  const [left, right] = [Semver.parse(a), Semver.parse(b)];
  if (left instanceof Semver && right instanceof Semver) return Number(left.compareTo(right));
  throw new RangeError('not a semantic version');
}
