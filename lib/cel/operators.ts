/**
 * The operators, with their operand types and implementations. Operands whose types are known only at run time are checked then.
 */
import { celEqual, compare } from './comparison.ts';
import { membershipCost, operandCost } from './costs.ts';
import { failure, noOverload } from './failure.ts';
import { isPlain, mapKey, Duration, Timestamp, Uint } from './values.ts';
import { matching, parseType, splitTypes, unify, type Signature, type Type } from './static-types.ts';

const maxUint = 2n ** 64n - 1n;
/** Limits of timestamps, in nanoseconds: the years 1 to 9999. */
const [firstTime, endOfTime] = [-62_135_596_800_000_000_000n, 253_402_300_800_000_000_000n];

export function toInt(value: bigint): bigint {
  if (BigInt.asIntN(64, value) !== value) throw failure('integer overflow');
  return value;
}

export function toUint(value: bigint): Uint {
  if (value < 0n || value > maxUint) throw failure('unsigned integer overflow');
  return new Uint(value);
}

/** @param offset - The offset of the result, see {@link Timestamp}. */
export function toTime(nanoseconds: bigint, offset = 0): Timestamp {
  if (nanoseconds < firstTime || nanoseconds >= endOfTime) throw failure('timestamp overflow');
  return new Timestamp(nanoseconds, offset);
}

export function toDuration(nanoseconds: bigint): Duration {
  if (BigInt.asIntN(64, nanoseconds) !== nanoseconds) throw failure('duration overflow');
  return new Duration(nanoseconds);
}

const shifted = ({ nanoseconds, offset }: Timestamp, by: bigint): Timestamp =>
  toTime(nanoseconds + by, offset);

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

export function add(a: unknown, b: unknown): unknown {
  if (typeof a === 'bigint' && typeof b === 'bigint') return toInt(a + b);
  if (typeof a === 'string' && typeof b === 'string') return a + b;
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  if (Array.isArray(a) && Array.isArray(b)) return [...(a as unknown[]), ...(b as unknown[])];
  if (a instanceof Uint && b instanceof Uint) return toUint(a.value + b.value);
  if (a instanceof Uint8Array && b instanceof Uint8Array) return joined(a, b);
  if (a instanceof Duration && b instanceof Duration) return toDuration(a.nanoseconds + b.nanoseconds);
  if (a instanceof Timestamp && b instanceof Duration) return shifted(a, b.nanoseconds);
  if (a instanceof Duration && b instanceof Timestamp) return shifted(b, a.nanoseconds);
  throw noOverload();
}

function subtract(a: unknown, b: unknown): unknown {
  if (typeof a === 'bigint' && typeof b === 'bigint') return toInt(a - b);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (a instanceof Uint && b instanceof Uint) return toUint(a.value - b.value);
  if (a instanceof Duration && b instanceof Duration) return toDuration(a.nanoseconds - b.nanoseconds);
  if (a instanceof Timestamp && b instanceof Duration) return shifted(a, -b.nanoseconds);
  if (a instanceof Timestamp && b instanceof Timestamp) return toDuration(a.nanoseconds - b.nanoseconds);
  throw noOverload();
}

/** An operator for numbers. @param zero - The error message if the divisor is an integer 0. */
function arithmetic(
  integers: (a: bigint, b: bigint) => bigint,
  doubles?: (a: number, b: number) => number,
  zero?: string,
): (a: unknown, b: unknown) => unknown {
  return (a, b) => {
    if (typeof a === 'number' && typeof b === 'number' && doubles !== undefined) return doubles(a, b);
    const unsigned = a instanceof Uint && b instanceof Uint;
    const [left, right] = unsigned ? [a.value, b.value] : [a, b];
    if (typeof left !== 'bigint' || typeof right !== 'bigint') throw noOverload();
    if (zero !== undefined && right === 0n) throw failure(zero);
    return unsigned ? toUint(integers(left, right)) : toInt(integers(left, right));
  };
}

function contains(value: unknown, container: unknown): boolean {
  if (Array.isArray(container)) return container.some((item) => celEqual(item, value));
  if (container instanceof Map) return container.has(mapKey(value));
  if (isPlain(container)) return typeof value === 'string' && Object.hasOwn(container, value);
  throw noOverload();
}

function negative(value: unknown): unknown {
  if (typeof value === 'bigint') return toInt(-value);
  if (typeof value === 'number') return -value;
  throw noOverload();
}

function not(value: unknown): boolean {
  if (typeof value !== 'boolean') throw noOverload();
  return !value;
}

export interface Operator {
  /** The name of the operator's function, for messages. */
  readonly name: string;
  /** The type of the result; `undefined` if the operator does not accept operands of these types. */
  readonly type: (operands: readonly Type[]) => Type | undefined;
  readonly apply: (a: unknown, b: unknown) => unknown;
  /** The cost in addition to one unit for the step. */
  readonly cost: ((a: unknown, b: unknown) => number) | undefined;
}

/** @param signatures - Such as `int, int: int`. */
function overloaded(signatures: readonly string[]): Operator['type'] {
  const typed = signatures.map((text): Signature => {
    const [params = '', result = ''] = text.split(': ');
    const [given, ...types] = [result, ...splitTypes(params)].map((name) => parseType(name, new Set()));
    if (given === undefined) throw new TypeError(text);
    return { params: types.filter((type) => type !== undefined), result: given };
  });
  return (operands) => {
    const { found, result } = matching(typed, operands);
    return found.length === 0 ? undefined : result;
  };
}

const [duration, timestamp] = ['google.protobuf.Duration', 'google.protobuf.Timestamp'];
const numbers = ['int', 'uint', 'double'];
const ofNumbers = (types: readonly string[]): string[] => types.map((type) => `${type}, ${type}: ${type}`);
const ordering = overloaded([
  ...['bool', 'string', 'bytes', duration, timestamp].map((type) => `${type}, ${type}: bool`),
  ...numbers.flatMap((a) => numbers.map((b) => `${a}, ${b}: bool`)),
]);
const equality: Operator['type'] = ([a, b]) => (a && b && unify(a, b) ? { kind: 'bool' } : undefined);

function operator(
  name: string,
  type: Operator['type'],
  apply: Operator['apply'],
  cost?: Operator['cost'],
): Operator {
  return { name, type, apply, cost };
}

export const operators = {
  '+': operator(
    '_+_',
    overloaded([
      ...ofNumbers([...numbers, 'string', 'bytes', 'list<T>', duration]),
      `${timestamp}, ${duration}: ${timestamp}`,
      `${duration}, ${timestamp}: ${timestamp}`,
    ]),
    add,
    operandCost,
  ),
  '-': operator(
    '_-_',
    overloaded([
      ...ofNumbers([...numbers, duration]),
      `${timestamp}, ${duration}: ${timestamp}`,
      `${timestamp}, ${timestamp}: ${duration}`,
    ]),
    subtract,
  ),
  '*': operator(
    '_*_',
    overloaded(ofNumbers(numbers)),
    arithmetic(
      (a, b) => a * b,
      (a, b) => a * b,
    ),
  ),
  '/': operator(
    '_/_',
    overloaded(ofNumbers(numbers)),
    arithmetic(
      (a, b) => a / b,
      (a, b) => a / b,
      'division by zero',
    ),
  ),
  '%': operator(
    '_%_',
    overloaded(ofNumbers(['int', 'uint'])),
    arithmetic((a, b) => a % b, undefined, 'modulus by zero'),
  ),
  '==': operator('_==_', equality, celEqual),
  '!=': operator('_!=_', equality, (a, b) => !celEqual(a, b)),
  '<': operator('_<_', ordering, (a, b) => compare(a, b) < 0, operandCost),
  '<=': operator('_<=_', ordering, (a, b) => compare(a, b) <= 0, operandCost),
  '>': operator('_>_', ordering, (a, b) => compare(a, b) > 0, operandCost),
  '>=': operator('_>=_', ordering, (a, b) => compare(a, b) >= 0, operandCost),
  in: operator('@in', overloaded(['T, list<T>: bool', 'K, map<K, V>: bool']), contains, membershipCost),
  '!_': operator('!_', overloaded(['bool: bool']), not),
  '-_': operator('-_', overloaded(['int: int', 'double: double']), negative),
} as const satisfies Readonly<Record<string, Operator>>;
