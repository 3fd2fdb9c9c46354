/** Rego's `units`: quantities such as `1.5Ki`, `100m`, `10MiB`, in exact arithmetic. */
import { type Builtin, BuiltinError, ofTexts } from './builtin.ts';

const prefixes = ['', 'k', 'm', 'g', 't', 'p', 'e'];

export const unitBuiltins: Readonly<Record<string, Builtin>> = {
  'units.parse': ofTexts((given = '') => {
    const { number, unit } = parts(given.replaceAll('"', ''));
    // Case matters only for the first letter: m is a thousandth, M a million.
    if (unit === 'm') return rounded(number, 1n, 1000n);
    const lower = unit.toLowerCase();
    return rounded(number, scaleOf(lower.replace(/^([kmgtpe])i$/, '$1'), lower.endsWith('i'), unit), 1n);
  }),
  'units.parse_bytes': ofTexts((given = '') => {
    const { number, unit } = parts(given.replaceAll('"', '').toLowerCase());
    const name = unit.length > 1 ? unit.replace(/b$/, '') : unit;
    const { over, under } = rational(number);
    const scale = scaleOf(name.replace(/^([kmgtpe])i$/, '$1'), name.endsWith('i'), unit);
    return (over * scale) / under;
  }),
};

function parts(text: string): { readonly number: string; readonly unit: string } {
  if (text.includes(' ')) throw new BuiltinError('a quantity must not contain spaces');
  // An e starts an exponent only if a digit or a sign follows.
  const [, number = '', unit = ''] = /^((?:[\d.+-]|[eE](?=[\d+-]))*)(.*)$/s.exec(text) ?? [];
  if (number === '') throw new BuiltinError(`${JSON.stringify(text)} has no number`);
  return { number, unit };
}

function scaleOf(prefix: string, binary: boolean, unit: string): bigint {
  const power = prefixes.indexOf(prefix);
  if (power < 0 || (power === 0 && binary))
    throw new BuiltinError(`the unit ${JSON.stringify(unit)} is unknown`);
  return (binary ? 1024n : 1000n) ** BigInt(power);
}

interface Rational {
  readonly over: bigint;
  readonly under: bigint;
}

const maxExponent = 999_999;

function rational(number: string): Rational {
  const found = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i.exec(number);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = found ?? [];
  if (found === null || whole + fraction === '')
    throw new BuiltinError(`${JSON.stringify(number)} is not a number`);
  const power = Number(exponent) - fraction.length;
  if (Math.abs(power) > maxExponent) throw new BuiltinError('the exponent is too large');
  const digits = BigInt(`${whole}${fraction}`) * (sign === '-' ? -1n : 1n);
  return power < 0
    ? { over: digits, under: 10n ** BigInt(-power) }
    : { over: digits * 10n ** BigInt(power), under: 1n };
}

const decimals = 10n ** 10n;

/** An integer, or a decimal number with ten decimal places. */
function rounded(number: string, scale: bigint, divisor: bigint): bigint | number {
  const { over, under } = rational(number);
  const [a, b] = [over * scale, under * divisor];
  if (a % b === 0n) return a / b;
  const size = ((a < 0n ? -a : a) * decimals * 2n + b) / (2n * b);
  const text = `${size / decimals}.${String(size % decimals).padStart(10, '0')}`;
  return a < 0n ? -Number(text) : Number(text);
}
