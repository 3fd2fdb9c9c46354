/**
 * Macros are calls with special compilation. Those that iterate over lists and maps are in `comprehensions.ts`; this file
 * has `has`, `cel.bind`, those for optionals, and the table of all.
 */
import { isPresent } from './access.ts';
import { CompileError, type Compiling, type Run } from './code.ts';
import {
  collectEntries,
  collectList,
  collectMap,
  comprehension,
  existsOne,
  quantifier,
  variableName,
  type Macro,
} from './comprehensions.ts';
import { noOverload } from './failure.ts';
import { charge } from './meter.ts';
import { bool, dyn, optionalOf, typeText, unify, type Type } from './static-types.ts';
import type { ASTNode } from './syntax.ts';
import { Optional } from './values.ts';

/** Whether a field or the key of a map exists. */
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

/** Compiles an operand that may be an optional. `held` is the type of the optional's value. */
function compileOptional(compiler: Compiling, receiver: ASTNode): { held: Type; run: Run } {
  const { type, run } = compiler.compile(receiver);
  if (type.kind !== 'optional' && type.kind !== 'dyn')
    throw new CompileError(receiver, `expected type 'optional_type' but found '${typeText(type)}'`);
  return {
    held: type.element ?? dyn,
    run: (frame) => (charge(1), run(frame)),
  };
}

/** `optMap(x, f)`: applies the function to the value if there is one; `optFlatMap`, if it returns an optional itself. */
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
          const found = optional.run(frame);
          if (!(found instanceof Optional)) throw noOverload();
          if (found.value === undefined) return Optional.none;
          frame[place] = found.value;
          return flat ? run(frame) : Optional.of(run(frame));
        },
      };
    });
  };

/**
 * `or()` and `orValue()`, whose argument runs only if needed. A receiver that is not an optional is itself the result
 * (cel-go 0.26); for `dyn`, that is known only at run time.
 */
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
        return !flat && found instanceof Optional ? found.value : found;
      },
    };
  };

const one = { variables: 1, condition: true, transform: false } as const;
const two = { variables: 2, condition: true, transform: false } as const;

/** Keyed by name and number of arguments; methods start with a dot. */
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
  [
    '.transformMapEntry/3',
    comprehension({ variables: 2, condition: false, transform: true }, collectEntries),
  ],
  ['.transformMapEntry/4', comprehension({ variables: 2, condition: true, transform: true }, collectEntries)],
  ['.optMap/2', mapOptional(false)],
  ['.optFlatMap/2', mapOptional(true)],
  ['.or/1', otherwise(true)],
  ['.orValue/1', otherwise(false)],
]);
