/** Tables of builtins of Rego: operands, and the result or the error. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { BuiltinError, newContext } from './builtin.ts';
import { builtins } from './rego-builtins.ts';
import { shownValue, valueText } from './rego-value.ts';

const context = newContext(() => undefined);

export function call(name: string, ...args: readonly unknown[]): unknown {
  return builtins[name]?.(args, context);
}

/** The message of an error; operands that cannot be read as what the builtin needs. */
class Failure {
  readonly message: RegExp;

  constructor(message: RegExp) {
    this.message = message;
  }
}

export const error = (message: RegExp): Failure => new Failure(message);
export const set = (...members: readonly unknown[]): Set<unknown> => new Set(members);

type Cases = readonly (readonly [name: string, args: readonly unknown[], expected: unknown])[];

export function judge(title: string, cases: Cases): void {
  suite(title, () => {
    for (const [name, args, expected] of cases) {
      test(`${name}(${args.map(shownValue).join(', ')})`, () => {
        if (expected instanceof Failure) {
          assert.throws(
            () => call(name, ...args),
            (thrown) => thrown instanceof BuiltinError && expected.message.test(thrown.message),
          );
          return;
        }
        const result = call(name, ...args);
        assert.equal(
          result === undefined ? undefined : valueText(result),
          expected === undefined ? undefined : valueText(expected),
        );
      });
    }
  });
}
