/** Rego's encodings: hex, base64url, urlquery, JSON and YAML; hashes. */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { type Builtin, BuiltinError, ofTexts, operandError } from './builtin.ts';
import { patched } from './rego-patch.ts';
import { isYaml, parseYaml, yamlText } from './rego-yaml.ts';
import { asJson, entriesOf, objectOf } from './rego-value.ts';

const fatal = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The strings of modules are UTF-8. @throws {BuiltinError} */
function decodedText(bytes: Uint8Array): string {
  try {
    return fatal.decode(bytes);
  } catch {
    throw new BuiltinError('the decoded bytes are not UTF-8');
  }
}

const hashes = ['md5', 'sha1', 'sha256', 'sha512'] as const;

export const encodingBuiltins: Readonly<Record<string, Builtin>> = {
  'hex.encode': ofTexts((text = '') => Buffer.from(text).toString('hex')),
  'hex.decode': ofTexts((text = '') => {
    if (!/^(?:[0-9a-fA-F]{2})*$/.test(text)) throw new BuiltinError('the text is not hexadecimal');
    return decodedText(Buffer.from(text, 'hex'));
  }),
  'base64url.encode': ofTexts((text = '') => padded(Buffer.from(text).toString('base64url'))),
  'base64url.encode_no_pad': ofTexts((text = '') => Buffer.from(text).toString('base64url')),
  'base64url.decode': ofTexts((text = '') => {
    const whole = text.endsWith('=') ? text : padded(text);
    if (!/^(?:[\w-]{4})*(?:[\w-]{2}==|[\w-]{3}=)?$/.test(whole))
      throw new BuiltinError('the text is not base64url');
    return decodedText(Buffer.from(whole, 'base64url'));
  }),
  'urlquery.encode': ofTexts((text = '') => queryEscaped(text)),
  'urlquery.decode': ofTexts((text = '') => queryUnescaped(text)),
  'urlquery.encode_object': ([object]) => queryOf(object),
  'urlquery.decode_object': ofTexts((text = '') => parsedQuery(text)),
  'json.is_valid': ([text]) => typeof text === 'string' && isJson(text),
  'json.marshal_with_options': (args) => marshalled(args),
  // If a patch does not apply, the result is undefined, as in Open Policy Agent.
  'json.patch': ([document, patch]) => {
    if (!Array.isArray(patch)) throw operandError(1, 'array', patch);
    return patched(document, patch);
  },
  'yaml.is_valid': ([text]) => typeof text === 'string' && isYaml(text),
  'yaml.unmarshal': ofTexts((text = '') => parseYaml(text)),
  'yaml.marshal': ([value]) => yamlText(asJson(value)),

  ...Object.fromEntries(
    hashes.slice(0, 3).map((hash) => [`crypto.${hash}`, ofTexts((text = '') => hashed(hash, text))] as const),
  ),
  ...Object.fromEntries(
    hashes.map((hash) => [
      `crypto.hmac.${hash}`,
      ofTexts((text = '', key = '') => createHmac(hash, key).update(text).digest('hex')),
    ]),
  ),
  'crypto.hmac.equal': ofTexts((a = '', b = '') => {
    const [left, right] = [Buffer.from(a), Buffer.from(b)];
    return left.length === right.length && timingSafeEqual(left, right);
  }),
};

const hashed = (hash: string, text: string): string => createHash(hash).update(text).digest('hex');

const padded = (text: string): string => text.padEnd(Math.ceil(text.length / 4) * 4, '=');

/** Like Go's url.QueryEscape, which leaves letters, digits and `-_.~`. */
function queryEscaped(text: string): string {
  return encodeURIComponent(text.toWellFormed())
    .replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

function queryUnescaped(text: string): string {
  const wrong = /%(?![0-9a-fA-F]{2}).{0,2}/s.exec(text);
  if (wrong !== null) throw new BuiltinError(`invalid URL escape ${JSON.stringify(wrong[0])}`);
  const bytes = text
    .replaceAll('+', ' ')
    .split(/(%[0-9a-fA-F]{2})/)
    .map((part, at) => (at % 2 === 1 ? Buffer.from(part.slice(1), 'hex') : Buffer.from(part)));
  return decodedText(Buffer.concat(bytes));
}

function queryOf(object: unknown): string {
  const entries = entriesOf(asJson(object));
  if (entries === undefined) throw operandError(0, 'object', object);
  const pairs: string[] = [];
  for (const [key, value] of entries.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1))) {
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (typeof one !== 'string')
        throw new BuiltinError('a value must be a string, or an array or set of strings');
      pairs.push(`${queryEscaped(String(key))}=${queryEscaped(one)}`);
    }
  }
  return pairs.join('&');
}

function parsedQuery(text: string): unknown {
  const found = new Map<string, string[]>();
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    if (pair.includes(';')) throw new BuiltinError('a query must not contain semicolons');
    const [key = '', ...rest] = pair.split('=');
    const name = queryUnescaped(key);
    found.set(name, [...(found.get(name) ?? []), queryUnescaped(rest.join('='))]);
  }
  return objectOf([...found]);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function marshalled(args: readonly unknown[]): string {
  const options = entriesOf(args[1]);
  if (options === undefined) throw operandError(1, 'object', args[1]);
  const given = new Map(options);
  for (const [name, value] of options) {
    const expected = name === 'pretty' ? 'boolean' : 'string';
    if (name !== 'pretty' && name !== 'indent' && name !== 'prefix')
      throw new BuiltinError(`there is no option ${JSON.stringify(name)}`);
    if (typeof value !== expected) throw new BuiltinError(`the option ${name} must be ${expected}`);
  }
  const {
    pretty = options.length > 0,
    indent = '\t',
    prefix = '',
  } = Object.fromEntries(given) as {
    readonly pretty?: boolean;
    readonly indent?: string;
    readonly prefix?: string;
  };
  const value = asJson(args[0]);
  return pretty ? `${prefix}${jsonText(value, `\n${prefix}`, indent)}` : jsonText(value);
}

/** JSON as Go writes it: keys are sorted, and characters with a meaning in HTML are escaped. */
function jsonText(value: unknown, line = '', indent = ''): string {
  const inner = (part: unknown): string => jsonText(part, line === '' ? '' : `${line}${indent}`, indent);
  const enclosed = (open: string, parts: readonly string[], close: string): string =>
    parts.length === 0
      ? `${open}${close}`
      : line === ''
        ? `${open}${parts.join(',')}${close}`
        : `${open}${line}${indent}${parts.join(`,${line}${indent}`)}${line}${close}`;
  if (typeof value === 'string') return goJsonString(value);
  if (Array.isArray(value)) return enclosed('[', value.map(inner), ']');
  const entries = entriesOf(value);
  if (entries === undefined) return String(value);
  const sorted = entries.toSorted(([a], [b]) =>
    Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b))),
  );
  const colon = line === '' ? ':' : ': ';
  return enclosed(
    '{',
    sorted.map(([key, of]) => `${goJsonString(String(key))}${colon}${inner(of)}`),
    '}',
  );
}

const goJsonString = (text: string): string =>
  JSON.stringify(text).replaceAll(
    /[<>&\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
