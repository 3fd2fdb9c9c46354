/**
 * Functions on lists (apiserver `pkg/cel/library/lists.go`) and sets (cel-go `ext/sets.go`), conversions that
 * cel-js has not, and the rest of the optional types.
 *
 * @module
 */
import { Optional } from '@marcbachmann/cel-js';
import { Duration } from '@marcbachmann/cel-js/evaluator';
import { durationText, timeText } from './format-text.ts';
import { failure, type Library } from './register.ts';
import { celEqual } from './values.ts';

function compare(a: unknown, b: unknown): number {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b);
  const [left, right] = [a, b].map((value) =>
    value instanceof Date || value instanceof Duration ? value.valueOf() : value,
  );
  if (typeof left === 'string' && typeof right === 'string') {
    // By code points, as Go compares bytes of UTF-8.
    return Buffer.compare(Buffer.from(left), Buffer.from(right));
  }
  const comparable = ['number', 'bigint', 'boolean'];
  if (!comparable.includes(typeof left) || !comparable.includes(typeof right))
    throw failure('no such overload');
  return (left as number) < (right as number) ? -1 : (left as number) > (right as number) ? 1 : 0;
}

function extreme(name: string, sign: number): (list: readonly unknown[]) => unknown {
  return (list) => {
    if (list.length === 0) throw failure(`${name} called on empty list`);
    return list.reduce((best, value) => (compare(value, best) * sign > 0 ? value : best));
  };
}

function sumIntegers(list: readonly bigint[]): bigint {
  const total = list.reduce((before, value) => before + value, 0n);
  if (BigInt.asIntN(64, total) !== total) throw failure('integer overflow');
  return total;
}

function sum(list: readonly unknown[]): unknown {
  const [first] = list;
  if (first === undefined) return 0n;
  if (list.every((value) => typeof value === 'bigint')) return sumIntegers(list);
  if (list.every((value) => typeof value === 'number'))
    return list.reduce((total, value) => total + value, 0);
  if (list.every((value) => value instanceof Duration)) {
    return list.reduce((total, value) => total.addDuration(value), new Duration(0n, 0));
  }
  throw failure('no such overload');
}

const contains = (list: readonly unknown[], parts: readonly unknown[]): boolean =>
  parts.every((part) => list.some((value) => celEqual(value, part)));

export function addLists(library: Library): void {
  library.environment.registerOperator('optional<T> == optional<T>', celEqual);
  library
    .add('list.isSorted(): bool', (list: readonly unknown[]) =>
      list.every((value, index) => index === 0 || compare(list[index - 1], value) <= 0),
    )
    .add('list<T>.min(): T', extreme('min', -1))
    .add('list<T>.max(): T', extreme('max', 1))
    .add('list<T>.sum(): T', sum)
    .add('list<T>.k8s_indexOf(T): int', (list: readonly unknown[], value: unknown) =>
      BigInt(list.findIndex((item) => celEqual(item, value))),
    )
    .add('list<T>.k8s_lastIndexOf(T): int', (list: readonly unknown[], value: unknown) =>
      BigInt(list.findLastIndex((item) => celEqual(item, value))),
    )
    .namespace('sets', 'K8sSets')
    .add(
      'K8sSets.contains(list, list): bool',
      (_: unknown, list: readonly unknown[], parts: readonly unknown[]) => contains(list, parts),
    )
    .add(
      'K8sSets.equivalent(list, list): bool',
      (_: unknown, a: readonly unknown[], b: readonly unknown[]) => contains(a, b) && contains(b, a),
    )
    .add('K8sSets.intersects(list, list): bool', (_: unknown, a: readonly unknown[], b: readonly unknown[]) =>
      a.some((value) => b.some((other) => celEqual(value, other))),
    )
    .add('OptionalNamespace.ofNonZeroValue(T): optional<T>', (_: unknown, value: unknown) =>
      isZero(value) ? Optional.none() : Optional.of(value),
    )
    .add('string(google.protobuf.Timestamp): string', timeText)
    .add('string(google.protobuf.Duration): string', durationText)
    .add('timestamp(google.protobuf.Timestamp): google.protobuf.Timestamp', (time: Date) => time)
    .add('duration(google.protobuf.Duration): google.protobuf.Duration', (duration: Duration) => duration);
}

function isZero(value: unknown): boolean {
  if (value === null || value === false || value === 0n || value === 0 || value === '') return true;
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length === 0;
  if (value instanceof Map) return value.size === 0;
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.getPrototypeOf(value) === Object.prototype &&
    Object.keys(value).length === 0
  );
}
