/**
 * Quantities as the API server writes them: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`
 * (apimachinery `pkg/api/resource/quantity.go`, CanonicalizeBytes).
 */
import { Quantity } from '../../cel/quantity.ts';

export const quantityProblem =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const nano = 1_000_000_000n;
const binarySuffixes = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const decimalSuffixes: ReadonlyMap<number, string> = new Map([
  [-9, 'n'],
  [-6, 'u'],
  [-3, 'm'],
  [0, ''],
  [3, 'k'],
  [6, 'M'],
  [9, 'G'],
  [12, 'T'],
  [15, 'P'],
  [18, 'E'],
]);

/** Reads a quantity, which in JSON may be a number. `undefined` for any other value. */
export function parseQuantity(value: unknown): Quantity | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return Quantity.parse(String(value));
  return typeof value === 'string' ? Quantity.parse(value.trim()) : undefined;
}

/**
 * The canonical text of an amount of a resource. Fractions below a thousandth are rounded up, as for all
 * amounts of resources (SetDefaults_ResourceList). Other values are returned unchanged.
 */
export function canonicalAmount(value: unknown): unknown {
  const quantity = parseQuantity(value);
  if (quantity === undefined) return value;
  const text = String(value).trim();
  const milli = 1_000_000n;
  const excess = ((quantity.nanos % milli) + milli) % milli;
  const nanos = excess === 0n ? quantity.nanos : quantity.nanos + milli - excess;
  const binary =
    text.endsWith('i') && (nanos <= -1024n * nano || nanos >= 1024n * nano) && nanos % nano === 0n;
  return binary ? binaryText(nanos / nano) : decimalText(nanos, /[eE][+-]?\d+$/.test(text));
}

function binaryText(whole: bigint): string {
  let [amount, power] = [whole, 0];
  while (power + 1 < binarySuffixes.length && amount % 1024n === 0n) {
    amount /= 1024n;
    power++;
  }
  return `${amount}${binarySuffixes[power]}`;
}

function decimalText(nanos: bigint, exponential: boolean): string {
  if (nanos === 0n) return '0';
  let [amount, exponent] = [nanos, -9];
  while (amount % 1000n === 0n && exponent < 18) {
    amount /= 1000n;
    exponent += 3;
  }
  if (!exponential) return `${amount}${decimalSuffixes.get(exponent)}`;
  return exponent === 0 ? String(amount) : `${amount}e${exponent}`;
}
