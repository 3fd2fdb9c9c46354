/**
 * Functions on lists (apiserver `pkg/cel/library/lists.go`) and sets (cel-go `ext/sets.go`), and the optional types.
 */
import { celEqual, compare } from './comparison.ts';
import { failure, noOverload } from './failure.ts';
import { add } from './operators.ts';
import type { Library } from './register.ts';
import { isPlain, Optional } from './values.ts';

function extreme(name: string, sign: number): (list: readonly unknown[]) => unknown {
  return (list) => {
    if (list.length === 0) throw failure(`${name} called on empty list`);
    return list.reduce((best, value) => (compare(value, best) * sign > 0 ? value : best));
  };
}

function sum(list: readonly unknown[]): unknown {
  if (list.length === 0) return 0n;
  if (list.some((value) => typeof value === 'string' || Array.isArray(value))) throw noOverload();
  return list.reduce(add);
}

const contains = (list: readonly unknown[], parts: readonly unknown[]): boolean =>
  parts.every((part) => list.some((value) => celEqual(value, part)));

export function addLists(library: Library): void {
  library
    .add('list.isSorted(): bool', (list: readonly unknown[]) =>
      list.every((value, index) => index === 0 || compare(list[index - 1], value) <= 0),
    )
    .add('list<T>.min(): T', extreme('min', -1))
    .add('list<T>.max(): T', extreme('max', 1))
    .add('list<T>.sum(): T', sum)
    .add('list<T>.indexOf(T): int', (list: readonly unknown[], value: unknown) =>
      BigInt(list.findIndex((item) => celEqual(item, value))),
    )
    .add('list<T>.lastIndexOf(T): int', (list: readonly unknown[], value: unknown) =>
      BigInt(list.findLastIndex((item) => celEqual(item, value))),
    )
    .add('sets.contains(list, list): bool', (list: readonly unknown[], parts: readonly unknown[]) =>
      contains(list, parts),
    )
    .add(
      'sets.equivalent(list, list): bool',
      (a: readonly unknown[], b: readonly unknown[]) => contains(a, b) && contains(b, a),
    )
    .add('sets.intersects(list, list): bool', (a: readonly unknown[], b: readonly unknown[]) =>
      a.some((value) => b.some((other) => celEqual(value, other))),
    )
    .add('optional.ofNonZeroValue(T): optional<T>', (value: unknown) =>
      isZero(value) ? Optional.none : Optional.of(value),
    )
    .add('optional.of(T): optional<T>', Optional.of)
    .add('optional.none(): optional<T>', () => Optional.none)
    .add('list<T>.first(): optional<T>', (list: readonly unknown[]) => Optional.of(list[0]))
    .add('list<T>.last(): optional<T>', (list: readonly unknown[]) => Optional.of(list.at(-1)))
    .add('optional.unwrap(list<optional<T>>): list<T>', unwrapped)
    .add('list<optional<T>>.unwrapOpt(): list<T>', unwrapped)
    .add('optional<T>.hasValue(): bool', (optional: Optional) => optional !== Optional.none)
    .add('optional<T>.value(): T', ({ value }: Optional) => {
      if (value === undefined) throw failure('optional.none() dereference');
      return value;
    });
}

/** The values of the optionals in a list. */
function unwrapped(list: readonly unknown[]): unknown[] {
  return list.flatMap((one) => {
    if (!(one instanceof Optional)) throw noOverload();
    return one.value === undefined ? [] : [one.value];
  });
}

function isZero(value: unknown): boolean {
  if (value === null || value === false || value === 0n || value === 0 || value === '') return true;
  if (Array.isArray(value) || value instanceof Uint8Array) return value.length === 0;
  if (value instanceof Map) return value.size === 0;
  return isPlain(value) && Object.keys(value).length === 0;
}
