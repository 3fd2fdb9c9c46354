/**
 * Comprehensions: macros that iterate over lists and maps, with one or two variables (cel-go `parser/macro.go`,
 * `ext/comprehensions.go`).
 */
import { entriesOf, type Entries } from './access.ts';
import { CompileError, type Code, type Compiling, type Frame, type Run } from './code.ts';
import { CelError, failure, noOverload } from './failure.ts';
import { charge } from './meter.ts';
import { bool, dyn, int, listOf, mapOf, typeText, unify, type Type } from './static-types.ts';
import type { ASTNode } from './syntax.ts';
import { mapKey } from './values.ts';

export type Macro = (
  compiler: Compiling,
  node: ASTNode,
  args: readonly ASTNode[],
  receiver: ASTNode | undefined,
) => Code;

export function variableName(node: ASTNode): string {
  if (node.op === 'id') return node.args;
  throw new CompileError(node, 'argument must be a simple name');
}

function compileBool(compiler: Compiling, node: ASTNode): Run {
  const { type, run } = compiler.compile(node);
  if (unify(type, bool) !== undefined) return run;
  throw new CompileError(node, `expected type 'bool' but found '${typeText(type)}'`);
}

/** Whether a condition is true; anything but a bool is an error. */
function holds(condition: Run, frame: Frame): boolean {
  const value = condition(frame);
  if (typeof value !== 'boolean') throw noOverload();
  return value;
}

/** The parts of a comprehension, compiled with its variables in scope. */
interface Parts {
  readonly range: Run;
  /** The types of the keys of the range, and of the result of the macro. */
  readonly key: Type;
  readonly type: Type;
  readonly condition: Run | undefined;
  readonly transform: Run | undefined;
  /** Stores the variables of one entry in the frame. */
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
  /** Number of variables, which are the first arguments. A single one is the value of a list or the key of a map. */
  readonly variables: 1 | 2;
  /** Whether a condition follows the variables, and then a transformation. */
  readonly condition: boolean;
  readonly transform: boolean;
}

/** A macro that iterates over the entries of its receiver. */
export function comprehension(shape: Shape, make: (parts: Parts) => Code): Macro {
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

/** Runs a function for each entry until it returns `true`. */
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

/** all() and exists(): an error counts only if no entry decides the result. */
export const quantifier =
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

export function existsOne(parts: Parts): Code {
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
export function collectList(parts: Parts): Code {
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

export function collectMap(parts: Parts): Code {
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

/** transformMapEntry(): each entry produces a map, whose keys must be unique. */
export function collectEntries(parts: Parts): Code {
  const { condition, transform, type } = parts;
  const run: Run = (frame) => {
    const map = new Map<unknown, unknown>();
    some(parts, frame, () => {
      if (condition !== undefined && !holds(condition, frame)) return false;
      const { keys, values } = entriesOf(transform?.(frame));
      if (keys === undefined) throw noOverload();
      charge(keys.length);
      for (const [index, key] of keys.entries()) {
        const name = mapKey(key);
        if (map.has(name)) throw failure(`insert failed: key ${String(name)} already exists`);
        map.set(name, values[index]);
      }
      return false;
    });
    return map;
  };
  return { type: type.kind === 'map' ? type : mapOf(dyn, dyn), run };
}
