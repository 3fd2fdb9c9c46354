/** Equality and order in CEL. Numbers of different types are compared by value. */
import { deepSize, traversal } from './costs.ts';
import { noOverload } from './failure.ts';
import { deepEqual } from '../json/json.ts';
import { charge } from './meter.ts';
import { CelMessage, CelObject, Duration, isPlain, Optional, Timestamp, TypeValue, Uint } from './values.ts';

/** A value of a type that Kubernetes adds to CEL. */
interface Comparable {
  equals(other: unknown): boolean;
}

/** CEL equality. Charges its cost. */
export function celEqual(a: unknown, b: unknown): boolean {
  if (typeof a === 'string') return typeof b === 'string' && equalTexts(a, b);
  if (a === b) return true;
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return equalNumbers(a, b);
  charge(traversal);
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => celEqual(item, b[index]));
  }
  if (a instanceof CelObject) return b instanceof CelObject && equalObjects(a, b);
  if (a instanceof Map || isPlain(a)) return (b instanceof Map || isPlain(b)) && equalMaps(a, b);
  if (a instanceof CelMessage)
    return b instanceof CelMessage && a.type === b.type && equalMaps(a.fields, b.fields);
  if (a instanceof Timestamp) return b instanceof Timestamp && a.nanoseconds === b.nanoseconds;
  if (a instanceof Duration) return b instanceof Duration && a.nanoseconds === b.nanoseconds;
  if (a instanceof Uint8Array) return b instanceof Uint8Array && equalBytes(a, b);
  if (a instanceof Uint) return b instanceof Uint && a.value === b.value;
  if (a instanceof Optional) {
    const both = a.value !== undefined && b instanceof Optional && b.value !== undefined;
    return both && celEqual(a.value, b.value);
  }
  if (a instanceof TypeValue) return b instanceof TypeValue && a.name === b.name;
  return 'equals' in a && (a as Comparable).equals(b);
}

function equalTexts(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  charge(a.length * traversal);
  return a === b;
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  charge(Math.min(a.length, b.length) * traversal);
  return Buffer.compare(a, b) === 0;
}

function equalObjects(a: CelObject, b: CelObject): boolean {
  charge(deepSize(a.raw) * traversal);
  return deepEqual(a.raw, b.raw);
}

function equalNumbers(a: unknown, b: unknown): boolean {
  const [left, right] = numbersOf(a, b);
  return left !== undefined && right !== undefined && left === right;
}

/** Converts two numbers to one type: an integer beside a double becomes a double. `undefined` for a value that is not a number. */
function numbersOf(
  a: unknown,
  b: unknown,
): readonly [number | bigint | undefined, number | bigint | undefined] {
  const [left, right] = [numberOf(a), numberOf(b)];
  if (typeof left === 'number' && typeof right === 'bigint') return [left, Number(right)];
  if (typeof left === 'bigint' && typeof right === 'number') return [Number(left), right];
  return [left, right];
}

function numberOf(value: unknown): number | bigint | undefined {
  if (value instanceof Uint) return value.value;
  return typeof value === 'bigint' || typeof value === 'number' ? value : undefined;
}

function equalMaps(a: object, b: object): boolean {
  const [left, right] = [entries(a), entries(b)];
  charge((left.length + right.length) * traversal);
  if (left.length !== right.length) return false;
  const others = new Map(right);
  return left.every(([key, value]) => others.has(key) && celEqual(value, others.get(key)));
}

const entries = (map: object): [unknown, unknown][] => (map instanceof Map ? [...map] : Object.entries(map));

/** Returns a number below, equal to or above 0; NaN if the values have no order. */
export function compare(a: unknown, b: unknown): number {
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b);
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b);
  if (a instanceof Timestamp && b instanceof Timestamp) return Number(a.nanoseconds - b.nanoseconds);
  if (a instanceof Duration && b instanceof Duration) return Number(a.nanoseconds - b.nanoseconds);
  const [left, right] = numbersOf(a, b);
  if (left === undefined || right === undefined) throw noOverload();
  return left < right ? -1 : left > right ? 1 : left <= right ? 0 : NaN;
}

const surrogate = /[\ud800-\udfff]/;

/** Compares code points, which has the same result as Go's comparison of UTF-8 bytes. */
function compareText(a: string, b: string): number {
  if (a === b) return 0;
  if (surrogate.test(a) || surrogate.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : 1;
}
