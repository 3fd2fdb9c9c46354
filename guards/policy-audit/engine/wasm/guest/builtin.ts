/** The context of Rego's builtins, and checks of the types of their operands. */
import type { Regex } from '../../../../../lib/regex/regex.ts';
import { typeName } from './rego-value.ts';

/** Context of one evaluation. */
export interface BuiltinContext {
  /** Writes to the log. */
  readonly say: (text: string) => void;
  /** Nanoseconds since 1970: the same for the whole evaluation. */
  readonly now: bigint;
  /** Results that must stay the same if an evaluation requests them again. */
  readonly kept: Map<string, unknown>;
  /** Compiled regular expressions, which may outlive the evaluation. */
  readonly expressions: Map<string, Regex>;
}

/**
 * Values are those of `rego-value.ts`. `undefined` makes the calling expression undefined, which few builtins do.
 *
 * @throws {BuiltinError} for an error, which ends the evaluation, as in Open Policy Agent's own hosts of WebAssembly and in Kubewarden:
 *   were the expression undefined instead, a rule that denies would not apply.
 */
export type Builtin = (args: readonly unknown[], context: BuiltinContext) => unknown;

/** Its message gives the reason, without the name of the builtin. */
export class BuiltinError extends Error {
  override readonly name = 'BuiltinError';
}

export function newContext(
  say: (text: string) => void,
  expressions: BuiltinContext['expressions'] = new Map(),
): BuiltinContext {
  return {
    say,
    now: BigInt(Date.now()) * 1_000_000n,
    kept: new Map(),
    expressions,
  };
}

export const operandError = (at: number, expected: string, value: unknown): BuiltinError =>
  new BuiltinError(`operand ${at + 1} must be ${expected} but is ${typeName(value)}`);

export function textAt(args: readonly unknown[], at: number): string {
  const value = args[at];
  if (typeof value !== 'string') throw operandError(at, 'string', value);
  return value;
}

export function integerAt(args: readonly unknown[], at: number): bigint {
  const value = args[at];
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number' && Number.isInteger(value)) return BigInt(value);
  throw operandError(at, 'integer', value);
}

/** The members of an array or a set. */
export function membersAt(args: readonly unknown[], at: number): readonly unknown[] {
  const value = args[at];
  if (Array.isArray(value)) return value;
  if (value instanceof Set) return [...value];
  throw operandError(at, 'array or set', value);
}

/** A builtin whose operands are all strings. */
export function ofTexts(make: (...texts: string[]) => unknown): Builtin {
  return (args) => make(...args.map((_, at) => textAt(args, at)));
}
