/** Rego's `sprintf`, which is Go's `fmt.Sprintf`, including its output for verbs that do not fit their operands. */
import { goExponential, goFixed, goNumber, goQuote } from '../../../../../lib/cel/go-text.ts';
import { shownValue } from './rego-value.ts';

/** Go's operands: integers, floating-point numbers, and everything else as its text. */
type Argument =
  | { readonly type: 'int' | '*big.Int'; readonly value: bigint }
  | { readonly type: 'float64'; readonly value: number }
  | { readonly type: 'string'; readonly value: string };

interface Directive {
  readonly flags: string;
  readonly width: number | undefined;
  readonly precision: number | undefined;
}

const maxWidth = 1_000_000;
const int64 = 2n ** 63n;

export function goFormat(how: string, values: readonly unknown[]): string {
  return new Formatter(values.map(argumentOf)).format(how);
}

function argumentOf(value: unknown): Argument {
  if (typeof value === 'bigint' || Number.isInteger(value)) {
    const whole = BigInt(value as number);
    return { type: whole >= -int64 && whole < int64 ? 'int' : '*big.Int', value: whole };
  }
  if (typeof value === 'number') return { type: 'float64', value };
  return { type: 'string', value: typeof value === 'string' ? value : shownValue(value) };
}

const directive = /%([-+ #0]*)(\[[^\]]*\])?(\*|\d+)?(?:(\.)(\[[^\]]*\])?(\*|\d*))?(\[[^\]]*\])?(.?)/gsu;

class Formatter {
  readonly #arguments: readonly Argument[];
  #next = 0;
  #reordered = false;
  /** Whether the explicit index in this directive is invalid. */
  #misplaced = false;

  constructor(given: readonly Argument[]) {
    this.#arguments = given;
  }

  format(how: string): string {
    const text = how.replaceAll(
      directive,
      (
        _all,
        flags: string,
        index: string | undefined,
        width: string | undefined,
        point: string | undefined,
        ofPrecision: string | undefined,
        precision: string | undefined,
        last: string | undefined,
        verb: string,
      ) => {
        this.#misplaced = false;
        let problem = '';
        this.#goTo(index);
        let wide = width === '*' ? this.#size() : width === undefined ? undefined : Number(width);
        if (wide === 'bad' || (typeof wide === 'number' && Math.abs(wide) > maxWidth)) {
          problem = '%!(BADWIDTH)';
          wide = undefined;
        }
        this.#goTo(ofPrecision);
        let precise =
          precision === '*' ? this.#size() : point === undefined ? undefined : Number(precision ?? '0');
        if (precise === 'bad' || (typeof precise === 'number' && (precise < 0 || precise > maxWidth))) {
          problem += '%!(BADPREC)';
          precise = undefined;
        }
        this.#goTo(last);
        if (verb === '') return `${problem}%!(NOVERB)`;
        if (verb === '%') return `${problem}%`;
        if (this.#misplaced) return `${problem}%!${verb}(BADINDEX)`;
        const argument = this.#arguments[this.#next++];
        if (argument === undefined) return `${problem}%!${verb}(MISSING)`;
        const left = typeof wide === 'number' && wide < 0 ? '-' : '';
        return (
          problem +
          formatted(verb, argument, {
            flags: flags + left,
            width: typeof wide === 'number' ? Math.abs(wide) : undefined,
            precision: precise,
          })
        );
      },
    );
    const extra = this.#reordered ? [] : this.#arguments.slice(this.#next);
    if (extra.length === 0) return text;
    return `${text}%!(EXTRA ${extra.map((one) => `${one.type}=${plain(one)}`).join(', ')})`;
  }

  #goTo(index: string | undefined): void {
    if (index === undefined) return;
    this.#reordered = true;
    const number = /^\[(\d+)\]$/.exec(index)?.[1];
    if (number === undefined || Number(number) < 1 || Number(number) > this.#arguments.length)
      this.#misplaced = true;
    else this.#next = Number(number) - 1;
  }

  /** A width or precision that is taken from the arguments. */
  #size(): number | 'bad' {
    const argument = this.#arguments[this.#next++];
    return argument?.type === 'int' ? Number(argument.value) : 'bad';
  }
}

const bases: Readonly<Record<string, readonly [base: number, prefix: string]>> = {
  b: [2, '0b'],
  o: [8, '0'],
  O: [8, ''],
  x: [16, '0x'],
  X: [16, '0X'],
  d: [10, ''],
  v: [10, ''],
};

function formatted(verb: string, argument: Argument, how: Directive): string {
  if (verb === 'T') return aligned(argument.type, how);
  const text =
    argument.type === 'float64'
      ? floatText(verb, argument.value, how)
      : argument.type === 'string'
        ? stringText(verb, argument.value, how)
        : intText(verb, argument.type, argument.value, how);
  return text ?? `%!${verb}(${argument.type.replace('*', '')}=${plain(argument)})`;
}

const plain = (argument: Argument): string =>
  argument.type === 'float64' ? (floatText('v', argument.value, none) ?? '') : String(argument.value);
const none: Directive = { flags: '', width: undefined, precision: undefined };

function aligned(text: string, { flags, width = 0 }: Directive): string {
  const missing = width - Array.from(text).length;
  if (missing <= 0) return text;
  if (flags.includes('-')) return text + ' '.repeat(missing);
  return (flags.includes('0') ? '0' : ' ').repeat(missing) + text;
}

const signFor = (negative: boolean, flags: string): string =>
  negative ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';

/** A number with its sign; padding zeros are inserted between the sign and the digits. */
function signed(negative: boolean, digits: string, how: Directive): string {
  const sign = signFor(negative, how.flags);
  const zeros = how.flags.includes('0') && !how.flags.includes('-');
  if (!zeros) return aligned(sign + digits, { ...how, flags: how.flags.replaceAll('0', '') });
  return sign + digits.padStart((how.width ?? 0) - sign.length, '0');
}

function intText(verb: string, type: 'int' | '*big.Int', value: bigint, how: Directive): string | undefined {
  const base = bases[type === '*big.Int' && verb === 's' ? 'd' : verb];
  const size = value < 0n ? -value : value;
  if (base !== undefined) {
    const [radix, prefix] = base;
    const digits = size.toString(radix).padStart(how.precision ?? 0, '0');
    const shown = verb === 'X' ? digits.toUpperCase() : digits;
    const before = verb === 'O' ? '0o' : how.flags.includes('#') ? prefix : '';
    // If there is a precision, the width is not filled with zeros.
    const flags = how.precision === undefined ? how.flags : how.flags.replaceAll('0', '');
    return signed(value < 0n, how.precision === 0 && value === 0n ? '' : before + shown, { ...how, flags });
  }
  if (type === '*big.Int') return undefined;
  const valid = value >= 0n && value <= 0x10ffffn && !(value >= 0xd800n && value < 0xe000n);
  const character = valid ? String.fromCodePoint(Number(value)) : '\ufffd';
  if (verb === 'c') return aligned(character, how);
  if (verb === 'q') {
    const quoted = goQuote(character).slice(1, -1).replace('\\"', '"');
    return aligned(`'${character === "'" ? "\\'" : quoted}'`, how);
  }
  if (verb === 'U') return aligned(`U+${size.toString(16).toUpperCase().padStart(4, '0')}`, how);
  return undefined;
}

function stringText(verb: string, value: string, how: Directive): string | undefined {
  const kept = how.precision === undefined ? value : Array.from(value).slice(0, how.precision).join('');
  switch (verb) {
    case 'v':
    case 's':
      return aligned(kept, how);
    case 'q':
      return aligned(
        how.flags.includes('#') && !/[`\p{Cc}]/u.test(kept) ? `\`${kept}\`` : goQuote(kept),
        how,
      );
    case 'x':
    case 'X': {
      const hex = Buffer.from(value).subarray(0, how.precision).toString('hex');
      return aligned(verb === 'X' ? hex.toUpperCase() : hex, how);
    }
    default:
      return undefined;
  }
}

function floatText(verb: string, value: number, how: Directive): string | undefined {
  const size = Math.abs(value);
  const negative = value < 0 || Object.is(value, -0);
  const { precision } = how;
  switch (verb) {
    case 'e':
    case 'E': {
      const text = exponential(goExponential(size, Math.min(precision ?? 6, 100)));
      return signed(negative, verb === 'E' ? text.toUpperCase() : text, how);
    }
    case 'f':
    case 'F':
      return signed(negative, goFixed(size, Math.min(precision ?? 6, 100)), how);
    case 'v':
    case 'g':
    case 'G': {
      const text = precision === undefined ? goNumber(size) : general(size, precision);
      return signed(negative, verb === 'G' ? text.toUpperCase() : text, how);
    }
    default:
      return undefined;
  }
}

/** Makes the exponent at least two digits long. */
function exponential(text: string): string {
  return text.replace(/e([+-])(\d)$/, 'e$10$2');
}

/** At most `precision` digits. Has an exponent if that is below -4 or at least `precision`. */
function general(size: number, precision: number): string {
  const digits = Math.min(Math.max(precision, 1), 100);
  const [mantissa = '', power = '0'] = goExponential(size, digits - 1).split('e');
  const significant = mantissa.replace('.', '').replace(/0+$/, '') || '0';
  const exponent = Number(power);
  const limit = significant.length > exponent ? Math.min(digits, significant.length) : digits;
  if (exponent >= -4 && exponent < limit)
    return Number(size.toPrecision(digits)).toFixed(
      Math.min(100, Math.max(0, significant.length - exponent - 1)),
    );
  const rest = significant.slice(1);
  return exponential(`${significant.charAt(0)}${rest === '' ? '' : `.${rest}`}e${power}`);
}
