/**
 * `string.format` (cel-go `ext/formatting.go`).
 *
 * @module
 */
import { goNumber } from './go-text.ts';
import { failure } from './failure.ts';
import { CelObject, Duration, isPlain, TypeValue, Uint } from './values.ts';

const maxPrecision = 1_000;

/** `"%s has %d".format(["a", 3])`: `%s %d %f %e %b %o %x %X %%`, with `%.3f` for a precision. */
export function formatText(pattern: string, values: readonly unknown[]): string {
  let next = 0;
  const text = pattern.replaceAll(
    /%(?:\.(\d+))?(.?)/gs,
    (_all, precision: string | undefined, verb: string) => {
      if (verb === '%') return '%';
      if (verb === '') throw failure('unexpected end of string');
      if (next >= values.length) throw failure(`index ${next} out of range`);
      const digits = precision === undefined ? 6 : Number(precision);
      if (digits > maxPrecision) throw failure(`precision ${digits} is too large`);
      return formatOne(verb, unsigned(values[next++]), digits);
    },
  );
  if (next < values.length)
    throw failure(`too many arguments supplied to string.format (expected ${next}, got ${values.length})`);
  return text;
}

const unsigned = (value: unknown): unknown => (value instanceof Uint ? value.value : value);

function formatOne(verb: string, value: unknown, digits: number): string {
  switch (verb) {
    case 's':
      return plain(value);
    case 'd':
      if (typeof value === 'bigint') return value.toString();
      if (typeof value === 'number') return String(Math.trunc(value));
      break;
    case 'f':
    case 'e': {
      if (typeof value !== 'number' && typeof value !== 'bigint') break;
      const number = Number(value);
      if (!Number.isFinite(number)) return String(number);
      return verb === 'f' ? fixed(number, digits) : exponential(number, digits);
    }
    case 'b':
      if (typeof value === 'boolean') return value ? '1' : '0';
      if (typeof value === 'bigint') return value.toString(2);
      break;
    case 'o':
      if (typeof value === 'bigint') return value.toString(8);
      break;
    case 'x':
    case 'X': {
      const hex =
        typeof value === 'bigint'
          ? value.toString(16)
          : typeof value === 'string' || value instanceof Uint8Array
            ? Buffer.from(value as string).toString('hex')
            : undefined;
      if (hex !== undefined) return verb === 'X' ? hex.toUpperCase() : hex;
      break;
    }
    default:
      throw failure(`could not parse formatting clause: unrecognized formatting clause "${verb}"`);
  }
  throw failure(`error during formatting: %${verb} cannot take this value`);
}

/** toFixed() ends at 100 digits; more are zeros or not exact anyway. */
function fixed(number: number, digits: number): string {
  if (Math.abs(number) >= 1e21)
    return BigInt(number).toString() + (digits > 0 ? `.${'0'.repeat(digits)}` : '');
  return number.toFixed(Math.min(digits, 100)) + '0'.repeat(Math.max(0, digits - 100));
}

function exponential(number: number, digits: number): string {
  const [mantissa = '', exponent = ''] = number.toExponential(Math.min(digits, 100)).split('e');
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}

function plain(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? goNumber(value) : String(value);
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (value === null || value === undefined) return 'null';
  if (value instanceof Uint) return String(value.value);
  if (value instanceof TypeValue) return value.name;
  if (value instanceof CelObject) return plain(value.raw);
  if (Array.isArray(value)) return `[${value.map(plain).join(', ')}]`;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  if (value instanceof Date) return timeText(value);
  if (value instanceof Duration) return durationText(value);
  if (!(value instanceof Map) && !isPlain(value)) return String(value);
  const entries: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  return `{${entries
    .map(([key, entry]) => `${plain(key)}: ${plain(entry)}`)
    .sort()
    .join(', ')}}`;
}

/** RFC 3339 with as many digits of the second as there are. */
export function timeText(time: Date): string {
  return time.toISOString().replace(/\.?0*Z$/, 'Z');
}

/** Seconds, with a fraction where there is one: `90s`, `0.5s`. */
export function durationText({ nanoseconds }: Duration): string {
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds;
  const fraction = (size % 1_000_000_000n).toString().padStart(9, '0').replace(/0+$/, '');
  return `${nanoseconds < 0n ? '-' : ''}${size / 1_000_000_000n}${fraction === '' ? '' : `.${fraction}`}s`;
}
