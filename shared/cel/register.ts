/**
 * How functions are added to a CEL environment.
 *
 * @module
 */
import { EvaluationError, type Environment } from '@marcbachmann/cel-js';

/** Adds functions, which take their receiver as first argument. */
export class Library {
  readonly environment: Environment;

  constructor(environment: Environment) {
    this.environment = environment;
  }

  /** `string.charAt(int): string`. The handler gets values of the types that the signature names. */
  add(signature: string, handler: (...values: never[]) => unknown): this {
    this.environment.registerFunction(signature, handler, { async: false });
    return this;
  }

  /** A type of its own, compared by `equals`. */
  type(name: string, constructor: new (...values: never[]) => { equals(other: unknown): boolean }): this {
    this.environment.registerType(name, constructor as new () => object);
    this.environment.registerOperator(
      `${name} == ${name}`,
      (a: { equals(other: unknown): boolean }, b: unknown) => a.equals(b),
    );
    return this;
  }

  /** A name before the dot: `sets.contains(...)`. Its functions have it as their receiver. */
  namespace(name: string, typeName: string): this {
    class Namespace {
      readonly name = name;
    }
    this.environment.registerType(typeName, Namespace);
    this.environment.registerConstant(name, typeName, new Namespace());
    return this;
  }
}

/** The error of a function that cannot answer; the rule fails with its message. */
export function failure(message: string): Error {
  return new EvaluationError({ code: 'function_failed', message });
}
