/**
 * Sizes in the estimate of a rule's cost, and the cost of each function.
 *
 * @module
 */
import { children, type CelNode } from './internals.ts';
import type { CelType } from './types.ts';

/** What is known of a part of an expression. */
export interface Estimate {
  readonly cost: number;
  /** Characters, items or entries: at least and at most. */
  readonly size: Size;
  readonly type?: CelType | undefined;
  /** The size of the items of a list that the expression makes. */
  readonly itemSize?: Size | undefined;
}
export type Size = readonly [min: number, max: number];

export const scalar: Size = [1, 1];
export const unknown: Size = [0, Infinity];
export const traversal = 0.1;
export const listBase = 10;
export const mapBase = 30;

export function sizeOf(type: CelType | undefined): Size {
  if (type === undefined) return unknown;
  return [0, type.maxElements];
}

export const times = (a: number, b: number): number => (a === 0 || b === 0 ? 0 : a * b);
export const passes = (size: number, factor = traversal): number => Math.ceil(size * factor);

/** The size of a result by its checked type: one for what is no string, list or map. */
export function resultSize(node: CelNode): Size {
  const type = node.checkedType;
  if (type === undefined || type.kind === 'dyn') return unknown;
  return ['list', 'map'].includes(type.kind) || ['string', 'bytes'].includes(type.name) ? unknown : scalar;
}

export const itemSizeOf = (list: Estimate | undefined): Size =>
  list?.itemSize ?? (list?.type?.element === undefined ? unknown : sizeOf(list.type.element));

export interface CallCost {
  readonly cost: number;
  readonly size?: Size;
  readonly itemSize?: Size;
}

export function callCost(
  name: string,
  [first, second, third]: readonly [Size, Size, Size],
  node: CelNode,
  operands: readonly Estimate[],
): CallCost {
  switch (name) {
    case 'k8s_matches':
    case 'find':
    case 'findAll':
      return {
        cost: times(passes(first[1] + 1), passes(second[1], 0.25)),
        size: name === 'k8s_matches' ? scalar : [0, first[1]],
      };
    case 'contains':
      return { cost: times(passes(first[1]), passes(second[1])), size: scalar };
    case 'startsWith':
    case 'endsWith':
      return { cost: passes(second[1]), size: scalar };
    case 'k8s_lowerAscii':
    case 'k8s_upperAscii':
    case 'trim':
    case 'k8s_substring':
    case 'reverse':
      return { cost: passes(first[1]), size: [0, first[1]] };
    case 'quote':
      return { cost: passes(second[1]), size: [0, second[1] * 2 + 2] };
    case 'k8s_split':
      return { cost: passes(first[1], 2 * traversal), size: [0, first[1]], itemSize: [0, first[1]] };
    case 'replace': {
      const grows = third[1] > second[0];
      const most =
        second[0] === 0
          ? first[1] + times(first[1] + 1, third[1])
          : times(Math.ceil(first[1] / second[0]), third[1]);
      return { cost: passes(first[1], 2 * traversal), size: [0, grows ? most : first[1]] };
    }
    case 'join': {
      const item = itemSizeOf(operands[0]);
      const length =
        times(first[1], item[1]) + times(Math.max(0, first[1] - 1), operands.length > 1 ? second[1] : 0);
      return { cost: passes(length), size: [0, length] };
    }
    case 'isSorted':
    case 'sum':
    case 'min':
    case 'max':
    case 'k8s_indexOf':
    case 'k8s_lastIndexOf': {
      const isText = children(node)[0]?.checkedType?.name === 'string';
      if (isText) return { cost: passes(first[1]), size: scalar };
      return { cost: times(first[1], 1 + passes(textSize(operands[0]))), size: scalar };
    }
    case 'size':
    case 'value':
    case 'hasValue':
    case 'dyn':
    case 'type':
      return { cost: 1 };
    case 'format': {
      const length = first[1] + times(second[1], itemSizeOf(operands[1])[1]);
      return { cost: passes(first[1]), size: [0, length] };
    }
    default:
      // One pass over each string that goes in; what comes out is not longer.
      return textCost(node, operands);
  }
}

/** The size of the items of a list of strings; other items compare in one step. */
function textSize(list: Estimate | undefined): number {
  const kind = list?.type?.element?.kind;
  return kind === 'string' || kind === 'bytes' ? itemSizeOf(list)[1] : 0;
}

function textCost(node: CelNode, operands: readonly Estimate[]): CallCost {
  const longest = children(node)
    .map((child, index) => (child.checkedType?.name === 'string' ? (operands[index]?.size[1] ?? 0) : 0))
    .reduce((most, size) => Math.max(most, size), 0);
  const result = resultSize(node);
  return {
    cost: Math.max(1, passes(longest)),
    size: result === scalar ? scalar : [0, Math.max(longest, operands[0]?.size[1] ?? 0)],
  };
}
