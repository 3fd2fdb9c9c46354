/** Runtime errors of expressions, with the messages of cel-go. */
import { charge } from './meter.ts';

/** An error that `||`, `&&`, `all` and `exists` may ignore. */
export class CelError extends Error {}

/** Creating an error takes about as long as this many steps. */
const errorCost = 50;

/** Makes an error. It has no stack trace, which is expensive and contains nothing about the rule. */
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
