/**
 * Macros: calls that are compiled in their own way. Comprehensions with one and two variables (cel-go
 * `ext/comprehensions.go`), `has`, `cel.bind`, and what looks into optionals.
 *
 * @module
 */
import type { ASTNode } from '@marcbachmann/cel-js';
import { entriesOf, isPresent, type Entries } from './access.ts';
import { CompileError, type Code, type Compiling, type Frame, type Run } from './code.ts';
import { CelError, noOverload } from './failure.ts';
import { charge } from './meter.ts';
import { bool, dyn, int, listOf, mapOf, optionalOf, typeText, unify, type Type } from './static-types.ts';
import { Optional } from './values.ts';

type Macro = (
  compiler: Compiling,
  node: ASTNode,
  args: readonly ASTNode[],
  receiver: ASTNode | undefined,
) => Code;

function variableName(node: ASTNode): string {
  if (node.op === 'id') return node.args;
  throw new CompileError(node, 'argument must be a simple name');
}

function compileBool(compiler: Compiling, node: ASTNode): Run {
  const { type, run } = compiler.compile(node);
  if (unify(type, bool) !== undefined) return run;
  throw new CompileError(node, `expected type 'bool' but found '${typeText(type)}'`);
}

/** Whether a condition holds; anything but a bool is an error. */
function holds(condition: Run, frame: Frame): boolean {
  const value = condition(frame);
  if (typeof value !== 'boolean') throw noOverload();
  return value;
}

/** The parts of a comprehension, compiled where they see its variables. */
interface Parts {
  readonly range: Run;
  /** The types of the keys of the range, and of what the macro makes. */
  readonly key: Type;
  readonly type: Type;
  readonly condition: Run | undefined;
  readonly transform: Run | undefined;
  /** Puts the variables of one entry into the frame. */
  readonly set: (frame: Frame, entries: Entries, index: number) => void;
}

function entryTypes(node: ASTNode, range: Type): readonly [key: Type, value: Type] {
  if (range.kind === 'list') return [int, range.element ?? dyn];
  if (range.kind === 'map') return [range.key ?? dyn, range.element ?? dyn];
  if (range.kind === 'dyn') return [dyn, dyn];
  const words = `expression of type '${typeText(range)}' cannot be range of a comprehension (must be list, map, or dynamic)`;
  throw new CompileError(node, words);
}

interface Shape {
  /** How many variables come first among the arguments; one is the value of a list or the key of a map. */
  readonly variables: 1 | 2;
  /** What follows them. */
  readonly condition: boolean;
  readonly transform: boolean;
}

/** A macro that goes through the entries of its receiver. */
function comprehension(shape: Shape, make: (parts: Parts) => Code): Macro {
  return (compiler, node, args, receiver = node) => {
    const range = compiler.compile(receiver);
    const [key, value] = entryTypes(receiver, range.type);
    const [first, second, ...rest] = args as [ASTNode, ASTNode, ...ASTNode[]];
    const bodies = shape.variables === 1 ? [second, ...rest] : rest;
    const [conditionNode, transformNode] = shape.condition ? bodies : [undefined, bodies[0]];
    const single = range.type.kind === 'list' ? value : key;
    const compileParts = (set: Parts['set']): Code => {
      const condition = conditionNode && compileBool(compiler, conditionNode);
      const made = shape.transform && transformNode ? compiler.compile(transformNode) : undefined;
      return make({
        range: range.run,
        key,
        type: made?.type ?? single,
        condition,
        transform: made?.run,
        set,
      });
    };
    if (shape.variables === 1) {
      return compiler.withVariable(variableName(first), single, (place) =>
        compileParts((frame, { keys, values }, index) => {
          frame[place] = (keys ?? values)[index];
        }),
      );
    }
    return compiler.withVariable(variableName(first), key, (keyPlace) =>
      compiler.withVariable(variableName(second), value, (place) =>
        compileParts((frame, { keys, values }, index) => {
          frame[keyPlace] = keys === undefined ? BigInt(index) : keys[index];
          frame[place] = values[index];
        }),
      ),
    );
  };
}

/** Runs something for each entry until it gives `true`. */
function some(
  { range, set }: Parts,
  frame: Frame,
  step: (entries: Entries, index: number) => boolean,
): boolean {
  charge(1);
  const entries = entriesOf(range(frame));
  for (let index = 0; index < entries.values.length; index++) {
    charge(1);
    set(frame, entries, index);
    if (step(entries, index)) return true;
  }
  return false;
}

/** all() and exists(): an error counts only when no entry decides. */
const quantifier =
  (decisive: boolean) =>
  (parts: Parts): Code => {
    const condition = parts.condition ?? (() => true);
    const run: Run = (frame) => {
      let failed: CelError | undefined;
      const decided = some(parts, frame, () => {
        try {
          return holds(condition, frame) === decisive;
        } catch (error) {
          if (!(error instanceof CelError)) throw error;
          failed ??= error;
          return false;
        }
      });
      if (!decided && failed !== undefined) throw failed;
      return decided === decisive;
    };
    return { type: bool, run };
  };

function existsOne(parts: Parts): Code {
  const condition = parts.condition ?? (() => true);
  const run: Run = (frame) => {
    let count = 0;
    some(parts, frame, () => {
      if (holds(condition, frame)) count++;
      return false;
    });
    return count === 1;
  };
  return { type: bool, run };
}

/** map(), filter(), transformList(): without a transformation, the entry itself. */
function collectList(parts: Parts): Code {
  const { condition, transform } = parts;
  const run: Run = (frame) => {
    const list: unknown[] = [];
    some(parts, frame, ({ keys, values }, index) => {
      if (condition === undefined || holds(condition, frame))
        list.push(transform === undefined ? (keys ?? values)[index] : transform(frame));
      return false;
    });
    return list;
  };
  return { type: listOf(parts.type), run };
}

function collectMap(parts: Parts): Code {
  const { condition, transform } = parts;
  const run: Run = (frame) => {
    const map = new Map<unknown, unknown>();
    some(parts, frame, ({ keys }, index) => {
      if (condition === undefined || holds(condition, frame))
        map.set(keys === undefined ? BigInt(index) : keys[index], transform?.(frame));
      return false;
    });
    return map;
  };
  return { type: mapOf(parts.key, parts.type), run };
}

/** Whether a field or the key of a map is there. */
const has: Macro = (compiler, node, args) => {
  const [selection] = args;
  if (selection?.op !== '.' && selection?.op !== '.?')
    throw new CompileError(selection ?? node, 'invalid argument to has() macro');
  if (compiler.isVariable(selection)) return { type: bool, run: () => (charge(1), true) };
  const field = selection.args[1];
  const { operand } = compiler.selection(selection);
  return { type: bool, run: (frame) => (charge(1), isPresent(operand(frame), field)) };
};

const bind: Macro = (compiler, _node, args) => {
  const [name, value, body] = args as [ASTNode, ASTNode, ASTNode];
  const bound = compiler.compile(value);
  return compiler.withVariable(variableName(name), bound.type, (place) => {
    const { type, run } = compiler.compile(body);
    return {
      type,
      run: (frame) => {
        charge(1);
        frame[place] = bound.run(frame);
        return run(frame);
      },
    };
  });
};

/** The receiver, which has to be an optional, and the type of what it holds. */
function compileOptional(
  compiler: Compiling,
  receiver: ASTNode,
): { held: Type; run: (frame: Frame) => Optional } {
  const { type, run } = compiler.compile(receiver);
  if (type.kind !== 'optional' && type.kind !== 'dyn')
    throw new CompileError(receiver, `expected type 'optional_type' but found '${typeText(type)}'`);
  return {
    held: type.element ?? dyn,
    run: (frame) => {
      charge(1);
      const value = run(frame);
      if (!(value instanceof Optional)) throw noOverload();
      return value;
    },
  };
}

/** `optMap(x, f)`: the function on the value where there is one; `optFlatMap`, when it gives an optional itself. */
const mapOptional =
  (flat: boolean): Macro =>
  (compiler, node, args, receiver = node) => {
    const [name, body] = args as [ASTNode, ASTNode];
    const optional = compileOptional(compiler, receiver);
    return compiler.withVariable(variableName(name), optional.held, (place) => {
      const { type, run } = compiler.compile(body);
      return {
        type: flat ? type : optionalOf(type),
        run: (frame) => {
          const { value } = optional.run(frame);
          if (value === undefined) return Optional.none;
          frame[place] = value;
          return flat ? run(frame) : Optional.of(run(frame));
        },
      };
    });
  };

/** `or()` and `orValue()`, whose argument runs only when it is needed. */
const otherwise =
  (flat: boolean): Macro =>
  (compiler, node, args, receiver = node) => {
    const optional = compileOptional(compiler, receiver);
    const [alternative = node] = args;
    const other = flat ? compileOptional(compiler, alternative) : compiler.compile(alternative);
    const type = unify(optional.held, 'held' in other ? other.held : other.type);
    if (type === undefined)
      throw new CompileError(node, `expected type '${typeText(optional.held)}' in the alternative`);
    return {
      type: flat ? optionalOf(type) : type,
      run: (frame) => {
        const found = optional.run(frame);
        if (found === Optional.none) return other.run(frame);
        return flat ? found : found.value;
      },
    };
  };

const one = { variables: 1, condition: true, transform: false } as const;
const two = { variables: 2, condition: true, transform: false } as const;

/** By name and number of arguments; methods begin with a dot. */
export const macros: ReadonlyMap<string, Macro> = new Map<string, Macro>([
  ['has/1', has],
  ['cel.bind/3', bind],
  ['.all/2', comprehension(one, quantifier(false))],
  ['.all/3', comprehension(two, quantifier(false))],
  ['.exists/2', comprehension(one, quantifier(true))],
  ['.exists/3', comprehension(two, quantifier(true))],
  ['.exists_one/2', comprehension(one, existsOne)],
  ['.exists_one/3', comprehension(two, existsOne)],
  ['.existsOne/2', comprehension(one, existsOne)],
  ['.existsOne/3', comprehension(two, existsOne)],
  ['.filter/2', comprehension(one, collectList)],
  ['.map/2', comprehension({ variables: 1, condition: false, transform: true }, collectList)],
  ['.map/3', comprehension({ variables: 1, condition: true, transform: true }, collectList)],
  ['.transformList/3', comprehension({ variables: 2, condition: false, transform: true }, collectList)],
  ['.transformList/4', comprehension({ variables: 2, condition: true, transform: true }, collectList)],
  ['.transformMap/3', comprehension({ variables: 2, condition: false, transform: true }, collectMap)],
  ['.transformMap/4', comprehension({ variables: 2, condition: true, transform: true }, collectMap)],
  ['.optMap/2', mapOptional(false)],
  ['.optFlatMap/2', mapOptional(true)],
  ['.or/1', otherwise(true)],
  ['.orValue/1', otherwise(false)],
]);
