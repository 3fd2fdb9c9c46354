/** `string.format` (cel-go `ext/formatting.go`, with the locale en-US). */
import { goExponential, goFixed, goNumber, goQuote } from './go-text.ts';
import { failure } from './failure.ts';
import { charge } from './meter.ts';
import { typeNameOf } from './register.ts';
import { CelObject, Duration, fromJson, isPlain, Timestamp, TypeValue, Uint } from './values.ts';

const maxPrecision = 1_000;
const defaultPrecision = 6;

/** `"%s has %d".format(["a", 3])`: `%s %d %f %e %b %o %x %X %%`, with `%.3f` for a precision. */
export function formatText(pattern: string, values: readonly unknown[]): string {
  let next = 0;
  const text = pattern.replaceAll(
    /%(?:\.(\d*))?(.?)/gs,
    (_all, precision: string | undefined, verb: string) => {
      if (verb === '%' && precision === undefined) return '%';
      if (verb === '' && precision === undefined) throw failure('unexpected end of string');
      if (verb === '')
        throw badClause('error while parsing precision: could not find end of precision specifier');
      if (next >= values.length) throw failure(`index ${next} out of range`);
      const digits = precision === undefined ? defaultPrecision : Number(precision);
      if (digits > maxPrecision) throw badClause(`precision ${digits} is too large`);
      return formatOne(verb, values[next++], digits);
    },
  );
  if (next < values.length)
    throw failure(`too many arguments supplied to string.format (expected ${next}, got ${values.length})`);
  return text;
}

const badClause = (why: string): Error => failure(`could not parse formatting clause: ${why}`);
const wrongType = (value: unknown, words: string): Error =>
  failure(`error during formatting: ${words}, was given ${typeNameOf(value)}`);

function formatOne(verb: string, given: unknown, digits: number): string {
  const value = given instanceof Uint ? given.value : given;
  switch (verb) {
    case 's':
      return plain(given);
    case 'd':
      if (typeof value === 'bigint') return value.toString();
      throw wrongType(given, 'decimal clause can only be used on integers');
    case 'f':
      return fixed(doubleOf(value, 'fixed-point clause can only be used on doubles'), digits);
    case 'e':
      return scientific(doubleOf(value, 'scientific clause can only be used on doubles'));
    case 'b':
      if (typeof value === 'boolean') return value ? '1' : '0';
      if (typeof value === 'bigint') return value.toString(2);
      throw wrongType(given, 'only integers and bools can be formatted as binary');
    case 'o':
      if (typeof value === 'bigint') return value.toString(8);
      throw wrongType(given, 'octal clause can only be used on integers');
    case 'x':
    case 'X': {
      const hex =
        typeof value === 'bigint'
          ? value.toString(16)
          : typeof value === 'string' || value instanceof Uint8Array
            ? Buffer.from(value as string).toString('hex')
            : undefined;
      if (hex === undefined)
        throw wrongType(given, 'only integers, byte buffers, and strings can be formatted as hex');
      return verb === 'X' ? hex.toUpperCase() : hex;
    }
    default:
      throw badClause(`unrecognized formatting clause ${goQuote(verb)}`);
  }
}

/** A number as a double: formats accept more than literals do, such as `NaN`. */
function doubleOf(value: unknown, words: string): number {
  if (typeof value === 'number') return value;
  if (value === 'NaN' || value === 'Infinity' || value === '-Infinity') return Number(value);
  throw wrongType(value, words);
}

const special = (number: number): string => (Number.isNaN(number) ? 'NaN' : number > 0 ? '∞' : '-∞');

/** With commas between thousands. toFixed() stops at 100 digits; more are zeros or inexact anyway. */
function fixed(number: number, digits: number): string {
  if (!Number.isFinite(number)) return special(number);
  const [whole = '', fraction] = fixedText(number, digits).split('.');
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

function fixedText(number: number, digits: number): string {
  if (Math.abs(number) >= 1e21)
    return BigInt(number).toString() + (digits > 0 ? `.${'0'.repeat(digits)}` : '');
  return goFixed(number, Math.min(digits, 100)) + '0'.repeat(Math.max(0, digits - 100));
}

const superscripts = '⁰¹²³⁴⁵⁶⁷⁸⁹';

/** `2.718280 × 10⁰⁰`; the precision is ignored, as in cel-go. */
function scientific(number: number): string {
  if (!Number.isFinite(number)) return special(number);
  const [mantissa = '', exponent = ''] = goExponential(number, defaultPrecision).split('e');
  const power = exponent.slice(1).padStart(2, '0');
  const raised = Array.from(power, (digit) => superscripts.charAt(Number(digit))).join('');
  return `${mantissa}\u202f×\u202f10${exponent.startsWith('-') ? '⁻' : ''}${raised}`;
}

/** A value as `%s` prints it. */
function plain(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return goNumber(value);
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (value === null || value === undefined) return 'null';
  if (value instanceof Uint) return String(value.value);
  if (value instanceof TypeValue) return value.name;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  if (value instanceof Timestamp) return value.toString();
  if (value instanceof Duration) return durationText(value);
  if (Array.isArray(value)) return `[${value.map(inner).join(', ')}]`;
  if (value instanceof CelObject) return mapText(value.raw);
  if (value instanceof Map || isPlain(value)) return mapText(value);
  throw wrongType(
    value,
    'string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps',
  );
}

/** Printing a part takes about as long as this many steps. */
const perPart = 4;

/** A value inside of a list or map: as written in an expression. */
function inner(value: unknown): string {
  charge(perPart);
  if (typeof value === 'string') return goQuote(value);
  if (typeof value === 'number')
    return Number.isFinite(value) ? value.toFixed(defaultPrecision) : goQuote(goNumber(value));
  if (value instanceof Uint8Array) return `b${goQuote(plain(value))}`;
  if (value instanceof Timestamp) return `timestamp(${goQuote(value.toString())})`;
  if (value instanceof Duration) return `duration(${goQuote(durationText(value))})`;
  return plain(value);
}

function mapText(map: object): string {
  const entries: [unknown, unknown][] =
    map instanceof Map ? [...map] : Object.entries(map).map(([key, value]) => [key, fromJson(value)]);
  const pairs = entries.map(([key, value]) => [inner(key), inner(value)] as const);
  pairs.sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return `{${pairs.map(([key, value]) => `${key}:${value}`).join(', ')}}`;
}

/** Seconds, with a fraction if there is one: `90s`, `0.5s`. */
export function durationText({ nanoseconds }: Duration): string {
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds;
  const fraction = (size % 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '');
  return `${nanoseconds < 0n ? '-' : ''}${size / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}s`;
}
