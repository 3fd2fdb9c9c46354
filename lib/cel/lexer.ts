/** The tokens of expressions (cel-go `parser/gen/CEL.g4`). */
import { CelSyntaxError, type Literal } from './syntax.ts';
import { Uint } from './values.ts';

type TokenKind = 'literal' | 'identifier' | 'sign' | 'end';

export interface Token {
  readonly kind: TokenKind;
  /** The token as written; '' at the end of the expression. */
  readonly text: string;
  readonly pos: number;
  readonly value?: Literal;
}

const space = /(?:[ \t\r\n\f]+|\/\/[^\n]*)*/y;
const number = /0x([0-9a-fA-F]+)([uU])?|(\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(\d+)([uU])?/y;
const word = /[A-Za-z_][A-Za-z0-9_]*/y;
const text =
  /([bB]?)(?:"""((?:[^\\]|\\[^])*?)"""|'''((?:[^\\]|\\[^])*?)'''|"((?:[^\\"\n\r]|\\[^\n\r])*)"|'((?:[^\\'\n\r]|\\[^\n\r])*)')/y;
/** Raw strings, in which a backslash has no special meaning. */
const rawText = /([bB]?)[rR](?:"""([^]*?)"""|'''([^]*?)'''|"([^"\n\r]*)"|'([^'\n\r]*)')/y;
const sign = /==|!=|<=|>=|&&|\|\||[[\]{}()<>.,\-!?:+*/%]/y;

const constants: ReadonlyMap<string, Literal> = new Map<string, Literal>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

/** @throws {CelSyntaxError} */
export function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  const match = (pattern: RegExp, at: number): RegExpExecArray | null => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };
  let pos = 0;
  for (;;) {
    pos += match(space, pos)?.[0].length ?? 0;
    if (pos >= source.length) {
      tokens.push({ kind: 'end', text: '', pos });
      return tokens;
    }
    const token =
      textToken(match(rawText, pos), true) ??
      textToken(match(text, pos), false) ??
      numberToken(match(number, pos)) ??
      wordToken(match(word, pos)) ??
      signToken(match(sign, pos));
    if (token === undefined) {
      const rest = source.slice(pos).split('\n', 1)[0] ?? '';
      // A string without an end is reported as a whole.
      const unknown = /^[bB]?[rR]?["']/.test(rest)
        ? rest
        : String.fromCodePoint(source.codePointAt(pos) ?? 0);
      throw new CelSyntaxError(pos, `token recognition error at: '${unknown}'`);
    }
    tokens.push(token);
    pos += token.text.length;
  }
}

function wordToken(match: RegExpExecArray | null): Token | undefined {
  if (match === null) return undefined;
  const [found] = match;
  const { index: pos } = match;
  if (found === 'in') return { kind: 'sign', text: found, pos };
  const value = constants.get(found);
  return value === undefined
    ? { kind: 'identifier', text: found, pos }
    : { kind: 'literal', text: found, pos, value };
}

const signToken = (match: RegExpExecArray | null): Token | undefined =>
  match === null ? undefined : { kind: 'sign', text: match[0], pos: match.index };

/** An integer may exceed int64 by one: with a minus before it, it may be the lowest int64. */
function numberToken(match: RegExpExecArray | null): Token | undefined {
  if (match === null) return undefined;
  const [found, hex, hexUnsigned, double, decimal, unsigned] = match;
  const { index: pos } = match;
  if (double !== undefined) {
    const value = Number(double);
    if (!Number.isFinite(value)) throw new CelSyntaxError(pos, 'invalid double literal');
    return { kind: 'literal', text: found, pos, value };
  }
  const value = hex === undefined ? BigInt(decimal ?? '0') : BigInt(`0x${hex}`);
  if ((unsigned ?? hexUnsigned) === undefined) {
    if (value > 2n ** 63n) throw new CelSyntaxError(pos, 'invalid int literal');
    return { kind: 'literal', text: found, pos, value };
  }
  if (BigInt.asUintN(64, value) !== value) throw new CelSyntaxError(pos, 'invalid uint literal');
  return { kind: 'literal', text: found, pos, value: new Uint(value) };
}

function textToken(match: RegExpExecArray | null, raw: boolean): Token | undefined {
  if (match === null) return undefined;
  const { index: pos } = match;
  const [found, prefix = '', ...bodies] = match;
  const body = bodies.find((one) => one !== undefined) ?? '';
  const isBytes = prefix !== '';
  // In strings of several lines, all line ends become `\n`.
  const unix = body.replaceAll(/\r\n?/g, '\n');
  if (isBytes)
    return { kind: 'literal', text: found, pos, value: raw ? utf8(unix) : unescapedBytes(unix, pos) };
  return { kind: 'literal', text: found, pos, value: raw ? unix : unescaped(unix, pos) };
}

const utf8 = (value: string): Uint8Array => new Uint8Array(Buffer.from(value));

const escape =
  /\\(?:([abfnrtv"'`?\\])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([^]))/g;
const named: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

const badEscape = (pos: number): CelSyntaxError =>
  new CelSyntaxError(pos, 'invalid string literal: unable to unescape string');

function unescaped(value: string, pos: number): string {
  if (!value.includes('\\')) return value;
  return value.replaceAll(
    escape,
    (_all, name?: string, byte?: string, short?: string, long?: string, octal?: string) => {
      if (name !== undefined) return named[name] ?? name;
      const digits = byte ?? short ?? long;
      if (digits === undefined && octal === undefined) throw badEscape(pos);
      const code = digits === undefined ? Number.parseInt(octal ?? '', 8) : Number.parseInt(digits, 16);
      if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) throw badEscape(pos);
      return String.fromCodePoint(code);
    },
  );
}

function unescapedBytes(value: string, pos: number): Uint8Array {
  const parts: Uint8Array[] = [];
  let from = 0;
  for (const match of value.matchAll(escape)) {
    parts.push(utf8(value.slice(from, match.index)));
    const [found, name, byte, , , octal] = match;
    if (name !== undefined) parts.push(utf8(named[name] ?? name));
    else if (byte === undefined && octal === undefined) throw badEscape(pos);
    else
      parts.push(
        Uint8Array.of(byte === undefined ? Number.parseInt(octal ?? '', 8) : Number.parseInt(byte, 16)),
      );
    from = match.index + found.length;
  }
  parts.push(utf8(value.slice(from)));
  return new Uint8Array(Buffer.concat(parts));
}
