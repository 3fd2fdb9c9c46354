/**
 * The maximum cost of macros, from the parts of their expansion in cel-go (`parser/macro.go`, `cel/library.go`,
 * `ext/comprehensions.go`), in cel-go's units: a name is 1, a call 1, a list 10, a map 30.
 */
import { dyn, int } from '../static-types.ts';
import type { ASTNode } from '../syntax.ts';
import { either, exactly, product, type Size, sum } from './size.ts';
import { type Entries, type Estimate, sizeOf, type Value } from './value.ts';

/** What macros use of the estimation. */
export interface Estimating {
  visit(node: ASTNode): Estimate;
  /** Estimates expressions with additional variables, which have these names and values. */
  within(names: readonly ASTNode[], values: readonly Value[], nodes: readonly ASTNode[]): Estimate[];
}

export interface MacroEstimate {
  readonly cost: number;
  readonly size?: Size | undefined;
  readonly entries?: Entries | undefined;
}

type MacroCost = (
  estimating: Estimating,
  args: readonly ASTNode[],
  receiver: ASTNode | undefined,
) => MacroEstimate;

/** Cost of creating a list or a map. */
const [list, map] = [10, 30];
/** Cost of appending an item to the result: a call, the name of the result, and a list with the item. */
const append = 1 + 1 + list;
/** Cost of inserting an entry into the result: a call, and the name of the result. */
const insert = 1 + 1;

/** The keys of a range; for a list, its indexes. */
function keys({ type, path, entries }: Value): Value {
  const isList = (entries?.kind ?? type.kind) === 'list';
  const part = isList ? '@indices' : '@keys';
  return { type: isList ? int : (type.key ?? dyn), path: [...path, part], size: entries?.key };
}

function values({ type, path, entries }: Value): Value {
  const part = (entries?.kind ?? type.kind) === 'list' ? '@items' : '@values';
  return { type: type.element ?? dyn, path: [...path, part], size: entries?.value };
}

const single = (range: Value): Value =>
  (range.entries?.kind ?? range.type.kind) === 'list' ? values(range) : keys(range);

interface Loop {
  readonly variables: 1 | 2;
  /** Cost outside of the loop: before its first round and after its last. */
  readonly once: number;
  /** Cost of a round, given the costs of its expressions. */
  readonly round: (...costs: readonly number[]) => number;
  readonly result: 'scalar' | 'list' | 'map';
  /** Whether the result consists of the values of the first variable. */
  readonly filter?: boolean;
}

/** A macro that iterates over the entries of its receiver. */
const loop =
  ({ variables, once, round, result, filter = false }: Loop): MacroCost =>
  (estimating, args, receiver) => {
    if (receiver === undefined) return { cost: 0 };
    const range = estimating.visit(receiver);
    const names = args.slice(0, variables);
    const locals = variables === 1 ? [single(range)] : [keys(range), values(range)];
    const nodes = [...args.slice(variables), ...(filter ? names : [])];
    const bodies = estimating.within(names, locals, nodes);
    const size = sizeOf(range);
    const each = round(...bodies.map(({ cost }) => cost));
    const cost = sum(range.cost, once, product(size.max, each));
    if (result !== 'list') return { cost, size: result === 'map' ? size : exactly(1) };
    const item = bodies.at(-1);
    const value = either(exactly(0), item === undefined ? exactly(0) : sizeOf(item));
    return { cost, size, entries: { kind: 'list', key: exactly(1), value } };
  };

/** A round that adds the value of its last expression to the result; if a condition precedes it, only if that is true. */
const adding =
  (step: number): Loop['round'] =>
  (...costs) => {
    const work = sum(step, costs.at(-1) ?? 0);
    return costs.length < 2 ? work : sum(costs[0] ?? 0, Math.max(work, 1));
  };

const all: Omit<Loop, 'variables'> = { once: 1, round: (test = 0) => sum(3, test), result: 'scalar' };
const exists: Omit<Loop, 'variables'> = { once: 1, round: (test = 0) => sum(4, test), result: 'scalar' };
const existsOne: Omit<Loop, 'variables'> = { once: 2, round: (test = 0) => sum(2, test), result: 'scalar' };
const toList: Omit<Loop, 'variables'> = { once: list + 1, round: adding(append), result: 'list' };
const toMap: Omit<Loop, 'variables'> = { once: map + 1, round: adding(insert + 1), result: 'map' };

const has: MacroCost = (estimating, [selection]) => ({
  cost: selection?.op === '.' || selection?.op === '.?' ? estimating.visit(selection.args[0]).cost : 0,
});

const bind: MacroCost = (estimating, [name, init, body]) => {
  if (name === undefined || init === undefined || body === undefined) return { cost: 0 };
  const bound = estimating.visit(init);
  const [result] = estimating.within([name], [bound], [body]);
  return { cost: sum(list, bound.cost, result?.cost ?? 0), size: result?.size, entries: result?.entries };
};

/** Checks whether the optional has a value, and evaluates the body with it. */
const mapOptional =
  (wrap: number): MacroCost =>
  (estimating, [name, body], receiver) => {
    if (name === undefined || body === undefined || receiver === undefined) return { cost: 0 };
    const optional = estimating.visit(receiver);
    const held: Value = { type: optional.type.element ?? dyn, path: [] };
    const [made] = estimating.within([name], [held], [body]);
    return { cost: sum(optional.cost, 1, wrap, list, optional.cost, 1, made?.cost ?? 0) };
  };

const otherwise: MacroCost = (estimating, args, receiver) => ({
  cost: sum(1, ...[receiver, ...args].map((node) => (node === undefined ? 0 : estimating.visit(node).cost))),
});

/** Keyed by name and number of arguments, as in `../macros.ts`. */
export const macroCosts: ReadonlyMap<string, MacroCost> = new Map<string, MacroCost>([
  ['has/1', has],
  ['cel.bind/3', bind],
  ['.all/2', loop({ ...all, variables: 1 })],
  ['.all/3', loop({ ...all, variables: 2 })],
  ['.exists/2', loop({ ...exists, variables: 1 })],
  ['.exists/3', loop({ ...exists, variables: 2 })],
  ['.exists_one/2', loop({ ...existsOne, variables: 1 })],
  ['.exists_one/3', loop({ ...existsOne, variables: 2 })],
  ['.existsOne/2', loop({ ...existsOne, variables: 1 })],
  ['.existsOne/3', loop({ ...existsOne, variables: 2 })],
  ['.filter/2', loop({ ...toList, variables: 1, filter: true })],
  ['.map/2', loop({ ...toList, variables: 1 })],
  ['.map/3', loop({ ...toList, variables: 1 })],
  ['.transformList/3', loop({ ...toList, variables: 2 })],
  ['.transformList/4', loop({ ...toList, variables: 2 })],
  ['.transformMap/3', loop({ ...toMap, variables: 2 })],
  ['.transformMap/4', loop({ ...toMap, variables: 2 })],
  ['.transformMapEntry/3', loop({ ...toMap, round: adding(insert), variables: 2 })],
  ['.transformMapEntry/4', loop({ ...toMap, round: adding(insert), variables: 2 })],
  ['.optMap/2', mapOptional(1)],
  ['.optFlatMap/2', mapOptional(0)],
  ['.or/1', otherwise],
  ['.orValue/1', otherwise],
]);
