/**
 * What an evaluation costs, counted while it runs, in about the units of Kubernetes: one for each access and
 * call, more for what goes through strings and lists (apiserver `pkg/apis/cel/config.go`,
 * `pkg/cel/library/cost.go`). A rule that gets too expensive is broken off, so that no object can hold up the
 * server.
 *
 * @module
 */
import { CelObject } from './values.ts';
import { walk, type CelNode } from './internals.ts';

/** One evaluation of one rule; about 0.1 s. */
export const perCallLimit = 1_000_000;
/** All rules on one object; about 1 s. */
export const perObjectLimit = 10_000_000;

/** Thrown once too much was spent. One object for all: making it a million times over would cost more than the rules. */
export class CostExceeded extends Error {}
const costExceeded = new CostExceeded('operation cancelled: actual cost limit exceeded');

let spent = 0;
let limit = Infinity;

/** @throws {CostExceeded} when the evaluation that runs has used up its limit. */
export function charge(cost: number): void {
  spent += cost;
  if (spent > limit) throw costExceeded;
}

/** What an evaluation came to: a result or an error, and its cost. */
export interface Outcome {
  readonly value?: unknown;
  readonly error?: unknown;
  readonly cost: number;
  readonly exceeded: boolean;
}

/** Runs an instrumented expression. Never throws; evaluation is synchronous, so one at a time runs. */
export function measured(evaluate: () => unknown, costLimit = perCallLimit): Outcome {
  spent = 0;
  limit = costLimit;
  try {
    const value = evaluate();
    // An expression may have swallowed the error: `true || <too costly>`.
    return spent > limit
      ? { error: costExceeded, cost: spent, exceeded: true }
      : { value, cost: spent, exceeded: false };
  } catch (error) {
    return { error, cost: spent, exceeded: spent > limit };
  } finally {
    limit = Infinity;
  }
}

/** Making an error with its place in the source takes about as long as this many steps, and goes through the source. */
const errorCost = 50;
const errorCostPerCharacter = 0.1;

/** Makes a checked tree of a source of this length count what it does. */
export function instrument(root: CelNode, sourceLength: number): void {
  const perError = errorCost + sourceLength * errorCostPerCharacter;
  const seen = new Set<CelNode>();
  walk(root, (node) => {
    if (seen.has(node)) return;
    seen.add(node);
    meterNode(node, perError);
    if (node.handle !== undefined) meterOperands(node, node.handle);
  });
}

function meterNode(node: CelNode, perError: number): void {
  let inner = node.evaluate;
  const metered: CelNode['evaluate'] = (evaluator, self, scope) => {
    charge(1);
    try {
      return inner.call(node, evaluator, self, scope);
    } catch (error) {
      if (error !== costExceeded) charge(perError);
      throw error;
    }
  };
  // The node replaces its own method at the first call; what it puts there is to be metered as well.
  Object.defineProperty(node, 'evaluate', {
    get: () => metered,
    set: (replacement: CelNode['evaluate']) => {
      inner = replacement;
    },
    configurable: true,
  });
}

function meterOperands(node: CelNode, handle: (...operands: unknown[]) => unknown): void {
  const cost = operandCost(node);
  if (cost === undefined) return;
  node.handle = (...operands) => {
    charge(cost(operands));
    return handle(...operands);
  };
}

/** Going through a string costs a tenth of a unit per character. */
const traversal = 0.1;
const perRegexCharacter = 0.25;

function operandCost(node: CelNode): ((operands: readonly unknown[]) => number) | undefined {
  switch (node.op) {
    case '+':
    case '<':
    case '<=':
    case '>':
    case '>=':
      return ([a, b]) => (sizeOf(a) + sizeOf(b)) * traversal;
    case '==':
    case '!=':
      return ([a, b]) => Math.min(deepSize(a), deepSize(b)) * traversal;
    case 'in':
      return ([value, container]) =>
        Array.isArray(container) ? container.length * (1 + deepSize(value) * traversal) : 1;
    case 'call':
    case 'rcall': {
      const name = (node.args as [string])[0];
      return ([values]) => callCost(name, values as readonly unknown[]);
    }
    default:
      return undefined;
  }
}

function callCost(name: string, values: readonly unknown[]): number {
  const [first, second, third] = values;
  switch (name) {
    case 'size':
      return typeof first === 'string' ? first.length * traversal : 1;
    case 'k8s_matches':
    case 'find':
    case 'findAll':
      return (1 + sizeOf(first)) * traversal * (1 + sizeOf(second) * perRegexCharacter);
    case 'contains':
      if (values.length === 3) return 1 + sizeOf(second) * sizeOf(third);
      return (1 + sizeOf(first) * traversal) * (1 + sizeOf(second) * traversal);
    case 'k8s_indexOf':
    case 'k8s_lastIndexOf':
      return (1 + sizeOf(first) * traversal) * (1 + sizeOf(second) * traversal);
    case 'replace': {
      const places = sizeOf(first) / Math.max(1, sizeOf(second)) + 1;
      return (sizeOf(first) + places * sizeOf(third)) * 2 * traversal;
    }
    case 'join':
      return (deepSize(first) + sizeOf(first) * (1 + sizeOf(second))) * 2 * traversal;
    case 'intersects':
    case 'equivalent':
      return 1 + sizeOf(second) * sizeOf(third);
    default:
      return values.reduce<number>((sum, value) => sum + deepSize(value) * traversal, 1);
  }
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value) || value instanceof Uint8Array) return value.length;
  return value instanceof Map ? value.size : 1;
}

/** Values and characters in all of a value. */
function deepSize(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return value.length;
  if (value instanceof CelObject) return deepSize(value.raw);
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + deepSize(item), 1);
  if (value instanceof Map) return [...value.values()].reduce<number>((sum, item) => sum + deepSize(item), 1);
  if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
    return Object.values(value).reduce<number>((sum, item) => sum + deepSize(item), 1);
  }
  return 1;
}
