/** Quantities of resources: `500m`, `1.5Gi`, `2e3` (apimachinery `pkg/api/resource/quantity.go`). */

const nano = 1_000_000_000n;
const decimalSuffixes: Readonly<Record<string, bigint>> = {
  n: 1n,
  u: 1_000n,
  m: 1_000_000n,
  '': nano,
  k: nano * 10n ** 3n,
  M: nano * 10n ** 6n,
  G: nano * 10n ** 9n,
  T: nano * 10n ** 12n,
  P: nano * 10n ** 15n,
  E: nano * 10n ** 18n,
};
const binarySuffixes: Readonly<Record<string, bigint>> = {
  Ki: nano << 10n,
  Mi: nano << 20n,
  Gi: nano << 30n,
  Ti: nano << 40n,
  Pi: nano << 50n,
  Ei: nano << 60n,
};
const maxInt64 = 2n ** 63n - 1n;

/** A number with a precision of one billionth. Smaller parts are rounded away from zero, as in Kubernetes. */
export class Quantity {
  readonly nanos: bigint;

  constructor(nanos: bigint) {
    this.nanos = nanos;
  }

  static ofInteger(value: bigint): Quantity {
    return new Quantity(value * nano);
  }

  /** `undefined` if it is not a quantity. */
  static parse(text: string): Quantity | undefined {
    // No real quantity is longer. This bounds the size of the numbers below.
    if (text.length > 256) return undefined;
    const match = /^([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?\d+)$/.exec(text);
    if (match === null) return undefined;
    const [, sign, number = '', suffix = ''] = match;
    const [whole = '', fraction = ''] = number.split('.');
    const digits = BigInt(whole + fraction);
    let [up, down] = [1n, 10n ** BigInt(fraction.length)];
    const binary = binarySuffixes[suffix];
    const decimal = decimalSuffixes[suffix];
    if (binary !== undefined) up = binary;
    else if (decimal !== undefined) up = decimal;
    else {
      const exponent = Number(suffix.slice(1));
      if (Math.abs(exponent) > 1_000) return undefined;
      up = nano;
      if (exponent >= 0) up *= 10n ** BigInt(exponent);
      else down *= 10n ** BigInt(-exponent);
    }
    let nanos = (digits * up + down - 1n) / down;
    if (binary !== undefined && nanos > maxInt64 * nano) nanos = maxInt64 * nano;
    return new Quantity(sign === '-' ? -nanos : nanos);
  }

  compareTo(other: Quantity): bigint {
    return this.nanos < other.nanos ? -1n : this.nanos > other.nanos ? 1n : 0n;
  }

  equals(other: unknown): boolean {
    return other instanceof Quantity && other.nanos === this.nanos;
  }

  /** `undefined` if the number is not an integer or does not fit in 64 bits. */
  get integer(): bigint | undefined {
    const value = this.nanos / nano;
    return value * nano === this.nanos && BigInt.asIntN(64, value) === value ? value : undefined;
  }

  get float(): number {
    const whole = this.nanos / nano;
    return Number(whole) + Number(this.nanos - whole * nano) / 1e9;
  }
}
