/**
 * Macros that cel-js has not: comprehensions with two variables (cel-go `ext/comprehensions.go`) and `optMap`,
 * `optFlatMap` of the optional types; and `has()` on every form of a selection.
 *
 * @module
 */
import { EvaluationError, Optional, ParseError, type Environment } from '@marcbachmann/cel-js';
import type { Checker, CheckedType, CelNode, Evaluator, Macro, Scope } from './internals.ts';
import { CelObject } from './values.ts';

interface MacroCall {
  readonly args: readonly CelNode[];
  readonly receiver: CelNode;
}

function variableName(node: CelNode | undefined): string {
  if (node?.op === 'id') return node.args as string;
  throw new ParseError({ code: 'invalid_macro_argument', message: 'argument must be a simple name' });
}

const notBool = (): Error =>
  new EvaluationError({ code: 'no_such_overload', message: 'no such overload: the predicate is no bool' });

/** What a comprehension does with the results of its parts for one entry; `false` ends it. */
interface Collector {
  step(parts: readonly (() => unknown)[], key: unknown): boolean;
  result(): unknown;
}

interface Comprehension {
  /** The types of the parts after the variables, and the type of the result. */
  readonly parts: readonly ('bool' | 'any')[];
  type(checker: Checker, parts: readonly CheckedType[], key: CheckedType): CheckedType;
  start(): Collector;
}

function predicate(part: (() => unknown) | undefined): boolean {
  const value = part?.();
  if (typeof value !== 'boolean') throw notBool();
  return value;
}

/** all() and exists(): an error counts only when no entry decides. */
function quantifier(decisive: boolean): Comprehension {
  return {
    parts: ['bool'],
    type: (checker) => checker.getType('bool'),
    start() {
      let [decided, error] = [false, undefined as Error | undefined];
      return {
        step([part]) {
          try {
            decided = predicate(part) === decisive;
          } catch (thrown) {
            error ??= thrown instanceof Error ? thrown : new Error(String(thrown));
          }
          return !decided;
        },
        result() {
          if (!decided && error !== undefined) throw error;
          return decided ? decisive : !decisive;
        },
      };
    },
  };
}

const existsOne: Comprehension = {
  parts: ['bool'],
  type: (checker) => checker.getType('bool'),
  start() {
    let count = 0;
    return {
      step([part]) {
        if (predicate(part)) count++;
        return true;
      },
      result: () => count === 1,
    };
  },
};

function transformList(filtered: boolean): Comprehension {
  return {
    parts: filtered ? ['bool', 'any'] : ['any'],
    type: (checker, parts) => checker.registry.getListType(parts.at(-1) ?? checker.getType('dyn')),
    start() {
      const list: unknown[] = [];
      return {
        step(parts) {
          if (!filtered || predicate(parts[0])) list.push(parts.at(-1)?.());
          return true;
        },
        result: () => list,
      };
    },
  };
}

function transformMap(filtered: boolean): Comprehension {
  return {
    parts: filtered ? ['bool', 'any'] : ['any'],
    type: (checker, parts, key) => checker.registry.getMapType(key, parts.at(-1) ?? checker.getType('dyn')),
    start() {
      const map = new Map<unknown, unknown>();
      return {
        step(parts, key) {
          if (!filtered || predicate(parts[0])) map.set(key, parts.at(-1)?.());
          return true;
        },
        result: () => map,
      };
    },
  };
}

/** Makes the macro of a comprehension over keys and values. */
function expand(comprehension: Comprehension): (call: MacroCall) => object {
  return ({ args, receiver }) => {
    const [keyName, valueName] = [variableName(args[0]), variableName(args[1])];
    const parts = args.slice(2);
    let [keyScope, valueScope] = [undefined as Scope | undefined, undefined as Scope | undefined];
    return {
      async: false,
      typeCheck(checker: Checker, _macro: Macro, scope: Scope): CheckedType {
        const range = checker.check(receiver, scope);
        const [key, value] = entryTypes(checker, range, receiver);
        keyScope = scope.forkWithVariable(keyName, key);
        valueScope = keyScope.forkWithVariable(valueName, value);
        const inner = valueScope;
        const types = parts.map((part) => checker.check(part, inner));
        types.forEach((type, index) => {
          const fits = comprehension.parts[index] !== 'bool' || type.kind === 'dyn' || type.name === 'bool';
          if (!fits)
            throw checker.createError('invalid_condition_type', 'predicate must be bool', parts[index]);
        });
        return comprehension.type(checker, types, key);
      },
      evaluate(evaluator: Evaluator, _macro: Macro, scope: Scope): unknown {
        const range = evaluator.run(receiver, scope);
        const collector = comprehension.start();
        for (const [key, value] of entriesOf(range)) {
          const outer = keyScope?.reuse(scope).setIterValue(key, evaluator);
          const inner = outer && valueScope?.reuse(outer).setIterValue(value, evaluator);
          if (inner === undefined) break;
          const runs = parts.map((part) => () => evaluator.run(part, inner));
          if (!collector.step(runs, key)) break;
        }
        return collector.result();
      },
    };
  };
}

function entryTypes(checker: Checker, range: CheckedType, node: CelNode): [CheckedType, CheckedType] {
  const dyn = checker.getType('dyn');
  if (range.kind === 'list') return [checker.getType('int'), range.valueType ?? dyn];
  if (range.kind === 'map') return [range.keyType ?? dyn, range.valueType ?? dyn];
  if (range.kind === 'dyn') return [dyn, dyn];
  const words = `expression of type '${range.name}' cannot be range of a comprehension (must be list, map, or dynamic)`;
  throw checker.createError('invalid_comprehension_range', words, node);
}

function entriesOf(range: unknown): Iterable<readonly [unknown, unknown]> {
  if (Array.isArray(range)) return range.map((value, index) => [BigInt(index), value] as const);
  if (range instanceof Map && !(range instanceof CelObject)) return range;
  if (typeof range === 'object' && range !== null && Object.getPrototypeOf(range) === Object.prototype) {
    return Object.entries(range);
  }
  throw new EvaluationError({ code: 'invalid_comprehension_range', message: 'no such overload' });
}

/** `optMap(x, f)`: the function on the value where there is one; `optFlatMap`, when it gives an optional itself. */
function expandOptional(flat: boolean): (call: MacroCall) => object {
  return ({ args, receiver }) => {
    const name = variableName(args[0]);
    const body = args[1];
    let inner: Scope | undefined;
    return {
      async: false,
      typeCheck(checker: Checker, _macro: Macro, scope: Scope): CheckedType {
        const type = checker.check(receiver, scope);
        if (type.kind !== 'optional' && type.kind !== 'dyn') {
          throw checker.createError('optional_expected', `'${type.name}' is not optional`, receiver);
        }
        inner = scope.forkWithVariable(name, type.valueType ?? checker.getType('dyn'));
        const result = body === undefined ? checker.getType('dyn') : checker.check(body, inner);
        return flat ? result : checker.registry.getOptionalType(result);
      },
      evaluate(evaluator: Evaluator, _macro: Macro, scope: Scope): unknown {
        const optional = evaluator.run(receiver, scope);
        if (
          !(optional instanceof Optional) ||
          !optional.hasValue() ||
          body === undefined ||
          inner === undefined
        ) {
          return Optional.none();
        }
        const result = evaluator.run(body, inner.reuse(scope).setIterValue(optional.value(), evaluator));
        return flat ? result : Optional.of(result);
      },
    };
  };
}

export function addMacros(environment: Environment): void {
  const add = (signature: string, macro: (call: MacroCall) => object): void => {
    environment.registerFunction(signature, macro as (call: unknown) => object);
  };
  add('list.all(ast, ast, ast): bool', expand(quantifier(false)));
  add('list.exists(ast, ast, ast): bool', expand(quantifier(true)));
  add('list.existsOne(ast, ast, ast): bool', expand(existsOne));
  add('list.exists_one(ast, ast, ast): bool', expand(existsOne));
  add('list.transformList(ast, ast, ast): list', expand(transformList(false)));
  add('list.transformList(ast, ast, ast, ast): list', expand(transformList(true)));
  add('list.transformMap(ast, ast, ast): map', expand(transformMap(false)));
  add('list.transformMap(ast, ast, ast, ast): map', expand(transformMap(true)));
  add('optional.optMap(ast, ast): optional', expandOptional(false));
  add('optional.optFlatMap(ast, ast): optional', expandOptional(true));
}

/**
 * Makes `has()` take any selection and check that the field exists in the type: cel-js takes chains of names
 * only, and a field that the schema does not have for one that is not set.
 */
export function repairHas(node: CelNode): void {
  const macro = node.meta.macro;
  const selection = (node.args as [string, CelNode[]])[1][0];
  if (macro === undefined || selection === undefined || !['.', '.?'].includes(selection.op)) return;
  const [operand, field] = selection.args as [CelNode, string];
  macro.typeCheck = (checker, _macro, scope) => {
    checker.check(selection, scope);
    return checker.getType('bool');
  };
  macro.evaluate = (evaluator, _macro, scope) => {
    const raw = evaluator.run(operand, scope);
    const value = raw instanceof Optional ? (raw.hasValue() ? raw.value() : undefined) : raw;
    if (value === undefined) return false;
    return evaluator.debugType(value).fieldLazy(value, field, selection, evaluator) !== undefined;
  };
}
