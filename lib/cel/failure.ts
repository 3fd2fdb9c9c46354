/** Runtime errors of expressions. The rule fails with their message, which is that of cel-go. */
import { charge } from './meter.ts';

/** An error that `||`, `&&`, `all` and `exists` may swallow. */
export class CelError extends Error {}

/** Creating an error takes about as long as this many steps. */
const errorCost = 50;

/** The error of a function. It has no stack, which is expensive and says nothing about the rule. */
export function failure(message: string): CelError {
  charge(errorCost);
  const depth = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return new CelError(message);
  } finally {
    Error.stackTraceLimit = depth;
  }
}

export const noOverload = (): CelError => failure('no such overload');
