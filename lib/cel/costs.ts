/**
 * The cost of operators and functions, in addition to one unit per step, in roughly Kubernetes' units: operators and functions
 * that traverse strings or lists cost more (apiserver `pkg/cel/library/cost.go`).
 */
import { CelObject, isPlain } from './values.ts';

/** Traversing a string costs a tenth of a unit per character. */
export const traversal = 0.1;
const perRegexCharacter = 0.25;

const isScalar = (value: unknown): boolean => typeof value !== 'string' && typeof value !== 'object';

/** Cost of `+` and of comparisons. */
export function operandCost(a: unknown, b: unknown): number {
  return isScalar(a) ? 0 : (sizeOf(a) + sizeOf(b)) * traversal;
}

/** Cost of `in`, without comparing the items, which charges its own cost. */
export function membershipCost(_value: unknown, container: unknown): number {
  return Array.isArray(container) ? container.length : 0;
}

type Values = readonly unknown[];

const regexCost = ([text, pattern]: Values): number =>
  (1 + sizeOf(text)) * traversal * (1 + sizeOf(pattern) * perRegexCharacter);
const searchCost = ([text, part]: Values): number =>
  (1 + sizeOf(text) * traversal) * (1 + sizeOf(part) * traversal);
/** Traversing the numbers of a list takes longer than characters. */
const itemsCost = ([list]: Values): number => sizeOf(list) * 4 * traversal;
const indexCost = (values: Values): number =>
  Array.isArray(values[0]) ? itemsCost(values) : searchCost(values);
const pairsCost = ([a, b]: Values): number => 1 + sizeOf(a) * sizeOf(b);

const byName: Readonly<Record<string, (values: Values) => number>> = {
  size: ([value]) => (typeof value === 'string' ? value.length * traversal : 0),
  matches: regexCost,
  find: regexCost,
  findAll: regexCost,
  contains: ([first, second]) =>
    Array.isArray(first) ? pairsCost([first, second]) : searchCost([first, second]),
  indexOf: indexCost,
  lastIndexOf: indexCost,
  sum: itemsCost,
  min: itemsCost,
  max: itemsCost,
  isSorted: itemsCost,
  replace: ([text, old, replacement]) => {
    const places = sizeOf(text) / Math.max(1, sizeOf(old)) + 1;
    return (sizeOf(text) + places * sizeOf(replacement)) * 2 * traversal;
  },
  join: ([list, separator]) => (deepSize(list) + sizeOf(list) * (1 + sizeOf(separator))) * 2 * traversal,
  split: ([text]) => sizeOf(text) * 3 * traversal,
  intersects: pairsCost,
  equivalent: pairsCost,
};

/** A function that parses or produces a text takes about as long as this many steps. */
const parsingCost = 30;
const parsing: ReadonlySet<string> = new Set([
  ...[
    'ip',
    'isIP',
    'isCanonical',
    'cidr',
    'isCIDR',
    'containsIP',
    'containsCIDR',
    'url',
    'isURL',
    'getQuery',
  ],
  ...['quantity', 'isQuantity', 'timestamp', 'duration', 'validate', 'format', 'string'],
  ...['semver', 'isSemver', 'serviceAccount'],
]);

/** The cost of calling a function of this name, by its arguments. */
export function callCost(name: string): (values: Values) => number {
  const own = Object.hasOwn(byName, name) ? byName[name] : undefined;
  const fixed = parsing.has(name) ? parsingCost : 0;
  return own ?? ((values) => values.reduce<number>((sum, value) => sum + deepSize(value) * traversal, fixed));
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value) || value instanceof Uint8Array) return value.length;
  return value instanceof Map ? value.size : 1;
}

/** The number of values and characters in a value. */
export function deepSize(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return value.length;
  if (value instanceof CelObject) return deepSize(value.raw);
  const parts = Array.isArray(value)
    ? value
    : value instanceof Map
      ? [...value.values()]
      : isPlain(value)
        ? Object.values(value)
        : [];
  return parts.reduce<number>((sum, item) => sum + deepSize(item), 1);
}
