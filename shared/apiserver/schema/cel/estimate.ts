/**
 * How much a rule can cost at most, from the limits of its schema, so that a rule that would never fit the
 * budget is refused when it is written (cel-go `checker/cost.go`, apiserver `pkg/cel/library/cost.go`).
 *
 * The estimate follows cel-go's for operators, macros and the string functions; functions that are not listed
 * count as one pass over their strings.
 *
 * @module
 */
import {
  callCost,
  itemSizeOf,
  listBase,
  mapBase,
  passes,
  resultSize,
  scalar,
  sizeOf,
  times,
  unknown,
  type Estimate,
  type Size,
} from './estimate-calls.ts';
import { children, type CelNode } from './internals.ts';
import type { CelType } from './types.ts';

/** The most that one rule may cost, over all places it applies to in an object. */
export const perRuleEstimateLimit = 10_000_000;
/** The most that all rules of a schema may cost. */
export const perSchemaEstimateLimit = 100_000_000;

/** The cost at most; `Infinity` where something has no limit at all. */
export function estimateCost(tree: CelNode, self: CelType): number {
  const variables = new Map<string, Estimate>();
  for (const name of ['self', 'oldSelf']) variables.set(name, { cost: 1, size: sizeOf(self), type: self });
  return estimate(tree, variables).cost;
}

type Variables = ReadonlyMap<string, Estimate>;

function estimate(node: CelNode, variables: Variables): Estimate {
  switch (node.op) {
    case 'value': {
      const value = node.args;
      const length = typeof value === 'string' || value instanceof Uint8Array ? value.length : 1;
      return { cost: 0, size: [length, length] };
    }
    case 'id':
      return { ...(variables.get(node.args as string) ?? { size: resultSize(node) }), cost: 1 };
    case '.':
    case '.?': {
      const [operand, name] = node.args as [CelNode, string];
      const inner = estimate(operand, variables);
      // A field of a map is not followed, as cel-go follows none.
      const type = inner.type?.fields?.get(name)?.type;
      return { cost: inner.cost + 1, size: type === undefined ? resultSize(node) : sizeOf(type), type };
    }
    case '[]':
    case '[?]': {
      const [container, index] = children(node).map((child) => estimate(child, variables));
      const type = container?.type?.element;
      const size = type === undefined ? (container?.itemSize ?? resultSize(node)) : sizeOf(type);
      return { cost: sum([container, index]) + 1, size, type };
    }
    case '?:': {
      const [condition, left, right] = children(node).map((child) => estimate(child, variables));
      const cost = sum([condition]) + Math.max(sum([left]), sum([right]));
      return { cost, size: either(left?.size, right?.size), type: left?.type ?? right?.type };
    }
    case '-_':
      // cel-go reads a negative number as one.
      if ((node.args as CelNode).op === 'value') return { cost: 0, size: scalar };
      return estimateOperator(node, variables);
    case '&&':
    case '||':
      return { cost: sum(children(node).map((child) => estimate(child, variables))), size: scalar };
    case 'list': {
      const items = children(node).map((child) => estimate(child, variables));
      const itemSize = items
        .map((item) => item.size)
        .reduce<Size | undefined>((a, b) => either(a, b), undefined);
      return { cost: sum(items) + listBase, size: [items.length, items.length], itemSize };
    }
    case 'map': {
      const count = children(node).length / 2;
      return {
        cost: sum(children(node).map((child) => estimate(child, variables))) + mapBase,
        size: [count, count],
      };
    }
    case 'call':
    case 'rcall':
      return estimateCall(node, variables);
    default:
      return estimateOperator(node, variables);
  }
}

const sum = (estimates: readonly (Estimate | undefined)[]): number =>
  estimates.reduce((total, one) => total + (one?.cost ?? 0), 0);

function either(a: Size | undefined, b: Size | undefined): Size {
  if (a === undefined || b === undefined) return a ?? b ?? unknown;
  return [Math.min(a[0], b[0]), Math.max(a[1], b[1])];
}

function estimateOperator(node: CelNode, variables: Variables): Estimate {
  const operands = children(node).map((child) => estimate(child, variables));
  const inner = sum(operands);
  const [a, b] = operands;
  const [left, right] = [a?.size ?? scalar, b?.size ?? scalar];
  switch (node.op) {
    case '==':
    case '!=':
      return { cost: inner + passes(Math.min(left[1], right[1])), size: scalar };
    case '<':
    case '<=':
    case '>':
    case '>=': {
      const text =
        node.args !== undefined && children(node).some((child) => child.checkedType?.name === 'string');
      return { cost: inner + (text ? passes(Math.min(left[1], right[1])) : 1), size: scalar };
    }
    case '+': {
      const kind = node.checkedType;
      if (kind?.name !== 'string' && kind?.name !== 'bytes' && kind?.kind !== 'list') break;
      const size: Size = [left[0] + right[0], left[1] + right[1]];
      const itemSize = either(itemSizeOf(a), itemSizeOf(b));
      return { cost: inner + (kind.kind === 'list' ? 1 : passes(size[1])), size, itemSize };
    }
    case 'in':
      return { cost: inner + (children(node)[1]?.checkedType?.kind === 'map' ? 1 : right[1]), size: scalar };
    default:
  }
  return { cost: inner + 1, size: scalar };
}

/** Macros by name and number of arguments: the cost of one round, and of the rest, beside the given expressions. */
const macros: ReadonlyMap<
  string,
  { variables: number; round: number; once: number; result: 'scalar' | 'list' | 'map' }
> = new Map([
  ['all/2', { variables: 1, round: 3, once: 1, result: 'scalar' }],
  ['exists/2', { variables: 1, round: 4, once: 1, result: 'scalar' }],
  ['exists_one/2', { variables: 1, round: 2, once: 2, result: 'scalar' }],
  ['map/2', { variables: 1, round: 12, once: 11, result: 'list' }],
  ['map/3', { variables: 1, round: 12, once: 11, result: 'list' }],
  ['filter/2', { variables: 1, round: 13, once: 11, result: 'list' }],
  ['all/3', { variables: 2, round: 3, once: 1, result: 'scalar' }],
  ['exists/3', { variables: 2, round: 4, once: 1, result: 'scalar' }],
  ['existsOne/3', { variables: 2, round: 2, once: 2, result: 'scalar' }],
  ['exists_one/3', { variables: 2, round: 2, once: 2, result: 'scalar' }],
  ['transformList/3', { variables: 2, round: 12, once: 11, result: 'list' }],
  ['transformList/4', { variables: 2, round: 12, once: 11, result: 'list' }],
  ['transformMap/3', { variables: 2, round: 32, once: 31, result: 'map' }],
  ['transformMap/4', { variables: 2, round: 32, once: 31, result: 'map' }],
] as const);

function estimateMacro(node: CelNode, variables: Variables): Estimate | undefined {
  if (node.op !== 'rcall') return undefined;
  const [name, receiver, args] = node.args as [string, CelNode, CelNode[]];
  if (name === 'bind' || name === 'optMap' || name === 'optFlatMap') return estimateBind(node, variables);
  const macro = macros.get(`${name}/${args.length}`);
  if (macro === undefined) return undefined;
  const range = estimate(receiver, variables);
  const inner = new Map(variables);
  const isMap = range.type?.kind === 'map' || receiver.checkedType?.kind === 'map';
  const value: Estimate = { cost: 1, size: itemSizeOf(range), type: range.type?.element };
  // Keys of a map have no schema; Kubernetes takes them for empty.
  const key: Estimate = { cost: 1, size: !isMap ? scalar : range.type === undefined ? unknown : [0, 0] };
  const names = args.slice(0, macro.variables).map((arg) => String(arg.args));
  names.forEach((variable, index) => {
    const isValue = macro.variables === 1 ? !isMap : index === 1;
    inner.set(variable, isValue ? value : key);
  });
  const parts = args.slice(macro.variables).map((arg) => estimate(arg, inner));
  const round = sum(parts) + macro.round;
  const cost = range.cost + times(range.size[1], round) + macro.once;
  const itemSize = name === 'filter' ? itemSizeOf(range) : parts.at(-1)?.size;
  const result: Estimate = { cost, size: macro.result === 'scalar' ? scalar : [0, range.size[1]] };
  if (macro.result === 'scalar') return result;
  return { ...result, itemSize, ...(name === 'filter' ? { type: range.type } : {}) };
}

/** `cel.bind(x, value, body)`, `optional.optMap(x, body)`: the body with one more variable. */
function estimateBind(node: CelNode, variables: Variables): Estimate {
  const [name, receiver, args] = node.args as [string, CelNode, CelNode[]];
  const bound = estimate((name === 'bind' ? args[1] : receiver) ?? receiver, variables);
  const body = args.at(-1) ?? receiver;
  const inner = new Map(variables).set(String(args[0]?.args), { ...bound, cost: 1 });
  const result = estimate(body, inner);
  return { ...result, cost: bound.cost + result.cost + listBase };
}

function estimateCall(node: CelNode, variables: Variables): Estimate {
  const name = (node.args as [string])[0];
  const macro = estimateMacro(node, variables);
  if (macro !== undefined) return macro;
  const operands = children(node).map((child) => estimate(child, variables));
  if (name === 'has') return { cost: Math.max(0, sum(operands) - 1), size: scalar };
  const [first, second, third] = operands.map((operand) => operand.size);
  const { cost, size, itemSize } = callCost(
    name,
    [first ?? scalar, second ?? scalar, third ?? scalar],
    node,
    operands,
  );
  const type = passesType.has(name) ? operands[0]?.type : undefined;
  const kept = passesType.has(name) ? operands[0]?.size : undefined;
  return { cost: sum(operands) + cost, size: size ?? kept ?? resultSize(node), itemSize, type };
}

/** Functions that hand on what they got. */
const passesType: ReadonlySet<string> = new Set(['value', 'orValue', 'or', 'of', 'dyn', 'string']);
