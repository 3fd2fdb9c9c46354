/** What the estimation knows about the values of a node before it runs. */
import type { Type } from '../static-types.ts';
import type { Literal } from '../syntax.ts';
import { type Size, unknown } from './size.ts';

/** The sizes of the keys and values of a list or map. The keys of a list are its indexes. */
export interface Entries {
  readonly kind: 'list' | 'map';
  readonly key: Size;
  readonly value: Size;
}

export interface Value {
  readonly type: Type;
  /**
   * The path from a variable to this value: field names, `@items`, `@keys`, `@values`. Empty if the value does not come
   * from a variable.
   */
  readonly path: readonly string[];
  readonly size?: Size | undefined;
  readonly entries?: Entries | undefined;
  readonly literal?: Literal;
}

/** The value of a node, and the maximum cost of one evaluation. */
export interface Estimate extends Value {
  readonly cost: number;
}

/** The largest size of the values at a path; `undefined` if it is unknown. */
export type Bound = (path: readonly string[]) => number | undefined;

export const sizeOf = ({ size }: Value): Size => size ?? unknown;

const scalars: ReadonlySet<Type['kind']> = new Set([
  'bool',
  'double',
  'duration',
  'int',
  'timestamp',
  'uint',
]);

/** Whether all values of a type have the same size. */
export function isScalar(type: Type): boolean {
  if (type.kind === 'optional') return type.element !== undefined && isScalar(type.element);
  return scalars.has(type.kind);
}
