/** Syntax nodes whose type follows from the types of their parts: literals, conditions, operators. */
import { problem, overloadProblem, type Code, type Compiling, type Node, type Run } from './code.ts';
import { CelError, failure, noOverload } from './failure.ts';
import { charge } from './meter.ts';
import { operators, type Operator } from './operators.ts';
import { bool, dyn, listOf, mapOf, typeText, unify, type Type } from './static-types.ts';
import type { ASTNode, Literal } from './syntax.ts';
import { mapKey, Optional, Uint } from './values.ts';

type Unary = Node<'!_' | '-_'>;
type Binary = Node<Exclude<keyof typeof operators, Unary['op']>>;

const literalKinds: Readonly<Record<string, Type['kind'] | undefined>> = {
  string: 'string',
  bigint: 'int',
  number: 'double',
  boolean: 'bool',
};

export function compileLiteral(value: Literal): Code {
  const kind = literalKinds[typeof value];
  const type: Type = {
    kind: kind ?? (value === null ? 'null' : value instanceof Uint ? 'uint' : 'bytes'),
  };
  return { type, run: () => value };
}

export function compileList(compiler: Compiling, node: Node<'list'>): Code {
  const items = node.args.map((item, index) =>
    compileEntry(compiler, item, node.optional?.has(index) === true),
  );
  const runs = items.map(({ run }) => run);
  const type = listOf(oneType(compiler, items));
  if ((node.optional?.size ?? 0) === 0)
    return { type, run: (frame) => (charge(1 + runs.length), runs.map((run) => run(frame))) };
  const optional = node.optional;
  const run: Run = (frame) => {
    charge(1 + runs.length);
    return runs.flatMap((one, index) => {
      const value = one(frame);
      const there = optional?.has(index) === true ? heldBy(value) : value;
      return there === undefined ? [] : [there];
    });
  };
  return { type, run };
}

interface Entry extends Code {
  readonly node: ASTNode;
}

/** Compiles an entry of a literal. The type of an optional entry (`?x`) is that of the optional's value. */
function compileEntry(compiler: Compiling, node: ASTNode, optional: boolean): Entry {
  const { type, run } = compiler.compile(node);
  if (!optional) return { node, type, run };
  if (type.kind !== 'optional' && type.kind !== 'dyn')
    return problem(node, `expected type 'optional_type(${typeText(type)})' but found '${typeText(type)}'`);
  return { node, type: type.element ?? dyn, run };
}

/** `undefined` if the optional is empty. */
function heldBy(value: unknown): unknown {
  if (!(value instanceof Optional)) throw noOverload();
  return value.value;
}

export function compileMap(compiler: Compiling, node: Node<'map'>): Code {
  const parts = node.args.map(([key, value], index) => {
    const optional = node.optional?.has(index) === true;
    return {
      key: compileEntry(compiler, key, false),
      value: compileEntry(compiler, value, optional),
      optional,
    };
  });
  const type = mapOf(
    oneType(
      compiler,
      parts.map(({ key }) => key),
    ),
    oneType(
      compiler,
      parts.map(({ value }) => value),
    ),
  );
  const entries = parts.map(({ key, value, optional }) => [key.run, value.run, optional] as const);
  return {
    type,
    run: (frame) => {
      charge(1 + 2 * entries.length);
      const map = new Map<unknown, unknown>();
      for (const [key, value, optional] of entries) {
        const name = mapKey(key(frame));
        const given = value(frame);
        const there = optional ? heldBy(given) : given;
        if (map.has(name)) throw failure(`Failed with repeated key: ${String(name)}`);
        if (there !== undefined) map.set(name, there);
      }
      return map;
    },
  };
}

/** `Object.spec{replicas: 3}`: its fields may have any name, unless the type defines them. */
export function compileMessageLiteral(compiler: Compiling, node: Node<'message'>): Code {
  const [name, given] = node.args;
  const known = compiler.messageType(name);
  if (known === undefined) return problem(node, `undeclared reference to '${name}' (in container '')`);
  const fields = given.map(([field, value], index) => {
    const optional = node.optional?.has(index) === true;
    const { type, run } = compileEntry(compiler, value, optional);
    const wanted = known.fieldType(field);
    if (wanted === undefined) return problem(value, `undefined field '${field}'`);
    if (unify(wanted, type) === undefined)
      return problem(
        value,
        `expected type of field '${field}' is '${typeText(wanted)}' but provided type is '${typeText(type)}'`,
      );
    return { field, run, optional };
  });
  const run: Run = (frame) => {
    charge(1 + fields.length);
    const values = new Map<string, unknown>();
    for (const { field, run: value, optional } of fields) {
      const there = optional ? heldBy(value(frame)) : value(frame);
      if (there !== undefined) values.set(field, there);
    }
    return known.make(values);
  };
  return { type: known.type, run };
}

export function compileCondition(compiler: Compiling, node: Node<'?:'>): Code {
  const condition = compiler.compile(node.args[0]);
  const yes = compiler.compile(node.args[1]);
  const no = compiler.compile(node.args[2]);
  const type = unify(yes.type, no.type);
  if (type === undefined || unify(condition.type, bool) === undefined) {
    return problem(node, overloadProblem('_?_:_', [condition.type, yes.type, no.type]));
  }
  const run: Run = (frame) => {
    charge(1);
    const value = condition.run(frame);
    if (typeof value !== 'boolean') throw noOverload();
    return value ? yes.run(frame) : no.run(frame);
  };
  return { type, run };
}

/** An error on one side counts only if the other side does not decide the result. */
export function compileLogic(compiler: Compiling, node: Node<'||' | '&&'>): Code {
  const left = compiler.compile(node.args[0]);
  const right = compiler.compile(node.args[1]);
  for (const { type } of [left, right]) {
    if (unify(type, bool) === undefined) {
      return problem(node, overloadProblem(`_${node.op}_`, [left.type, right.type]));
    }
  }
  const decisive = node.op === '||';
  const run: Run = (frame) => {
    charge(1);
    let first: unknown;
    try {
      first = left.run(frame);
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      first = error;
    }
    if (first === decisive) return decisive;
    const second = right.run(frame);
    if (second === decisive) return decisive;
    if (first instanceof CelError) throw first;
    if (typeof first !== 'boolean' || typeof second !== 'boolean') throw noOverload();
    return !decisive;
  };
  return { type: bool, run };
}

export function compileBinary(compiler: Compiling, node: Binary): Code {
  const left = compiler.compile(node.args[0]);
  const right = compiler.compile(node.args[1]);
  const { type, apply, cost } = operatorOf(node, [left.type, right.type]);
  const [a, b] = [left.run, right.run];
  const run: Run = (frame) => {
    const first = a(frame);
    const second = b(frame);
    charge(cost === undefined ? 1 : 1 + cost(first, second));
    return apply(first, second);
  };
  return { type, run };
}

export function compileUnary(compiler: Compiling, node: Unary): Code {
  const operand = compiler.compile(node.args);
  const { type, apply } = operatorOf(node, [operand.type]);
  const { run } = operand;
  return { type, run: (frame) => (charge(1), apply(run(frame), undefined)) };
}

function operatorOf(
  node: Binary | Unary,
  operands: readonly Type[],
): { type: Type; apply: Operator['apply']; cost: Operator['cost'] } {
  const { name, type, apply, cost } = operators[node.op];
  return { type: type(operands) ?? problem(node, overloadProblem(name, operands)), apply, cost };
}

/** The common type of all elements of a literal. */
function oneType({ mixed }: Compiling, [first, ...others]: readonly Entry[]): Type {
  let common = first?.type ?? dyn;
  for (const { node, type } of others) {
    const one = unify(common, type);
    if (one === undefined && !mixed)
      return problem(node, `expected type '${typeText(common)}' but found '${typeText(type)}'`);
    common = one ?? dyn;
  }
  return common;
}
