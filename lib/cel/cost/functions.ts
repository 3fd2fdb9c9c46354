/**
 * The maximum cost of a call without that of its arguments, and the largest size of its result (apiserver
 * `pkg/cel/library/cost.go`, cel-go `checker/cost.go` and `ext/sets.go`). A function that is not listed costs 1.
 */
import type { Type } from '../static-types.ts';
import {
  exactly,
  join,
  perPart,
  product,
  search,
  type Size,
  sum,
  times,
  traversal,
  unbounded,
} from './size.ts';
import { sizeOf, type Value } from './value.ts';

export interface CallEstimate {
  readonly cost: number;
  readonly size?: Size;
}

/** @param itemSize returns the size of a list's items. */
type CallCost = (args: readonly Value[], itemSize: (list: Value) => Size) => CallEstimate;

const first = (args: readonly Value[]): Size => argument(args, 0);

function argument(args: readonly Value[], index: number): Size {
  const value = args[index];
  return value === undefined ? exactly(0) : sizeOf(value);
}

const isText = ({ kind }: Type): boolean => kind === 'string' || kind === 'bytes';

const reading: CallCost = (args) => ({ cost: traversal(first(args)) });
const copying: CallCost = (args) => ({ cost: traversal(first(args)), size: first(args) });

/** Reads each item of a list, or each character of a text. */
const scanning: CallCost = ([target], itemSize) => {
  if (target === undefined) return { cost: 1 };
  const { element, key } = target.type;
  const part = key ?? element;
  if (part === undefined) return { cost: traversal(sizeOf(target)) };
  const each = isText(part) ? sum(1, traversal(itemSize(target))) : 1;
  return { cost: product(sizeOf(target).max, each) };
};

const replacing: CallCost = (args) => {
  const [text, old, replacement] = [first(args), argument(args, 1), argument(args, 2)];
  const [max, keptMost] =
    old.min === 0
      ? [sum(text.max, 1), text.max]
      : replacement.max <= old.min
        ? [0, text.max]
        : [Math.ceil(text.max / old.min), 0];
  const [min, keptLeast] =
    old.max === 0
      ? [sum(text.min, 1), text.min]
      : old.max <= replacement.min
        ? [0, text.min]
        : [Math.ceil(text.min / old.max), 0];
  const size = join(times({ min, max }, replacement), { min: keptLeast, max: keptMost });
  return { cost: traversal(text, 2), size };
};

const splitting: CallCost = (args) => {
  const text = first(args);
  const limit = args[2]?.literal;
  const max = typeof limit === 'bigint' ? (limit < 0n ? unbounded : Number(limit)) : text.max;
  return { cost: traversal(text, 2), size: { min: 0, max } };
};

const joining: CallCost = ([list, separator], itemSize) => {
  if (list === undefined) return { cost: 1 };
  const length = sizeOf(list);
  const items = list.type.element === undefined ? exactly(0) : times(length, itemSize(list));
  const gaps = { min: Math.max(0, length.min - 1), max: Math.max(0, length.max - 1) };
  const size = separator === undefined ? items : join(items, times(sizeOf(separator), gaps));
  return { cost: traversal(size), size };
};

const finding: CallCost = (args) => ({
  cost: search(first(args), argument(args, 1)),
  size: { min: 0, max: first(args).max },
});

/** Compares each item of one list with each item of another. */
const comparingSets =
  (passes: number): CallCost =>
  (args) => ({ cost: sum(1, perPart(times(first(args), argument(args, 1)).max, passes)) });

/** Bytes of an IP address. */
const address: Size = { min: 4, max: 16 };

/** Whether a network contains an address or network: compares two addresses each, and parses an argument that is a text. */
const containing =
  (more: number): CallCost =>
  ([, part]) => {
    const compared = sum(traversal(join(address, address)), more);
    const parsed = part?.type.kind === 'opaque' ? 0 : part === undefined ? 0 : traversal(sizeOf(part));
    return { cost: sum(compared, parsed) };
  };

/** Kubernetes estimates named formats like regular expressions of 128 characters. */
const formatPattern = 128 * 0.25;

const costs: ReadonlyMap<string, CallCost> = new Map<string, CallCost>([
  ...['.isSorted', '.sum', '.max', '.min', '.indexOf', '.lastIndexOf'].map(
    (name) => [name, scanning] as const,
  ),
  ...['url', 'jsonpatch.escapeKey', '.lowerAscii', '.upperAscii', '.substring', '.trim'].map(
    (name) => [name, copying] as const,
  ),
  ...['cidr', 'isIP', 'isCIDR', 'ip', 'quantity', 'isQuantity', 'semver', 'isSemver', '.format'].map(
    (name) => [name, reading] as const,
  ),
  ['.replace', replacing],
  ['.split', splitting],
  ['.join', joining],
  ['.find', finding],
  ['.findAll', finding],
  ['.matches', (args) => ({ cost: search(first(args), argument(args, 1)) })],
  ['.contains', (args) => ({ cost: product(traversal(first(args)), traversal(argument(args, 1))) })],
  ['.startsWith', (args) => ({ cost: traversal(argument(args, 1)) })],
  ['.endsWith', (args) => ({ cost: traversal(argument(args, 1)) })],
  ['ip.isCanonical', (args) => ({ cost: traversal(first(args), 2) })],
  ['.containsIP', containing(0)],
  ['.containsCIDR', containing(traversal(address) + 1)],
  ['.validate', (args) => ({ cost: perPart(traversal(argument(args, 1)), formatPattern) })],
  ['sets.contains', comparingSets(1)],
  ['sets.intersects', comparingSets(1)],
  ['sets.equivalent', comparingSets(2)],
  [
    'strings.quote',
    (args) => ({
      cost: traversal(first(args)),
      size: { min: first(args).min + 2, max: sum(product(first(args).max, 2), 2) },
    }),
  ],
]);

/** Conversions between strings and bytes. Conversions of other types cost 1. */
const conversions: ReadonlyMap<string, readonly [from: Type['kind'], size: (size: Size) => Size]> = new Map([
  ['bytes', ['string', ({ min, max }) => ({ min, max: product(max, 4) })]],
  ['string', ['bytes', ({ min, max }) => ({ min: Math.floor(min / 4), max })]],
]);

/** @param name of a function, or `.name` of a method, whose first argument is the receiver. */
export function callEstimate(
  name: string,
  args: readonly Value[],
  itemSize: (list: Value) => Size,
): CallEstimate {
  const conversion = conversions.get(name);
  const kind = args[0]?.type.kind;
  if (conversion !== undefined && (kind === conversion[0] || kind === 'dyn')) {
    const cost = traversal(first(args));
    return { cost: kind === 'dyn' ? Math.max(1, cost) : cost, size: conversion[1](first(args)) };
  }
  return costs.get(name)?.(args, itemSize) ?? { cost: 1 };
}

/** Types whose values are compared in one step. */
const compact: ReadonlySet<string> = new Set([
  'net.IP',
  'net.CIDR',
  'kubernetes.Quantity',
  'kubernetes.Semver',
]);
const formatNameSize: Size = { min: 1, max: 64 };

/** Cost of `==` on two values of a Kubernetes type; `undefined` if it costs as much as any comparison. */
export function equalityCost(a: Value, b: Value): number | undefined {
  const { name } = a.type;
  if (a.type.kind !== 'opaque' || name === undefined || b.type.name !== name) return undefined;
  if (compact.has(name)) return 1;
  if (name === 'kubernetes.NamedFormat') return traversal(formatNameSize);
  return name === 'kubernetes.URL' ? traversal(b.size ?? exactly(1)) : undefined;
}
