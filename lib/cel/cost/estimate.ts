/**
 * The maximum cost of an expression, from the largest sizes of the values that it reads (cel-go `checker/cost.go`). By this
 * estimate, Kubernetes refuses rules; its quirks are reproduced, so that rules refused in a cluster are refused here too.
 */
import { Compiler } from '../compiler.ts';
import type { Scope } from '../environment.ts';
import { parse } from '../parser.ts';
import { dyn, type Type } from '../static-types.ts';
import type { ASTNode, Literal } from '../syntax.ts';
import { callEstimate, equalityCost } from './functions.ts';
import { type Estimating, macroCosts } from './macros.ts';
import { either, exactly, join, type Size, sum, traversal } from './size.ts';
import { type Bound, type Entries, type Estimate, isScalar, sizeOf, type Value } from './value.ts';

/**
 * @param source an expression that compiles in this scope.
 * @throws what the compiler throws if it does not compile.
 */
export function estimateCost(source: string, scope: Scope, bound: Bound): number {
  const types = new Map<ASTNode, Type>();
  const tree = parse(source);
  new Compiler(scope.library, scope, types).compile(tree);
  return new Estimation(types, bound).visit(tree).cost;
}

class Estimation implements Estimating {
  readonly #types: ReadonlyMap<ASTNode, Type>;
  readonly #bound: Bound;
  readonly #locals = new Map<string, Value>();

  constructor(types: ReadonlyMap<ASTNode, Type>, bound: Bound) {
    this.#types = types;
    this.#bound = bound;
  }

  visit(node: ASTNode): Estimate {
    switch (node.op) {
      case 'value':
        return { ...this.#value(node, { size: literalSize(node.args) }), literal: node.args, cost: 0 };
      case 'id':
        return this.#name(node, node.args);
      case '.':
      case '.?':
        return this.#selection(node, node.op, node.args);
      case '[]':
      case '[?]':
        return this.#index(node, node.op, node.args);
      case 'list':
        return this.#list(
          node,
          node.args.map((item) => this.visit(item)),
        );
      case 'map':
        return this.#map(node, node.args);
      case 'message': {
        const fields = node.args[1].map(([, value]) => this.visit(value).cost);
        return { ...this.#value(node), cost: sum(structCost, ...fields) };
      }
      case '?:':
        return this.#condition(node, node.args);
      case '&&':
      case '||': {
        const [a, b] = [this.visit(node.args[0]), this.visit(node.args[1])];
        return { ...this.#value(node), cost: sum(a.cost, b.cost) };
      }
      case '!_':
      case '-_':
        return { ...this.#value(node), cost: sum(1, this.visit(node.args).cost) };
      case 'call':
        return this.#call(node, node.args[0], undefined, node.args[1]);
      case 'rcall':
        return this.#call(node, node.args[0], node.args[1], node.args[2]);
      case '==':
      case '!=':
      case 'in':
      case '+':
      case '-':
      case '*':
      case '/':
      case '%':
      case '<':
      case '<=':
      case '>':
      case '>=':
        return this.#operation(node, node.op, this.visit(node.args[0]), this.visit(node.args[1]));
    }
  }

  within(names: readonly ASTNode[], values: readonly Value[], nodes: readonly ASTNode[]): Estimate[] {
    const hidden = new Map(this.#locals);
    names.forEach((name, index) => {
      const value = values[index];
      if (name.op === 'id' && value !== undefined) this.#locals.set(name.args, value);
    });
    try {
      return nodes.map((node) => this.visit(node));
    } finally {
      this.#locals.clear();
      for (const [name, value] of hidden) this.#locals.set(name, value);
    }
  }

  /** A node's value. Properties that are not `known` are derived from its path, or else from its type. */
  #value(node: ASTNode, known: Partial<Value> = {}): Value {
    const type = known.type ?? this.#types.get(node) ?? dyn;
    const path = known.path ?? [];
    return { ...known, type, path, size: known.size ?? this.#sizeAt(path, type) };
  }

  #sizeAt(path: readonly string[], type: Type): Size | undefined {
    const max = path.length === 0 ? undefined : this.#bound(path);
    if (max !== undefined) return { min: 0, max };
    return isScalar(type) ? exactly(1) : undefined;
  }

  /** A variable or the name of a type. */
  #name(node: ASTNode, name: string): Estimate {
    const local = this.#locals.get(name);
    if (local === undefined) return { ...this.#value(node, { path: [name] }), cost: 1 };
    const { type, path, entries } = local;
    return { type, path, entries, size: this.#sizeAt(path, type) ?? local.size, cost: 1 };
  }

  #selection(node: ASTNode, op: '.' | '.?', [holder, field]: readonly [ASTNode, string]): Estimate {
    // In a qualified name such as `a.b`, `a` is not an expression of its own, so it has no type.
    if (!this.#types.has(holder)) return this.#name(node, qualified(node));
    const { type, path, cost } = this.visit(holder);
    if (op === '.?') return { ...this.#value(node), cost: sum(1, cost) };
    const own = type.kind === 'map' || type.kind === 'object' ? 1 : 0;
    return { ...this.#value(node, { path: [...path, field] }), cost: sum(own, cost) };
  }

  #index(node: ASTNode, op: '[]' | '[?]', args: readonly [ASTNode, ASTNode]): Estimate {
    const [holder, key] = [this.visit(args[0]), this.visit(args[1])];
    const cost = sum(1, holder.cost, key.cost);
    if (op === '[?]' || holder.type.kind === 'optional') return { ...this.#value(node), cost };
    const part = holder.type.kind === 'list' ? '@items' : '@values';
    const known = { path: [...holder.path, part], size: holder.entries?.value };
    return { ...this.#value(node, known), cost };
  }

  #list(node: ASTNode, items: readonly Estimate[]): Estimate {
    const entries: Entries = { kind: 'list', key: exactly(1), value: union(items) };
    const cost = sum(listCost, ...items.map((item) => item.cost));
    return { ...this.#value(node, { size: exactly(items.length), entries }), cost };
  }

  #map(node: ASTNode, pairs: readonly (readonly [ASTNode, ASTNode])[]): Estimate {
    const keys = pairs.map(([key]) => this.visit(key));
    const values = pairs.map(([, value]) => this.visit(value));
    const entries: Entries = { kind: 'map', key: union(keys), value: union(values) };
    const cost = sum(mapCost, ...[...keys, ...values].map((part) => part.cost));
    return { ...this.#value(node, { size: exactly(pairs.length), entries }), cost };
  }

  #condition(node: ASTNode, args: readonly [ASTNode, ASTNode, ASTNode]): Estimate {
    const [condition, yes, no] = [this.visit(args[0]), this.visit(args[1]), this.visit(args[2])];
    const known = { size: either(sizeOf(yes), sizeOf(no)), entries: eitherEntries(yes.entries, no.entries) };
    return { ...this.#value(node, known), cost: sum(condition.cost, Math.max(yes.cost, no.cost)) };
  }

  #operation(node: ASTNode, op: string, a: Estimate, b: Estimate): Estimate {
    const operands = sum(a.cost, b.cost);
    const compared = traversal({ min: 0, max: Math.min(sizeOf(a).max, sizeOf(b).max) });
    if (op === '==' || op === '!=') {
      const cost = (op === '==' ? equalityCost(a, b) : undefined) ?? compared;
      return { ...this.#value(node), cost: sum(operands, cost) };
    }
    // A `dyn` operand may have any type that the operator accepts.
    const texts = [a, b].every(({ type }) => isOneOf(type, 'string', 'bytes', 'dyn'));
    const other = ![a, b].some(({ type }) => isOneOf(type, 'string', 'bytes'));
    if (op === '+') {
      const joined = join(sizeOf(a), sizeOf(b));
      const lists = [a, b].every(({ type }) => isOneOf(type, 'list', 'dyn'));
      const known =
        texts || lists ? { size: joined, entries: eitherEntries(a.entries, b.entries) } : undefined;
      const cost = Math.max(texts ? traversal(joined) : 0, other ? 1 : 0);
      return { ...this.#value(node, known), cost: sum(operands, cost) };
    }
    if (op === 'in') {
      const cost = Math.max(b.type.kind === 'map' ? 0 : sizeOf(b).max, b.type.kind === 'list' ? 0 : 1);
      return { ...this.#value(node), cost: sum(operands, cost) };
    }
    const ordered = op.startsWith('<') || op.startsWith('>');
    const cost = ordered && texts ? Math.max(compared, other ? 1 : 0) : 1;
    return { ...this.#value(node), cost: sum(operands, cost) };
  }

  #call(node: ASTNode, name: string, receiver: ASTNode | undefined, args: readonly ASTNode[]): Estimate {
    const namespace = receiver === undefined || this.#types.has(receiver) ? undefined : qualified(receiver);
    const key =
      namespace === undefined ? `${receiver === undefined ? '' : '.'}${name}` : `${namespace}.${name}`;
    const macro = macroCosts.get(`${key}/${args.length}`);
    if (macro !== undefined) {
      const { cost, ...known } = macro(this, args, receiver);
      return { ...this.#value(node, known), cost };
    }
    const all = receiver === undefined || namespace !== undefined ? args : [receiver, ...args];
    const operands = all.map((operand) => this.visit(operand));
    const spent = sum(...operands.map((operand) => operand.cost));
    const [first] = operands;
    if (key === 'dyn' && first !== undefined) {
      const known = { size: first.size, entries: first.entries };
      return { ...this.#value(node, known), cost: sum(1, spent) };
    }
    const { cost, size } = callEstimate(key, operands, (list) => this.#itemSize(list));
    return { ...this.#value(node, { size }), cost: sum(spent, cost) };
  }

  /** The size of a list's items, which is known only if the list has a path. */
  #itemSize({ type, path }: Value): Size {
    const part = type.key ?? type.element ?? dyn;
    const at = path.length === 0 ? path : [...path, '@items'];
    const max = at.length === 0 ? undefined : this.#bound(at);
    return sizeOf({ type: part, path: at, size: max === undefined ? undefined : { min: 0, max } });
  }
}

const [listCost, mapCost, structCost] = [10, 30, 40];

const isOneOf = ({ kind }: Type, ...kinds: readonly Type['kind'][]): boolean => kinds.includes(kind);

function literalSize(value: Literal): Size {
  if (typeof value === 'string') return exactly(Array.from(value).length);
  return exactly(value instanceof Uint8Array ? value.length : 1);
}

/** The smallest range of sizes that covers all items of a literal. */
function union(items: readonly Value[]): Size {
  const [first, ...others] = items.map(sizeOf);
  return others.reduce(either, first ?? exactly(0));
}

function eitherEntries(a: Entries | undefined, b: Entries | undefined): Entries | undefined {
  if (a === undefined || b === undefined) return undefined;
  return { kind: a.kind, key: either(a.key, b.key), value: either(a.value, b.value) };
}

function qualified(node: ASTNode): string {
  if (node.op === 'id') return node.args;
  return node.op === '.' ? `${qualified(node.args[0])}.${node.args[1]}` : '';
}
